//go:build wasip1

// Command json is a guest that does what adapters do most when they compute: it
// decodes a document and encodes it again.
package main

import "encoding/json"

// document has 1 KiB, and of everything that JSON has.
var document = []byte(`{"kind":"Service","name":"web \"front\"","labels":{"app":"web","tier":"3","on":true,"none":null},"items":[` +
	item + `,` + item + `,` + item + `,` + item + `,` + item + `,` + item + `,` + item + `,` + item + `,` + item + `]}`)

const item = `{"host":"a.example.com","ports":[80,443,8080],"weight":0.142857,"note":"line\nand more","ok":false}`

// round decodes and encodes the document n times and returns the bytes that it made.
//
//go:wasmexport round
func round(n int32) int32 {
	made := 0
	for range n {
		var v any
		if err := json.Unmarshal(document, &v); err != nil {
			panic(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		made += len(b)
	}
	return int32(made)
}

func main() {}
