package meter

// imm says which immediates follow an opcode.
type imm uint8

const (
	immNone imm = iota
	immUnknown
	immBlock     // block, loop, if: a block type
	immElse      // else
	immEnd       // end
	immBr        // br, br_if: a label
	immBrTable   // labels, and the default one
	immCall      // a function
	immIndirect  // a type and a table
	immLocal     // a local
	immGlobal    // a global
	immTable     // a table
	immMemArg    // alignment and offset
	immMemory    // one zero byte
	immI32       // a constant
	immI64       // a constant
	imm4         // 4 bytes
	imm8         // 8 bytes
	imm16        // 16 bytes
	immRefType   // a reference type
	immRefFunc   // a function
	immSelect    // a vector of one value type
	immLane      // a lane
	immMemLane   // alignment, offset, lane
	immMisc      // 0xfc: another opcode
	immVector    // 0xfd: another opcode
	immDataMem   // a data segment and a zero byte
	immData      // a data segment
	immTwoMem    // two zero bytes
	immElemTable // an element segment and a table
	immElem      // an element segment
	immTwoTables // two tables
)

// instr is what the rewriter knows of an opcode.
type instr struct {
	imm  imm
	cost uint16 // units, one of them about the work of an addition
	// dynamic is the cost by the count that is on top of the stack.
	dynamic dynamic
}

// dynamic is the cost of an instruction whose work depends on an operand.
type dynamic struct {
	shift uint8 // the count is charged in units of 1<<shift
	mul   uint16
	grow  bool // the count may be too large, in which case nothing is done
}

// The opcodes which the decoder handles by name.
const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opBrTable     = 0x0e
	opReturn      = 0x0f
	opCall        = 0x10
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opLocalTee    = 0x22
	opGlobalGet   = 0x23
	opGlobalSet   = 0x24
	opI32Const    = 0x41
	opI64Const    = 0x42
	opRefNull     = 0xd0
	opRefFunc     = 0xd2
	opVector      = 0xfd
)

// What calls and the like cost beside what they do.
const (
	costCall     = 6
	costIndirect = 20
	costHostCall = 100
	costDivide   = 12
	costGrow     = 1000
)

var (
	plain  [256]instr // one byte
	misc   [256]instr // after 0xfc
	vector [256]instr // after 0xfd
)

func init() {
	for i := range plain {
		plain[i].imm, misc[i].imm, vector[i].imm = immUnknown, immUnknown, immUnknown
	}
	set := func(t *[256]instr, from, to int, m imm, cost uint16) {
		for i := from; i <= to; i++ {
			t[i] = instr{imm: m, cost: cost}
		}
	}
	set(&plain, 0x00, 0x01, immNone, 0) // unreachable, nop
	set(&plain, 0x02, 0x03, immBlock, 0)
	set(&plain, 0x04, 0x04, immBlock, 1)
	set(&plain, 0x05, 0x05, immElse, 0)
	set(&plain, 0x0b, 0x0b, immEnd, 0)
	set(&plain, 0x0c, 0x0d, immBr, 1)
	set(&plain, 0x0e, 0x0e, immBrTable, 3)
	set(&plain, 0x0f, 0x0f, immNone, 1)
	set(&plain, 0x10, 0x10, immCall, costCall)
	set(&plain, 0x11, 0x11, immIndirect, costIndirect)
	set(&plain, 0x1a, 0x1a, immNone, 0)
	set(&plain, 0x1b, 0x1b, immNone, 1)
	set(&plain, 0x1c, 0x1c, immSelect, 1)
	set(&plain, 0x20, 0x22, immLocal, 1)
	set(&plain, 0x23, 0x24, immGlobal, 1)
	set(&plain, 0x25, 0x26, immTable, 3)
	set(&plain, 0x28, 0x3e, immMemArg, 1)
	set(&plain, 0x3f, 0x3f, immMemory, 1)
	plain[0x40] = instr{immMemory, costGrow, dynamic{mul: 4096, grow: true}}
	set(&plain, 0x41, 0x41, immI32, 1)
	set(&plain, 0x42, 0x42, immI64, 1)
	set(&plain, 0x43, 0x43, imm4, 1)
	set(&plain, 0x44, 0x44, imm8, 1)
	set(&plain, 0x45, 0xc4, immNone, 1)
	for _, op := range []int{0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82, 0x91, 0x95, 0x9f, 0xa3} {
		plain[op].cost = costDivide // div, rem, sqrt
	}
	set(&plain, 0x8d, 0x90, immNone, 2) // rounding
	set(&plain, 0x9b, 0x9e, immNone, 2)
	set(&plain, 0x96, 0x97, immNone, 4) // min, max
	set(&plain, 0xa4, 0xa5, immNone, 4)
	set(&plain, 0xa8, 0xab, immNone, 6) // truncation traps out of range
	set(&plain, 0xae, 0xb1, immNone, 6)
	set(&plain, 0xd0, 0xd0, immRefType, 1)
	set(&plain, 0xd1, 0xd1, immNone, 1)
	set(&plain, 0xd2, 0xd2, immRefFunc, 3)
	set(&plain, 0xfc, 0xfc, immMisc, 0)
	set(&plain, 0xfd, 0xfd, immVector, 0)

	set(&misc, 0, 7, immNone, 6)
	misc[8] = instr{immDataMem, 30, dynamic{shift: 4, mul: 1}}
	misc[9] = instr{immData, 4, dynamic{}}
	misc[10] = instr{immTwoMem, 30, dynamic{shift: 4, mul: 1}}
	misc[11] = instr{immMemory, 30, dynamic{shift: 4, mul: 1}}
	misc[12] = instr{immElemTable, 30, dynamic{mul: 2}}
	misc[13] = instr{immElem, 4, dynamic{}}
	misc[14] = instr{immTwoTables, 30, dynamic{mul: 1}}
	misc[15] = instr{immTable, costGrow, dynamic{mul: 8, grow: true}}
	misc[16] = instr{immTable, 2, dynamic{}}
	misc[17] = instr{immTable, 30, dynamic{mul: 1}}

	set(&vector, 0x00, 0x0b, immMemArg, 2)
	set(&vector, 0x0c, 0x0c, imm16, 2)
	set(&vector, 0x0d, 0x0d, imm16, 4)
	set(&vector, 0x0e, 0x14, immNone, 4)
	set(&vector, 0x15, 0x22, immLane, 3)
	set(&vector, 0x23, 0x53, immNone, 3)
	set(&vector, 0x54, 0x5b, immMemLane, 3)
	set(&vector, 0x5c, 0x5d, immMemArg, 2)
	set(&vector, 0x5e, 0xff, immNone, 6)
	for _, op := range []int{0x9a, 0xa2, 0xa5, 0xa6, 0xaf, 0xb0, 0xb2, 0xb3, 0xb4, 0xbb,
		0xc2, 0xc5, 0xc6, 0xcf, 0xd0, 0xd2, 0xd3, 0xd4, 0xe2, 0xee} {
		vector[op].imm = immUnknown
	}
	for _, op := range []int{0x6b, 0x6c, 0x8b, 0x8c, 0x8d, 0xcb, 0xcc, 0xcd, 0xe3, 0xe7, 0xef, 0xf3} {
		vector[op].cost = costDivide // shifts of bytes, sqrt, div
	}
}
