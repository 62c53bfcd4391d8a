// The guest of the metering benchmarks and tests: work of several kinds.
package main

import (
	"encoding/json"
	"slices"
	"strings"
)

func main() {}

var document = func() []byte {
	type item struct {
		Name   string         `json:"name"`
		Labels map[string]any `json:"labels"`
		Ports  []int          `json:"ports"`
		Weight float64        `json:"weight"`
	}
	var items []item
	for i := range 40 {
		items = append(items, item{
			Name:   strings.Repeat("x", i) + "\n\"quoted\"",
			Labels: map[string]any{"app": "web", "tier": i, "on": i%2 == 0, "none": nil},
			Ports:  []int{80, 443, 8080 + i},
			Weight: float64(i) / 7,
		})
	}
	b, err := json.Marshal(items)
	if err != nil {
		panic(err)
	}
	return b
}()

// parse decodes and encodes a document of some kilobytes n times.
//
//go:wasmexport parse
func parse(n int32) int64 {
	var sum int64
	for range n {
		var v any
		if err := json.Unmarshal(document, &v); err != nil {
			panic(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		sum = sum*31 + int64(len(b)) + int64(b[len(b)/2])
	}
	return sum
}

// sortNumbers sorts n numbers.
//
//go:wasmexport sort_numbers
func sortNumbers(n int32) int64 {
	a := make([]uint32, n)
	x := uint32(1)
	for i := range a {
		x = x*1664525 + 1013904223
		a[i] = x
	}
	slices.Sort(a)
	return int64(a[len(a)/2])
}

// fib calls itself.
//
//go:wasmexport fib
func fib(n int32) int64 {
	if n < 2 {
		return int64(n)
	}
	return fib(n-1) + fib(n-2)
}

// nest recurses n deep.
//
//go:wasmexport nest
func nest(n int32) int64 {
	if n == 0 {
		return 0
	}
	return nest(n-1) + 1
}

// nestJSON decodes a document whose arrays nest n deep.
//
//go:wasmexport nest_json
func nestJSON(n int32) int64 {
	var v any
	if err := json.Unmarshal([]byte(strings.Repeat("[", int(n))+strings.Repeat("]", int(n))), &v); err != nil {
		return -1
	}
	return int64(n)
}
