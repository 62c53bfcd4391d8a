package badger

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/pawlsync/pawl/engine/record"
)

// known tells for most keys that nothing is stored of them, so that a Put of a new
// resource need not look through all of Badger's tables for it. It is a Bloom
// filter: it may take a new key for a known one, which costs a look, but never a
// known one for new. It is complete once every key has been listed, as the engine
// does when it opens; until then it takes all keys for known. Of keys that were
// removed it goes on saying "known"; the next Open begins anew.
//
// In the same way it tells that a key has no status yet: what was put and never
// delivered, as all of a source that is sent for the first time, is read with one look
// instead of two.
type known struct {
	seed     maphash.Seed
	complete atomic.Bool
	words    []atomic.Uint64
}

// knownBits is for some five million keys at a hundredth or two of wrong guesses; 8 MiB.
const knownBits = 1 << 26

func newKnown() *known {
	return &known{seed: maphash.MakeSeed(), words: make([]atomic.Uint64, knownBits/64)}
}

// probe returns the word and the bits in it that stand for key, three for it and three
// more for its status: one word, so that a look costs one miss of the processor's cache.
func (k *known) probe(key record.Key) (word *atomic.Uint64, bits, status uint64) {
	h := maphash.Comparable(k.seed, key)
	return &k.words[h>>20%uint64(len(k.words))], threeOf(h), threeOf(h >> 40)
}

// threeOf returns a word with the three bits set that the last eighteen of h name.
func threeOf(h uint64) uint64 { return 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) }

// add makes key known, and where it has one, its status.
func (k *known) add(key record.Key, hasStatus bool) {
	word, bits, status := k.probe(key)
	if hasStatus {
		bits |= status
	}
	if word.Load()&bits != bits {
		word.Or(bits)
	}
}

// isNew reports that nothing of key is stored, for sure.
func (k *known) isNew(key record.Key) bool {
	if !k.complete.Load() {
		return false
	}
	word, bits, _ := k.probe(key)
	return word.Load()&bits != bits
}

// mayHaveStatus reports false where no status of key is stored, for sure.
func (k *known) mayHaveStatus(key record.Key) bool {
	if !k.complete.Load() {
		return true
	}
	word, _, status := k.probe(key)
	return word.Load()&status == status
}
