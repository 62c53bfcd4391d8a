package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlsync/pawl/engine/wasmhost"
	"github.com/pawlsync/pawl/engine/wasmhost/abi"
)

// inspectedPlugin is what `pawl plugin inspect` prints.
type inspectedPlugin struct {
	File     string             `json:"file"`
	Bytes    int                `json:"bytes"`
	SHA256   string             `json:"sha256"`
	Manifest *inspectedManifest `json:"manifest,omitempty"` // absent where it does not load
	Module   inspectedModule    `json:"module"`
	// CompileSeconds is how long loading took without a compile cache,
	// CachedSeconds with one.
	CompileSeconds float64 `json:"compile_seconds,omitempty"`
	CachedSeconds  float64 `json:"cached_seconds,omitempty"`
	Error          string  `json:"error,omitempty"` // why it does not load
}

type inspectedManifest struct {
	Name          string          `json:"name"`
	Version       string          `json:"version"`
	Ops           []string        `json:"ops"`
	Claims        []string        `json:"claims"`
	Undoable      []string        `json:"undoable,omitempty"` // which of apply and delete a saga can undo
	BatchMax      int             `json:"batch_max,omitempty"`
	Overlap       string          `json:"overlap,omitempty"`
	UpstreamKinds []string        `json:"upstream_kinds,omitempty"`
	ConfigSchema  json.RawMessage `json:"config_schema,omitempty"`
	PayloadSchema json.RawMessage `json:"payload_schema,omitempty"`
}

type inspectedModule struct {
	MemoryMinBytes int64    `json:"memory_min_bytes"`
	MemoryMaxBytes int64    `json:"memory_max_bytes"` // -1: it states none
	CodeBytes      int      `json:"code_bytes"`
	DataBytes      int      `json:"data_bytes"`
	Imports        []string `json:"imports"`
	NotOffered     []string `json:"not_offered,omitempty"` // imports that this host does not have
	Exports        []string `json:"exports"`
	CustomSections []string `json:"custom_sections,omitempty"`
	Start          bool     `json:"start_section,omitempty"`
}

