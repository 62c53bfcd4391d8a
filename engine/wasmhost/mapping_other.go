//go:build !unix

package wasmhost

// mapping is memory on Go's heap. It grows by half at least, so that a guest
// that grows page by page is not copied each time.
type mapping struct{ all []byte }

func (m *mapping) grow(size, most uint64) []byte {
	if size > uint64(cap(m.all)) {
		all := make([]byte, len(m.all), min(max(size, uint64(cap(m.all))*3/2), most))
		copy(all, m.all)
		m.all = all
	}
	m.all = m.all[:max(size, uint64(len(m.all)))]
	return m.all[:size]
}

func (m *mapping) release() { m.all = nil }
