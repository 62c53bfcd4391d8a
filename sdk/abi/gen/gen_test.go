package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the vectors and the reference anew")

func TestTheVectorsAndTheReferenceAreFresh(t *testing.T) {
	if *update {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	want, page, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob("../vectors/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want[filepath.Base(path)]) {
			t.Errorf("%s is out of date; run: make generate", path)
		}
		delete(want, filepath.Base(path))
	}
	for name := range want {
		t.Errorf("%s is missing; run: make generate", name)
	}
	if got, err := os.ReadFile(referencePath); err != nil {
		t.Error(err)
	} else if !bytes.Equal(got, page) {
		t.Errorf("%s is out of date; run: make generate", referencePath)
	}
}
