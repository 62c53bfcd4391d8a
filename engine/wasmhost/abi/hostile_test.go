package abi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// Small things in great number would take many times what the message does.
func TestTheNumberOfPairsIsBounded(t *testing.T) {
	headers := func(n int) []byte { return []byte(strings.Repeat("\x22\x00", n)) }
	if q, err := abi.DecodeHTTPRequest(headers(abi.MaxPairs)); err != nil || len(q.Header) != abi.MaxPairs {
		t.Error(err)
	}
	if _, err := abi.DecodeHTTPRequest(headers(abi.MaxPairs + 1)); !errors.Is(err, abi.ErrMalformed) || !strings.Contains(err.Error(), "headers") {
		t.Errorf("%v", err)
	}
	result := func(n int) []byte {
		var meta string
		for i := range n {
			meta += fmt.Sprintf("\x62\x06\x0a\x04%04d", i)
		}
		o := []byte{0x08, 0x01, 0x2a, byte(len(meta)&0x7f | 0x80), byte(len(meta) >> 7)} // two bytes of length
		return append(o, meta...)
	}
	if r, err := abi.DecodeResult(result(abi.MaxPairs)); err != nil || len(r.Observation.Meta) != abi.MaxPairs {
		t.Error(err)
	}
	if _, err := abi.DecodeResult(result(abi.MaxPairs + 1)); !errors.Is(err, abi.ErrMalformed) || !strings.Contains(err.Error(), "meta") {
		t.Errorf("%v", err)
	}
}
