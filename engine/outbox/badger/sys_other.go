//go:build !linux

package badger

import "os"

func fdatasync(f *os.File) error { return f.Sync() }
