package wasmasm

import (
	"encoding/binary"
	"slices"
)

// Code is a sequence of instructions, without the end of the function.
type Code []byte

// Seq is one thing after the other.
func Seq(parts ...Code) Code { return slices.Concat(parts...) }

// Repeat is n times the same.
func Repeat(n int, c Code) Code { return slices.Repeat(c, n) }

// Instructions without operands of their own.
var (
	Unreachable = Code{0x00}
	Nop         = Code{0x01}
	Return      = Code{0x0f}
	Drop        = Code{0x1a}
	I32Eqz      = Code{0x45}
	I32Eq       = Code{0x46}
	I32Ne       = Code{0x47}
	I32LtU      = Code{0x49}
	I32GtS      = Code{0x4a}
	I64Eq       = Code{0x51}
	I64Ne       = Code{0x52}
	I64LtU      = Code{0x54}
	I32Add      = Code{0x6a}
	I32Sub      = Code{0x6b}
	I32Mul      = Code{0x6c}
	I32Shl      = Code{0x74}
	I64Add      = Code{0x7c}
	I64Sub      = Code{0x7d}
	I64Mul      = Code{0x7e}
	I64DivU     = Code{0x80}
	I32Wrap     = Code{0xa7} // of an i64
	I64Extend   = Code{0xad} // of an i32, unsigned

	MemorySize = Code{0x3f, 0}
	MemoryGrow = Code{0x40, 0}
	MemoryCopy = Code{0xfc, 10, 0, 0}
	MemoryFill = Code{0xfc, 11, 0}
)

// Loads and stores at the address on the stack plus 0.
var (
	Load32   = Code{0x28, 2, 0}
	Load64   = Code{0x29, 3, 0}
	Load8U   = Code{0x2d, 0, 0}
	Store32  = Code{0x36, 2, 0}
	Store64  = Code{0x37, 3, 0}
	Store8   = Code{0x3a, 0, 0}
	Load128  = Code{0xfd, 0, 4, 0}
	Store128 = Code{0xfd, 11, 4, 0}
)

// I32 and I64 push a constant.
func I32(v int) Code   { return append(Code{0x41}, SLEB(int64(v))...) }
func I64(v int64) Code { return append(Code{0x42}, SLEB(v)...) }

// Get, Set and Tee are those of a local.
func Get(local int) Code { return index(0x20, local) }
func Set(local int) Code { return index(0x21, local) }
func Tee(local int) Code { return index(0x22, local) }

// GlobalGet and GlobalSet are those of a global.
func GlobalGet(global int) Code { return index(0x23, global) }
func GlobalSet(global int) Code { return index(0x24, global) }

// Call calls the function of that index.
func Call(function int) Code { return index(0x10, function) }

// CallIndirect calls through a table, by the type of that index.
func CallIndirect(typ, table int) Code { return append(index(0x11, typ), ULEB(table)...) }

// RefNull and RefFunc push a reference to no function, and to one.
var RefNull = Code{0xd0, FuncRef}

func RefFunc(function int) Code { return index(0xd2, function) }

// TableGet, TableSet, TableGrow, TableSize and TableFill are those of a table.
func TableGet(table int) Code  { return index(0x25, table) }
func TableSet(table int) Code  { return index(0x26, table) }
func TableGrow(table int) Code { return append(Code{0xfc, 15}, ULEB(table)...) }
func TableSize(table int) Code { return append(Code{0xfc, 16}, ULEB(table)...) }
func TableFill(table int) Code { return append(Code{0xfc, 17}, ULEB(table)...) }

// TableCopy copies from one table to another.
func TableCopy(to, from int) Code { return slices.Concat(Code{0xfc, 14}, ULEB(to), ULEB(from)) }

// TableInit and MemoryInit copy from a segment; the Drops empty one.
func TableInit(segment, table int) Code {
	return slices.Concat(Code{0xfc, 12}, ULEB(segment), ULEB(table))
}
func MemoryInit(segment int) Code { return slices.Concat(Code{0xfc, 8}, ULEB(segment), Code{0}) }
func DataDrop(segment int) Code   { return append(Code{0xfc, 9}, ULEB(segment)...) }
func ElemDrop(segment int) Code   { return append(Code{0xfc, 13}, ULEB(segment)...) }

// Block, Loop and If have no parameters and no results. If runs then when the
// i32 that cond leaves is not 0.
func Block(body ...Code) Code           { return enclose(0x02, body) }
func Loop(body ...Code) Code            { return enclose(0x03, body) }
func If(cond Code, then ...Code) Code   { return Seq(cond, enclose(0x04, then)) }
func enclose(op byte, body []Code) Code { return Seq(Code{op, 0x40}, Seq(body...), Code{0x0b}) }

// Br, BrIf and BrTable jump to a label, 0 being the innermost.
func Br(label int) Code   { return index(0x0c, label) }
func BrIf(label int) Code { return index(0x0d, label) }
func BrTable(labels []int, otherwise int) Code {
	c := append(Code{0x0e}, ULEB(len(labels))...)
	for _, l := range append(slices.Clone(labels), otherwise) {
		c = append(c, ULEB(l)...)
	}
	return c
}

// Forever runs body in a loop without an end.
func Forever(body ...Code) Code { return Loop(Seq(body...), Br(0)) }

// Times runs body n times; counter is an i32 local.
func Times(n, counter int, body ...Code) Code {
	return Seq(I32(n), Set(counter), Loop(
		Seq(body...),
		Get(counter), I32(1), I32Sub, Tee(counter), BrIf(0)))
}

func index(op byte, i int) Code { return append(Code{op}, ULEB(i)...) }

// ULEB encodes an unsigned number.
func ULEB(v int) []byte { return binary.AppendUvarint(nil, uint64(v)) }

// SLEB encodes a signed number.
func SLEB(v int64) []byte {
	var b []byte
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// Str encodes bytes with their length before them.
func Str(s string) []byte { return append(ULEB(len(s)), s...) }

// Vec encodes items with their number before them.
func Vec(items ...[]byte) []byte { return append(ULEB(len(items)), slices.Concat(items...)...) }