func (a *app) pluginInspectCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what a plugin is",
		Long: `Inspect shows a plugin's digest, manifest, memory, imports and exports, and how long
it takes to compile. FILE may also be the name of a bundled plugin. Nothing is
configured, and no upstream is granted. A module that the host refuses is shown as
far as it can be read, with the reason.`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.inspect(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if err := a.print(p, func() { a.printInspected(p) }); err != nil {
				return err
			}
			if p.Error != "" {
				return fmt.Errorf("%s does not load: %s", args[0], p.Error)
			}
			return nil
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) inspect(ctx context.Context, file string) (*inspectedPlugin, error) {
	wasm, name, err := readModule(file)
	if err != nil {
		return nil, err
	}
	info, err := wasmhost.ReadModule(wasm)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	sum := sha256.Sum256(wasm)
	p := &inspectedPlugin{File: file, Bytes: len(wasm), SHA256: hex.EncodeToString(sum[:]), Module: moduleOf(info)}
	cache, err := os.MkdirTemp("", "pawl-inspect-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(cache)
	o := a.hostOptions()
	o.CacheDir = cache
	host, err := wasmhost.New(ctx, o)
	if err != nil {
		return nil, err
	}
	for _, took := range []*float64{&p.CompileSeconds, &p.CachedSeconds} {
		began := time.Now()
		plugin, err := host.Load(ctx, wasm, name)
		if err != nil {
			p.Error = err.Error()
			return p, ctx.Err()
		}
		*took = time.Since(began).Seconds()
		p.Manifest = manifestOf(plugin.Manifest())
		if err := plugin.Close(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func moduleOf(info *wasmhost.ModuleInfo) inspectedModule {
	const page = 64 << 10
	m := inspectedModule{
		MemoryMinBytes: info.MemoryMinPages * page, MemoryMaxBytes: info.MemoryMaxPages * page,
		CodeBytes: info.CodeBytes, DataBytes: info.DataBytes, CustomSections: info.CustomSections, Start: info.Start,
		Imports: []string{}, Exports: []string{},
	}
	if info.MemoryMaxPages < 0 {
		m.MemoryMaxBytes = -1
	}
	for _, i := range info.Imports {
		name := i.Module + "." + i.Name
		if i.Kind != "function" {
			name += " (" + i.Kind + ")"
		}
		m.Imports = append(m.Imports, name)
		if !i.Offered {
			m.NotOffered = append(m.NotOffered, name)
		}
	}
	for _, e := range info.Exports {
		name := e.Name
		if e.Kind != "function" {
			name += " (" + e.Kind + ")"
		} else if e.Type != "" {
			name += e.Type
		}
		m.Exports = append(m.Exports, name)
	}
	return m
}

func manifestOf(m *abi.Manifest) *inspectedManifest {
	out := &inspectedManifest{
		Name: m.Name, Version: m.Version, Claims: []string{}, BatchMax: m.BatchMax, Overlap: m.Overlap, UpstreamKinds: m.UpstreamKinds,
		ConfigSchema: schemaOf(m.ConfigSchema), PayloadSchema: schemaOf(m.PayloadSchema),
	}
	for _, op := range m.Ops {
		out.Ops = append(out.Ops, op.String())
	}
	for _, op := range m.Undoable {
		out.Undoable = append(out.Undoable, op.String())
	}
	for _, c := range []struct {
		name  string
		claim bool
	}{
		{"apply_confirms", m.ApplyConfirms}, {"apply_idempotent", m.ApplyIdempotent}, {"finds_by_key", m.FindsByKey},
		{"reports_uid", m.ReportsUID}, {"as_found_comparable", m.AsFoundComparable}, {"lock", m.Lock}, {"mark", m.Mark}, {"reports_content", m.ReportsContent},
	} {
		if c.claim {
			out.Claims = append(out.Claims, c.name)
		}
	}
	return out
}

// schemaOf is a schema as JSON: as it is where it is that, else as a string.
func schemaOf(s string) json.RawMessage {
	switch {
	case s == "":
		return nil
	case json.Valid([]byte(s)):
		return json.RawMessage(s)
	}
	quoted, err := json.Marshal(s)
	if err != nil { // of a string: never
		return nil
	}
	return quoted
}

func (a *app) printInspected(p *inspectedPlugin) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.Out, "%-10s %s\n", name, value)
		}
	}
	line("file", p.File)
	line("sha256", p.SHA256)
	line("size", fmt.Sprintf("%s, of that code %s and data %s", size(int64(p.Bytes)), size(int64(p.Module.CodeBytes)), size(int64(p.Module.DataBytes))))
	if m := p.Manifest; m != nil {
		line("plugin", m.Name+" "+m.Version)
		line("ops", strings.Join(m.Ops, ", "))
		line("claims", strings.Join(m.Claims, ", "))
		line("undoable", strings.Join(m.Undoable, ", "))
		if m.BatchMax > 1 {
			line("batches", fmt.Sprintf("up to %d, overlap %q", m.BatchMax, m.Overlap))
		}
		line("upstreams", strings.Join(m.UpstreamKinds, ", "))
	}
	most := "no limit stated"
	if p.Module.MemoryMaxBytes >= 0 {
		most = "at most " + size(p.Module.MemoryMaxBytes)
	}
	line("memory", size(p.Module.MemoryMinBytes)+" at the start, "+most)
	if p.Error == "" {
		line("compiled", fmt.Sprintf("in %.2fs; from the cache in %.2fs", p.CompileSeconds, p.CachedSeconds))
	}
	line("imports", strings.Join(p.Module.Imports, "\n           "))
	line("not here", strings.Join(p.Module.NotOffered, ", "))
	line("exports", strings.Join(p.Module.Exports, "\n           "))
	if p.Module.Start {
		line("start", "it has a start section, which the host refuses")
	}
	if p.Manifest != nil {
		a.printSchema("config", p.Manifest.ConfigSchema)
		a.printSchema("payload", p.Manifest.PayloadSchema)
	}
}

func (a *app) printSchema(name string, schema json.RawMessage) {
	if schema == nil {
		return
	}
	text, err := json.MarshalIndent(schema, "           ", "  ")
	if err != nil {
		text = schema
	}
	fmt.Fprintf(a.Out, "%-10s %s\n", name, text)
}
