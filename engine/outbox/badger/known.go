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

// probe returns the word and the three bits in it that stand for key: one word, so
// that a look costs one miss of the processor's cache.
func (k *known) probe(key record.Key) (word *atomic.Uint64, bits uint64) {
	h := maphash.Comparable(k.seed, key)
	return &k.words[h>>20%uint64(len(k.words))], 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63)
}

func (k *known) add(key record.Key) {
	word, bits := k.probe(key)
	if word.Load()&bits != bits {
		word.Or(bits)
	}
}

// isNew reports that nothing of key is stored, for sure.
func (k *known) isNew(key record.Key) bool {
	if !k.complete.Load() {
		return false
	}
	word, bits := k.probe(key)
	return word.Load()&bits != bits
}
