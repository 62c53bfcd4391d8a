package wasmasm

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Import is a function that every Guest imports.
type Import struct{ Module, Name, Sig string }

// Imports are the imports of every Guest, in the order of their indices.
var Imports = []Import{
	{"pawl_v1", "input_len", ":i"},
	{"pawl_v1", "input_read", "i:"},
	{"pawl_v1", "result", "Iii:i"},
	{"pawl_v1", "io_start", "Iiii:I"},
	{"pawl_v1", "io_cancel", "I:"},
	{"pawl_v1", "io_call", "Iiii:i"},
	{"pawl_v1", "log", "Iiii:"},
	{"wasi_snapshot_preview1", "proc_exit", "i:"},
	{"wasi_snapshot_preview1", "fd_write", "iiii:i"},
	{"wasi_snapshot_preview1", "random_get", "ii:i"},
	{"wasi_snapshot_preview1", "clock_time_get", "iIi:i"},
	{"wasi_snapshot_preview1", "poll_oneoff", "iiii:i"},
	{"wasi_snapshot_preview1", "sched_yield", ":i"},
}

// CallImport calls the import of that name.
func CallImport(name string) Code {
	i := slices.IndexFunc(Imports, func(f Import) bool { return f.Name == name })
	if i < 0 {
		panic("wasmasm: no guest imports " + name)
	}
	return Call(i)
}

// The functions that every Guest exports. Their indices follow the imports; a
// Guest with Imports of its own has them later.
var ownFuncs = []string{"pawl_abi", "pawl_start", "pawl_resume", "pawl_poll", "pawl_cancel", "_initialize"}

// OwnFunc is the index of one of the guest's exported functions.
func OwnFunc(name string) int {
	i := slices.Index(ownFuncs, name)
	if i < 0 {
		panic("wasmasm: no guest exports " + name)
	}
	return len(Imports) + i
}

// FirstExtra is the index of the first function that Guest.Extend adds.
func FirstExtra() int { return len(Imports) + len(ownFuncs) }

// Guest describes a plugin. The zero value answers describe and configure, and
// is stuck at any other call.
//
// In Start, local 0 is the op (i32), local 1 the call (i64) and local 2 a spare
// i64; in Resume, local 0 is the I/O (i64) and local 1 a spare i64; in Poll,
// local 0 is a spare i64; in Cancel, local 0 is the call (i64) and local 1 a
// spare i64. In all of them local 3 is a spare i32. Each body leaves an i32 on
// the stack, but Init; nil is "return 0".
type Guest struct {
	Start, Resume, Poll, Cancel, Init Code

	Configure Code   // nil: answers OK
	Describe  Code   // nil: answers Manifest
	Manifest  []byte // nil: all ops, batches of 10
	ABI       int    // 0: 1
	Pages     int    // of memory; 0: 2
	MaxPages  int    // 0: none
	Data      map[int]string

	StartSection bool              // _initialize is the start function too
	Omit         string            // an export to leave out
	Mistype      string            // an import to declare with input_len's type
	Rename       map[string]string // exports under another name

	// Imports adds imports, and Extend anything else, to the module.
	Imports, Extend func(*Module)
}

// Where things are in the memory of a Guest.
const (
	AtOK       = 16   // OKResult
	AtManifest = 1024 // Manifest
	AtHTTP     = 2048 // HTTPPut
	AtSleep    = 3072 // SleepMessage(60_000)
	AtCalls    = 8192 // of I/O n, its call, at 8n
)

// Messages that every Guest has in its memory.
var (
	OKResult = string(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1))
	HTTPPut  = HTTPMessage("target", "PUT", "/x")
)

// HTTPMessage is the request of an I/O of kind 1.
func HTTPMessage(upstream, method, path string) string {
	var b []byte
	for i, s := range []string{upstream, method, path} {
		b = protowire.AppendString(protowire.AppendTag(b, protowire.Number(i+1), protowire.BytesType), s)
	}
	return string(b)
}

// SleepMessage is the request of an I/O of kind 2.
func SleepMessage(milliseconds uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), milliseconds))
}

// Manifest is an answer to describe: the ops observe, apply, apply_batch and
// delete, finds_by_key, and batches of that size.
func Manifest(batchMax int) []byte {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "asm")
	for _, op := range []uint64{OpObserve, OpApply, OpDelete, OpApplyBatch} {
		b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), op)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, 8, protowire.VarintType), 1)
	return protowire.AppendVarint(protowire.AppendTag(b, 15, protowire.VarintType), uint64(batchMax))
}

// The ops and kinds of I/O, as in the ABI.
const (
	OpDescribe   = 1
	OpConfigure  = 2
	OpObserve    = 3
	OpApply      = 4
	OpDelete     = 5
	OpApplyBatch = 6

	IOHTTP  = 1
	IOSleep = 2
)

