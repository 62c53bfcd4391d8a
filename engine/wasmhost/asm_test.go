package wasmhost_test

import (
	"encoding/binary"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// A little assembler for guests that misbehave on purpose: code is bytes of
// wasm, put together by the functions below.

type code = []byte

func seq(parts ...code) code { return slices.Concat(parts...) }

func sleb(v int64) []byte {
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

func uleb(v int) []byte { return binary.AppendUvarint(nil, uint64(v)) }

func vec(items ...[]byte) []byte { return append(uleb(len(items)), slices.Concat(items...)...) }
func str(s string) []byte        { return append(uleb(len(s)), s...) }
func section(id byte, b []byte) []byte {
	return slices.Concat([]byte{id}, uleb(len(b)), b)
}

func i32c(v int) code   { return append(code{0x41}, sleb(int64(v))...) }
func i64c(v int64) code { return append(code{0x42}, sleb(v)...) }
func get(l int) code    { return append(code{0x20}, uleb(l)...) }

// when runs body if the i32 on the stack is not 0.
func when(cond, body code) code { return seq(cond, code{0x04, 0x40}, body, code{0x0b}) }
func ret(v int) code            { return seq(i32c(v), code{0x0f}) }
func opIs(op int) code          { return seq(get(0), i32c(op), code{0x46}) }

var (
	unreachable = code{0x00}
	drop        = code{0x1a}
	load64      = code{0x29, 3, 0}
	store64     = code{0x37, 3, 0}
	wrap64      = code{0xa7}
	shl3        = code{0x41, 3, 0x74}
)

// The imports of every such guest, in the order of their indices.
var asmImports = []struct {
	module, name string
	params       string // i or I, then : and the results
}{
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
}

// callf calls the import of that name.
func callf(name string) code {
	i := slices.IndexFunc(asmImports, func(f struct{ module, name, params string }) bool { return f.name == name })
	return append(code{0x10}, uleb(i)...)
}

func functype(s string) []byte {
	t := []byte{0x60}
	n, at := byte(0), 1
	t = append(t, 0)
	for _, c := range s {
		switch c {
		case ':':
			t[at], n, at = n, 0, len(t)
			t = append(t, 0)
		case 'i':
			t, n = append(t, 0x7f), n+1
		case 'I':
			t, n = append(t, 0x7e), n+1
		}
	}
	t[at] = n
	return t
}

// guest describes a plugin in assembly. In start, local 0 is the op and local 1
// the call; in resume, local 0 is the I/O and local 1 a spare i64; in cancel,
// local 0 is the call. Each body ends with an i32 on the stack; nil is "return 0".
type guest struct {
	start, resume, poll, cancel, init code
	configure                         code // nil: answers OK
	manifest                          []byte
	abi                               int // 0: 1
	pages                             int // 0: 2
	data                              map[int]string
	startSection                      bool
	extraImport                       []byte // one more import entry, whole
	omit                              string // an export to leave out
	mistype                           string // an import to declare with input_len's type
	rename                            map[string]string
}

// Where things are in the memory of such a guest.
const (
	atManifest = 1024
	atOK       = 16
	atHTTP     = 2048
	atSleep    = 3072
	atCalls    = 8192 // of I/O n, its call, at 8n
)

var okResult = string(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1))

func asmManifest(batchMax int) []byte {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "asm")
	for _, op := range []uint64{3, 4, 5, 6} {
		b = protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), op)
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, 8, protowire.VarintType), 1)
	return protowire.AppendVarint(protowire.AppendTag(b, 15, protowire.VarintType), uint64(batchMax))
}

// answer ends the call that local l names with the n bytes at ptr.
func answer(l, ptr, n int) code {
	return seq(get(l), i32c(ptr), i32c(n), callf("result"), drop)
}

func answerOK(l int) code { return answer(l, atOK, len(okResult)) }

