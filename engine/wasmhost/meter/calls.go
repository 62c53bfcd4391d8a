package meter

import "slices"

// function is what is known of a function once it was scanned.
type function struct {
	calls []int32 // the functions of the module that it calls, each once
	frame int64   // bytes of stack, estimated from above

	order   int32 // in the order in which callees come before callers, ways back aside
	seen    bool
	counted bool  // each call of it is counted
	stack   int64 // most bytes of stack since the last counted call, its own included

	free      bool  // its caller is charged for it
	paid      int64 // by its caller, if it is free
	unchecked int64 // most work that it does without a check at its entry; 0 with one
}

// maxChain is how many bytes of stack a chain of calls may take of which none is
// counted.
const maxChain = 2048

// frameBytes estimates what the compiled function takes of the stack: a slot for
// each value that must outlive a call or finds no register, and room for what its
// calls pass and get. Go's code takes a fifth of the estimate; code that was written
// to take much takes up to three times as much, as a value of 16 bytes needs eight
// bytes of code or less.
func (s *scan) frameBytes(code int) int64 {
	return 64 + 8*int64(s.locals) + s.passed + int64(code)
}

// order sorts the functions so that callees come before their callers, but for
// ways back in the call graph: f calls g on a way back if g is not before f.
func order(fs []function) []int32 {
	sorted := make([]int32, 0, len(fs))
	type visit struct {
		f    int32
		next int
	}
	var stack []visit
	for i := range fs {
		if fs[i].seen {
			continue
		}
		fs[i].seen = true
		stack = append(stack, visit{f: int32(i)})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			f := &fs[top.f]
			if top.next < len(f.calls) {
				g := f.calls[top.next]
				top.next++
				if !fs[g].seen {
					fs[g].seen = true
					stack = append(stack, visit{f: g})
				}
				continue
			}
			f.order = int32(len(sorted))
			sorted = append(sorted, top.f)
			stack = stack[:len(stack)-1]
		}
	}
	return sorted
}

// countCalls decides which functions' calls are counted because the chain of
// calls that leads to them takes much stack. Calls on a way back are counted in
// any case, as are those through a table.
func countCalls(fs []function, sorted []int32) {
	for _, i := range slices.Backward(sorted) {
		f := &fs[i]
		if f.stack+f.frame > maxChain && f.stack > 0 {
			f.counted, f.stack = true, 0
		}
		f.stack += f.frame
		for _, c := range f.calls {
			if g := &fs[c]; g.order < f.order {
				g.stack = max(g.stack, f.stack)
			}
		}
	}
}
