//go:build wasip1

// Command extism is plugins/testguest/null for Extism, written against Extism's
// imports: it takes all of its input into its memory, eight bytes at
// a time, which is as fast as they allow, and answers at once.
package main

//go:wasmimport extism:host/env input_length
func inputLength() uint64

//go:wasmimport extism:host/env input_load_u64
func inputLoad8(offset uint64) uint64

//go:wasmimport extism:host/env input_load_u8
func inputLoad1(offset uint64) uint32

//go:wasmimport extism:host/env alloc
func alloc(n uint64) uint64

//go:wasmimport extism:host/env store_u64
func store8(offset, v uint64)

//go:wasmimport extism:host/env output_set
func outputSet(offset, n uint64)

var input []byte

//go:wasmexport apply
func apply() int32 {
	n := inputLength()
	input = input[:0]
	i := uint64(0)
	for ; i+8 <= n; i += 8 {
		v := inputLoad8(i)
		input = append(input, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
	}
	for ; i < n; i++ {
		input = append(input, byte(inputLoad1(i)))
	}
	return answer()
}

// applyByByte is apply with the simpler import.
//
//go:wasmexport apply_by_byte
func applyByByte() int32 {
	n := inputLength()
	input = input[:0]
	for i := uint64(0); i < n; i++ {
		input = append(input, byte(inputLoad1(i)))
	}
	return answer()
}

func answer() int32 {
	out := alloc(8)
	store8(out, uint64(len(input)))
	outputSet(out, 8)
	return 0
}

func main() {}
