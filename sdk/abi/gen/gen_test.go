package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTheVectorsAreThoseOfTheCasesAndTheSchema(t *testing.T) {
	want, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob("../vectors/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		name := filepath.Base(path)
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want[name]) {
			t.Errorf("%s is out of date; make it again with \"go run .\" in sdk/abi/gen", path)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("%s is missing; make it with \"go run .\" in sdk/abi/gen", name)
	}
}
