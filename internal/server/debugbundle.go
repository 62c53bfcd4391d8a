package server

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/pawlsync/pawl/engine/saga"
	"github.com/pawlsync/pawl/internal/access"
	"github.com/pawlsync/pawl/internal/api"
)

// bundleSagas bounds the sagas in a bundle: those that have not ended, by id.
const bundleSagas = 1000

// bundle is a debug bundle that is being made. What can't be had is told in its index,
// and keeps nothing else out: a bundle is wanted when something is broken.
type bundle struct {
	server *Server
	text   *texts
}

// member is one file of a bundle.
type member struct {
	name, what string
	make       func(context.Context) ([]byte, error)
}

func (b *bundle) members() []member {
	s, d := b.server, b.server.o.Diagnostics
	members := []member{
		{"version.json", "what is running", b.json(func(context.Context) (any, error) { return s.o.Version, nil })},
		{"build.txt", "the libraries that it was built with", func(context.Context) ([]byte, error) { return buildInfo(), nil }},
		{"config.yaml", "the configuration in force, as pawl config show prints it", b.plain(d.Config)},
		{"status.json", "the daemon's status, and what needs somebody", b.status},
		{"sinks.json", "the state of every sink", b.json(func(context.Context) (any, error) { return s.sinks(unbounded), nil })},
		{"sources.json", "the state of every source", b.json(func(ctx context.Context) (any, error) {
			list, err := s.sources.List(ctx)
			return sourcesOf(list), err
		})},
		{"sagas.json", "sagas that have not ended, at most 1,000, without payloads", b.json(b.sagas)},
		{"metrics.txt", "what a scrape would get", b.plain(func() ([]byte, error) {
			var out bytes.Buffer
			err := d.Metrics(&out)
			return out.Bytes(), err
		})},
		{"log.jsonl", "the newest warnings and errors of the log", func(context.Context) ([]byte, error) { return b.text.lines(d.Log()), nil }},
		{"goroutines.txt", "what every goroutine does, those alike counted", profile("goroutine", 1)},
		{"heap.pprof", "what memory is used for, for go tool pprof", profile("heap", 0)},
	}
	if s.o.Store != nil {
		members = append(members, member{"store.json", "what the store holds, in figures", b.json(func(ctx context.Context) (any, error) { return s.o.Store.Details(ctx) })})
	}
	return members
}

// unbounded is who may read everything, as who is given a bundle may.
var unbounded = access.Unrestricted("debug bundle", "internal")

// write writes the bundle. It has one member in memory at a time.
func (b *bundle) write(ctx context.Context, w io.Writer) error {
	packed := gzip.NewWriter(w)
	out := tar.NewWriter(packed)
	index := api.BundleIndex{MadeAt: b.server.o.Now().UTC(), Version: b.server.o.Version.Version, Keys: b.text.all}
	for _, m := range b.members() {
		listed := api.BundleMember{Name: m.name, What: m.what}
		content, err := m.make(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			listed.Error = b.text.failure(err)
		} else if err := add(out, m.name, index.MadeAt, content); err != nil {
			return err
		} else {
			listed.Bytes = len(content)
		}
		index.Members = append(index.Members, listed)
	}
	content, err := json.MarshalIndent(index, "", "  ")
	if err == nil {
		err = add(out, api.BundleIndexName, index.MadeAt, append(content, '\n'))
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return err
	}
	return packed.Close()
}

func add(out *tar.Writer, name string, at time.Time, content []byte) error {
	err := out.WriteHeader(&tar.Header{Name: api.BundleDir + name, Mode: 0o600, Size: int64(len(content)), ModTime: at})
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return err
}

// json makes a member of what get returns.
func (b *bundle) json(get func(context.Context) (any, error)) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		v, err := get(ctx)
		if err != nil {
			return nil, err
		}
		return b.text.json(v)
	}
}

// plain makes a member of text.
func (b *bundle) plain(get func() ([]byte, error)) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		content, err := get()
		return []byte(b.text.mask(string(content))), err
	}
}

// status is the daemon's, without sinks and sources, which have files of their own. Its
// headlines are those of what the bundle shows: they quote errors.
func (b *bundle) status(context.Context) ([]byte, error) {
	shown, err := b.text.json(b.server.daemonStatus(unbounded))
	if err != nil {
		return nil, err
	}
	var st api.DaemonStatus
	if err := json.Unmarshal(shown, &st); err != nil {
		return nil, err
	}
	st.Headlines = api.Headlines(&st, b.server.o.Now())
	st.Sinks, st.Sources = []api.Sink{}, []api.Source{}
	return indented(st)
}

func (b *bundle) sagas(ctx context.Context) (any, error) {
	views, more, err := b.server.sagas.List(ctx, saga.ListOptions{Open: true, Limit: bundleSagas})
	out := struct {
		Items []api.Saga `json:"items"`
		More  bool       `json:"more"`
	}{make([]api.Saga, len(views)), more}
	for i := range views {
		out.Items[i] = sagaOf(&views[i])
	}
	return out, err
}

func buildInfo() []byte {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return []byte("the program says nothing of how it was built\n")
	}
	return []byte(info.String())
}

func profile(name string, detail int) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		var out bytes.Buffer
		err := pprof.Lookup(name).WriteTo(&out, detail)
		return out.Bytes(), err
	}
}