// OnOp runs body, in Start, if that is the op.
func OnOp(op int, body ...Code) Code { return If(Seq(Get(0), I32(op), I32Eq), body...) }

// Want returns from an entry with what the instance wants next.
func Want(what int) Code { return Seq(I32(what), Return) }

// Answer ends the call that an i64 local names with the n bytes at ptr.
func Answer(local, ptr, n int) Code {
	return Seq(Get(local), I32(ptr), I32(n), CallImport("result"), Drop)
}

// AnswerOK ends the call that an i64 local names with OK.
func AnswerOK(local int) Code { return Answer(local, AtOK, len(OKResult)) }

// Park starts, in Start, an I/O for the call and notes whose it is.
func Park(kind, ptr, n int) Code {
	return Seq(Get(1), I32(kind), I32(ptr), I32(n), CallImport("io_start"), Set(2),
		Get(2), callOf, Get(1), Store64)
}

// ResumeAnswer ends, in Resume, the call that parked with the I/O with the n bytes
// at ptr; ResumeOK ends it with OK.
func ResumeAnswer(ptr, n int) Code { return Seq(Get(0), callOf, Load64, Set(1), Answer(1, ptr, n)) }

var ResumeOK = ResumeAnswer(AtOK, len(OKResult))

// callOf turns an I/O on the stack into the address of its call.
var callOf = Seq(I32Wrap, I32(3), I32Shl, I32(AtCalls), I32Add)

// Log writes the n bytes at ptr to the log, for no call.
func Log(ptr, n int) Code { return Seq(I64(0), I32(1), I32(ptr), I32(n), CallImport("log")) }

// Misbehave is a Guest whose apply runs body, and which answers OK to every
// other op, and to apply if body comes to its end.
func Misbehave(body ...Code) Guest {
	return Guest{Start: Seq(OnOp(OpApply, body...), AnswerOK(1), Want(0))}
}

// Bytes returns the guest's module.
func (g Guest) Bytes() []byte { return g.Module().Bytes() }

// Module returns the guest's module, to be changed further.
func (g Guest) Module() *Module {
	if g.Manifest == nil {
		g.Manifest = Manifest(10)
	}
	if g.Configure == nil {
		g.Configure = Seq(AnswerOK(1), Want(0))
	}
	if g.Describe == nil {
		g.Describe = Seq(Answer(1, AtManifest, len(g.Manifest)), Want(0))
	}
	m := &Module{}
	for _, f := range Imports {
		sig := f.Sig
		if f.Name == g.Mistype {
			sig = Imports[0].Sig
		}
		m.ImportFunc(f.Module, f.Name, sig)
	}
	if g.Imports != nil {
		g.Imports(m)
	}
	g.functions(m)
	g.memory(m)
	if g.Extend != nil {
		g.Extend(m)
	}
	return m
}

func (g Guest) functions(m *Module) {
	orZero := func(c Code) Code {
		if c == nil {
			return I32(0)
		}
		return c
	}
	start := Seq(OnOp(OpDescribe, g.Describe), OnOp(OpConfigure, g.Configure), orZero(g.Start))
	for _, f := range []struct {
		name, sig, locals string
		body              Code
	}{
		{"pawl_abi", ":i", "", I32(or(g.ABI, 1))},
		{"pawl_start", "iI:i", "Ii", start},
		{"pawl_resume", "I:i", "IIi", orZero(g.Resume)},
		{"pawl_poll", ":i", "IIIi", orZero(g.Poll)},
		{"pawl_cancel", "I:i", "IIi", orZero(g.Cancel)},
		{"_initialize", ":", "IIIi", g.Init},
	} {
		i := m.Func(f.sig, f.locals, f.body)
		if f.name == "_initialize" && g.StartSection {
			m.Start(i)
		}
		if f.name == g.Omit {
			continue
		}
		name := f.name
		if other, ok := g.Rename[name]; ok {
			name = other
		}
		m.Export(name, KindFunc, i)
	}
}

func (g Guest) memory(m *Module) {
	m.Memory(or(g.Pages, 2), or(g.MaxPages, NoMax))
	if g.Omit != "memory" {
		m.Export("memory", KindMemory, 0)
	}
	data := map[int]string{AtOK: OKResult, AtManifest: string(g.Manifest), AtHTTP: HTTPPut, AtSleep: SleepMessage(60_000)}
	maps.Copy(data, g.Data)
	for _, at := range slices.Sorted(maps.Keys(data)) {
		m.Data(I32(at), data[at])
	}
}

func or(v, otherwise int) int {
	if v == 0 {
		return otherwise
	}
	return v
}
