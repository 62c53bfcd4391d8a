//go:build !wasip1

package pawl

// register has nobody to tell: the program is not a plugin, but its test.
func register(Manifest, Adapter) {}
