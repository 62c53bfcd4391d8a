package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"

	"github.com/pawlsync/pawl/engine/record"
)

// hash is the hash of content of a resource, as it is shown: h in hexadecimal, "" for
// the zero Hash. Where the resource's sink has sensitive paths, it is keyed, since
// whoever sees the rest of a payload could try out by its hash what a short secret is.
// The resource is in it too: else a caller could put guesses elsewhere and compare.
// Equal content of one resource has equal hashes for as long as the daemon runs.
func (s *Server) hash(key record.Key, h record.Hash) string {
	if h.IsZero() || !s.mask(key.Sink).Hides() {
		return h.Hex()
	}
	mac := hmac.New(sha256.New, s.hashKey[:])
	mac.Write(h[:]) // of a fixed length, so that what follows is told apart
	_, _ = io.WriteString(mac, key.Sink+"\x00"+key.Name)
	return hex.EncodeToString(mac.Sum(nil))
}
