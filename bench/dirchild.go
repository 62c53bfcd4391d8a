package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/pawlsync/pawl/engine"
	"github.com/pawlsync/pawl/engine/record"
	"github.com/pawlsync/pawl/internal/source"
	"github.com/pawlsync/pawl/internal/source/dir"
)

// dirChild does one measurement and prints its result as JSON.
func dirChild(work string) {
	var w dirWork
	var res dirResult
	err := json.Unmarshal([]byte(work), &w)
	if err == nil {
		debug.SetGCPercent(50) // as `pawl run` does, see internal/daemon/memory.go
		var peak atomic.Int64
		go sampleMemory(&peak)
		err = w.do(&res)
		res.PeakAnonymous = max(peak.Load(), anonymousBytes())
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(res)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (w *dirWork) do(res *dirResult) error {
	ctx := context.Background()
	eng, err := open(ctx, w.Dir, engine.SinkOptions{Name: sinkName, Sink: &null{}, Suspended: true})
	if err != nil {
		return err
	}
	defer eng.Close(ctx)
	began, used := time.Now(), cpuTime()
	switch w.What {
	case "source":
		return w.source(eng, res)
	case "peer":
		err = w.peer(ctx, eng)
	default:
		err = w.store(ctx, eng)
	}
	res.Took, res.Used = time.Since(began), cpuTime()-used
	return errors.Join(err, w.all(eng))
}

// all wants all documents stored.
func (w *dirWork) all(eng *engine.Engine) error {
	n := 0
	for _, s := range eng.Sinks() {
		for _, c := range s.Counts {
			n += c
		}
	}
	if n != w.Documents {
		return fmt.Errorf("%d of %d documents are stored", n, w.Documents)
	}
	return nil
}

// source runs a source, as the daemon does.
func (w *dirWork) source(eng *engine.Engine, res *dirResult) error {
	src, err := dir.New(dir.Options{Path: w.Tree})
	if err != nil {
		return err
	}
	seen := &seen{full: make(chan struct{}, 1), Source: src}
	m := source.New(source.Options{Engine: eng, Sources: []source.Spec{{Name: "dir", Kind: "dir", Source: seen}}})
	began, used := time.Now(), cpuTime()
	m.Start()
	defer m.Close()
	<-seen.full
	res.Took, res.Used = time.Since(began), cpuTime()-used
	used = cpuTime()
	src.Rescan()
	<-seen.full
	res.Again = cpuTime() - used
	return w.all(eng)
}

// seen tells when a full set is through.
type seen struct {
	*dir.Source
	full chan struct{}
}

func (s *seen) Run(ctx context.Context, in source.Inlet) error {
	return s.Source.Run(ctx, told{in, s.full})
}

type told struct {
	source.Inlet
	full chan struct{}
}

func (t told) Full(ctx context.Context, items iter.Seq2[source.Item, error], kept func() []source.Kept) error {
	err := t.Inlet.Full(ctx, items, kept)
	t.full <- struct{}{}
	return err
}

// peer reads file by file, parses and puts, with nothing that a source does besides.
func (w *dirWork) peer(ctx context.Context, eng *engine.Engine) error {
	var puts []engine.Put
	send := func() error {
		err := putAll(ctx, eng, puts)
		puts = puts[:0]
		return err
	}
	err := filepath.WalkDir(w.Tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for doc, err := range plainDocuments(content, filepath.Ext(path)) {
			if err != nil {
				return err
			}
			puts = append(puts, engine.Put{Key: record.Key{Sink: doc.Sink, Name: doc.Key}, Payload: doc.Payload})
			if len(puts) == 1000 {
				if err := send(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return errors.Join(err, send())
}

type plainDocument struct {
	Sink, Key string
	Payload   json.RawMessage
}

// plainDocuments parses documents as anybody would.
func plainDocuments(content []byte, ext string) func(func(plainDocument, error) bool) {
	return func(yield func(plainDocument, error) bool) {
		next := json.NewDecoder(bytes.NewReader(content)).Decode
		if ext == ".yaml" {
			next = plainYAML(content)
		}
		for {
			var doc plainDocument
			err := next(&doc)
			if errors.Is(err, io.EOF) || !yield(doc, err) || err != nil {
				return
			}
		}
	}
}

func plainYAML(content []byte) func(any) error {
	dec := yaml.NewDecoder(bytes.NewReader(content))
	return func(to any) error {
		var doc struct {
			Sink, Key string
			Payload   any
		}
		if err := dec.Decode(&doc); err != nil {
			return err
		}
		payload, err := json.Marshal(doc.Payload)
		*to.(*plainDocument) = plainDocument{doc.Sink, doc.Key, payload}
		return err
	}
}

// store puts payloads of the same size that nobody had to read.
func (w *dirWork) store(ctx context.Context, eng *engine.Engine) error {
	for i := 0; i < w.Documents; i += 1000 {
		var puts []engine.Put
		for j := i; j < min(i+1000, w.Documents); j++ {
			puts = append(puts, engine.Put{Key: key(j), Payload: payload(j)})
		}
		if err := putAll(ctx, eng, puts); err != nil {
			return err
		}
	}
	return nil
}

func putAll(ctx context.Context, eng *engine.Engine, puts []engine.Put) error {
	items, err := eng.PutBatch(ctx, puts)
	for _, item := range items {
		err = errors.Join(err, item.Err)
	}
	return err
}
