//go:build !linux

package wholefile

import "os"

// flush leaves it to Finish here.
func flush(*os.File, int64, int64) error { return nil }
