package wasmhost_test

import (
	"crypto/sha256"
	"testing"

	"github.com/pawlsync/pawl/engine/wasmhost"
)

func TestADigestInPiecesIsTheWholesSHA256(t *testing.T) {
	for _, n := range []int{0, 1, 128 << 10, 128<<10 + 1, 1 << 20} {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i * 7)
		}
		if wasmhost.Digest(b) != sha256.Sum256(b) {
			t.Errorf("of %d bytes it is another one", n)
		}
	}
}
