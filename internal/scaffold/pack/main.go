// Command pack puts the files of an SDK into an archive: sorted, without times,
// so that the same files give the same bytes.
//
//	go run ./internal/scaffold/pack sdk/go internal/scaffold/sdk/go.zip
//
// Left out are what is hidden, what a build leaves behind, and Go's tests, which
// are about the SDK alone; but not those of examples, which become a project's.
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pack FOLDER OUT.zip")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// run writes the archive if it is another than the one that is there.
func run(dir, out string) error {
	archive, err := pack(os.DirFS(dir))
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(out); err == nil && bytes.Equal(old, archive) {
		return nil
	}
	fmt.Println("packed", out)
	return os.WriteFile(out, archive, 0o644)
}

func pack(files fs.FS) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	// WalkDir goes in lexical order.
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || p == ".":
			return err
		case leftOut(p, d) && d.IsDir():
			return fs.SkipDir
		case leftOut(p, d) || !d.Type().IsRegular():
			return nil
		}
		return add(z, files, p, d)
	})
	if err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func leftOut(p string, d fs.DirEntry) bool {
	if strings.HasPrefix(d.Name(), ".") {
		return true
	}
	if d.IsDir() {
		return d.Name() == "target"
	}
	switch path.Ext(p) {
	case ".wasm", ".o", ".lock":
		return true
	}
	return strings.HasSuffix(p, "_test.go") && !strings.HasPrefix(p, "examples/")
}

func add(z *zip.Writer, files fs.FS, p string, d fs.DirEntry) error {
	content, err := fs.ReadFile(files, p)
	if err != nil {
		return err
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	h := &zip.FileHeader{Name: p, Method: zip.Deflate}
	h.SetMode(0o644 | info.Mode()&0o100)
	w, err := z.CreateHeader(h)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}
