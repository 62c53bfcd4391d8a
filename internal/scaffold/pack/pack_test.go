package main

import (
	"archive/zip"
	"bytes"
	"slices"
	"testing"
	"testing/fstest"
	"time"
)

func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	files := fstest.MapFS{
		"a.go":                 {Data: []byte("package a"), ModTime: time.Unix(1, 0)},
		"a_test.go":            {Data: []byte("package a")},
		"build.sh":             {Data: []byte("#!/bin/sh"), Mode: 0o755},
		"examples/x/x_test.go": {Data: []byte("package x")},
		".git/config":          {Data: []byte("x")},
		"target/debug/x":       {Data: []byte("x")},
		"x.wasm":               {Data: []byte("x")},
	}
	first, err := pack(files)
	if err != nil {
		t.Fatal(err)
	}
	files["a.go"].ModTime = time.Unix(2, 0)
	second, err := pack(files)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("another time of a file gave other bytes (%v)", err)
	}
	z, err := zip.NewReader(bytes.NewReader(first), int64(len(first)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
		if executable := f.Mode()&0o100 != 0; executable != (f.Name == "build.sh") {
			t.Errorf("%s: mode %v", f.Name, f.Mode())
		}
	}
	if want := []string{"a.go", "build.sh", "examples/x/x_test.go"}; !slices.Equal(names, want) {
		t.Errorf("packed were %q, want %q", names, want)
	}
}
