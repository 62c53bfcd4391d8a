//go:build !linux

package badger

import "os"

func fdatasync(f *os.File) error { return f.Sync() }

// nextData can't tell holes from data here.
func nextData(_ *os.File, offset, _ int64) int64 { return offset }

// releaseMapped leaves it to the system.
func releaseMapped(string) {}
