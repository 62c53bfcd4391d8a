package oci

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"
)

// config is what a ConfigType blob holds. Created is required by the layout; a
// fixed time keeps the artifact the same whenever it is made.
type config struct {
	Created      string          `json:"created"`
	Architecture string          `json:"architecture"`
	OS           string          `json:"os"`
	LayerDigests []digest.Digest `json:"layerDigests"`
}

const created = "1970-01-01T00:00:00Z"

// fileName is what tools that unpack an artifact into a folder call the layer.
const fileName = "plugin.wasm"

// pack returns the blobs of a module's artifact.
func pack(module []byte) (configBlob, manifestBlob []byte, layer v1.Descriptor, err error) {
	layer = describe(LayerType, module)
	layer.Annotations = map[string]string{v1.AnnotationTitle: fileName}
	configBlob, err = json.Marshal(config{
		Created: created, Architecture: "wasm", OS: "wasip1", LayerDigests: []digest.Digest{layer.Digest},
	})
	if err != nil {
		return nil, nil, layer, err
	}
	manifestBlob, err = json.Marshal(v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: v1.MediaTypeImageManifest,
		Config:    describe(ConfigType, configBlob),
		Layers:    []v1.Descriptor{layer},
	})
	return configBlob, manifestBlob, layer, err
}

func describe(mediaType string, blob []byte) v1.Descriptor {
	return v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(blob), Size: int64(len(blob))}
}

// layerOf returns the layer of a manifest that is the module. Layers of other
// types, such as notes beside it, are none of ours.
func layerOf(mediaType string, blob []byte) (v1.Descriptor, error) {
	var m v1.Manifest
	if mediaType != v1.MediaTypeImageManifest {
		return v1.Descriptor{}, fmt.Errorf("%w: it is a %s", ErrNotWasm, mediaType)
	}
	if err := json.Unmarshal(blob, &m); err != nil {
		return v1.Descriptor{}, fmt.Errorf("%w: its manifest can't be read: %w", ErrNotWasm, err)
	}
	if m.Config.MediaType != ConfigType {
		return v1.Descriptor{}, fmt.Errorf("%w: its config is a %q, not a %s", ErrNotWasm, m.Config.MediaType, ConfigType)
	}
	var found []v1.Descriptor
	for _, l := range m.Layers {
		if l.MediaType == LayerType {
			found = append(found, l)
		}
	}
	switch {
	case len(found) != 1:
		return v1.Descriptor{}, fmt.Errorf("%w: it has %d layers of the type %s, not one", ErrNotWasm, len(found), LayerType)
	case found[0].Size > MaxBytes:
		return v1.Descriptor{}, fmt.Errorf("%w: it has %d bytes, more than the %d allowed", ErrTooLarge, found[0].Size, MaxBytes)
	}
	return found[0], nil
}

var coreHeader = []byte("\x00asm\x01\x00\x00\x00")

// checkModule refuses what can be no plugin.
func checkModule(module []byte) error {
	switch {
	case len(module) > MaxBytes:
		return fmt.Errorf("%w: it has %d bytes, more than the %d allowed", ErrTooLarge, len(module), MaxBytes)
	case !bytes.HasPrefix(module, coreHeader):
		return fmt.Errorf("%w: the file is no core WebAssembly module of version 1 (a component, or no wasm at all)", ErrNotWasm)
	}
	return nil
}

// fetched is an artifact as it came from the network.
type fetched struct {
	ref      registry.Reference // as it was asked for
	manifest []byte
	layer    v1.Descriptor
	module   []byte
}

// verify says whether what was fetched may be used, and it is the one place that
// does: nothing of f is written or run before it returned nil. It holds that the
// manifest is the pinned one and the module the one that the manifest names.
//
// A check of signatures belongs here: it takes the manifest's digest, fetches
// what refers to it (Repository.Referrers), and refuses what no trusted key
// signed.
func verify(f *fetched) error {
	pinned, err := f.ref.Digest() // an error: it is a tag
	if got := digest.FromBytes(f.manifest); err == nil && got != pinned {
		return fmt.Errorf("%w: the manifest's digest is %s, not the pinned %s", ErrMismatch, got, pinned)
	}
	if got := digest.FromBytes(f.module); got != f.layer.Digest {
		return fmt.Errorf("%w: the module's digest is %s, but the manifest says %s", ErrMismatch, got, f.layer.Digest)
	}
	return checkModule(f.module)
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
