// Package saga holds the promise of sagas, both or neither, to the real targets: a
// kube-apiserver with etcd, and SpiceDB. The daemon runs as a process of its own and is
// killed at named points; a gate before the servers (gate_test.go) loses, holds and
// refuses exactly the request that a case is about. What counts in the end is what
// the servers hold, and what the caller was told.
//
//	make saga-matrix                                 # all of it, and docs/saga-matrix.md anew
//	go test ./test/saga -run Matrix -only 'optimistic update.* late$'
//	go test ./test/saga -run Kills -seed 42          # a failing test prints its seed
package saga