// park starts an I/O for call local 1 and notes whose it is.
func park(kind, ptr, n int) code {
	// memory[atCalls + 8*io] = call, with the address computed from the id left
	// in local 2.
	return seq(get(1), i32c(kind), i32c(ptr), i32c(n), callf("io_start"), code{0x21, 2},
		get(2), wrap64, shl3, i32c(atCalls), code{0x6a}, get(1), store64)
}

// resumeOK answers OK for the call that parked with the I/O in local 0.
var resumeOK = seq(get(0), wrap64, shl3, i32c(atCalls), code{0x6a}, load64, code{0x21, 1}, answerOK(1))

func (g guest) wasm() []byte {
	if g.manifest == nil {
		g.manifest = asmManifest(10)
	}
	if g.configure == nil {
		g.configure = seq(answerOK(1), ret(0))
	}
	if g.abi == 0 {
		g.abi = 1
	}
	if g.pages == 0 {
		g.pages = 2
	}
	zero := func(c code) code {
		if c == nil {
			return i32c(0)
		}
		return c
	}
	start := seq(
		when(opIs(1), seq(answer(1, atManifest, len(g.manifest)), ret(0))),
		when(opIs(2), g.configure),
		zero(g.start))
	funcs := []struct {
		name, sig string
		locals    []byte
		body      code
	}{
		{"pawl_abi", ":i", nil, i32c(g.abi)},
		{"pawl_start", "iI:i", []byte{1, 0x7e}, start},
		{"pawl_resume", "I:i", []byte{1, 0x7e}, zero(g.resume)},
		{"pawl_poll", ":i", []byte{1, 0x7e}, zero(g.poll)},
		{"pawl_cancel", "I:i", nil, zero(g.cancel)},
		{"_initialize", ":", nil, g.init},
	}
	var ts, imports, decls, exports, bodies [][]byte
	for i, f := range asmImports {
		ts = append(ts, functype(f.params))
		typ := i
		if f.name == g.mistype {
			typ = 0
		}
		imports = append(imports, slices.Concat(str(f.module), str(f.name), []byte{0}, uleb(typ)))
	}
	if g.extraImport != nil {
		imports = append(imports, g.extraImport)
	}
	for i, f := range funcs {
		ts = append(ts, functype(f.sig))
		decls = append(decls, uleb(len(asmImports)+i))
		name := f.name
		if n, ok := g.rename[name]; ok {
			name = n
		}
		if name != g.omit {
			exports = append(exports, slices.Concat(str(name), []byte{0}, uleb(len(asmImports)+i)))
		}
		locals := vec()
		if f.locals != nil {
			locals = vec(f.locals)
		}
		body := slices.Concat(locals, f.body, []byte{0x0b})
		bodies = append(bodies, slices.Concat(uleb(len(body)), body))
	}
	if g.omit != "memory" {
		exports = append(exports, slices.Concat(str("memory"), []byte{2, 0}))
	}
	data := map[int]string{
		atOK: okResult, atManifest: string(g.manifest),
		atHTTP: httpGet, atSleep: sleepMessage(60_000),
	}
	for at, s := range g.data {
		data[at] = s
	}
	var segments [][]byte
	for _, at := range slices.Sorted(maps.Keys(data)) {
		segments = append(segments, slices.Concat([]byte{0}, i32c(at), []byte{0x0b}, str(data[at])))
	}
	b := slices.Concat([]byte("\x00asm\x01\x00\x00\x00"),
		section(1, vec(ts...)), section(2, vec(imports...)), section(3, vec(decls...)),
		section(5, vec(append([]byte{0}, uleb(g.pages)...))), section(7, vec(exports...)))
	if g.startSection {
		b = append(b, section(8, uleb(len(asmImports)+5))...)
	}
	return slices.Concat(b, section(10, vec(bodies...)), section(11, vec(segments...)))
}

var httpGet = func() string {
	var b []byte
	for i, s := range []string{"target", "PUT", "/x"} {
		b = protowire.AppendString(protowire.AppendTag(b, protowire.Number(i+1), protowire.BytesType), s)
	}
	return string(b)
}()

func sleepMessage(ms uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), ms))
}
