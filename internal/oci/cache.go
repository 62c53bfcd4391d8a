package oci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"
)

// Cached is Pull of a pinned reference, but of what was pulled before it asks
// nobody: it is kept in dir, which is made where it is missing. What is kept there
// is verified as what comes over the network is, and fetched again where it is
// damaged.
//
// # Errors
//
// Those of Pull; ErrReference too where ref has no digest, and ErrCache where dir
// can't be written.
func Cached(ctx context.Context, dir, ref string, o Options) (*Artifact, error) {
	r, err := parse(ref)
	if err == nil && r.ValidateReferenceAsDigest() != nil {
		err = fmt.Errorf("%w: it is not pinned by a digest", ErrReference)
	}
	if err != nil {
		return nil, explain("pull", ref, err)
	}
	kept := kept{dir}
	if f, err := kept.read(r); err == nil && verify(f) == nil {
		return f.artifact(), nil
	}
	f, err := fetch(ctx, ref, o)
	if err == nil {
		err = verify(f)
	}
	if err == nil {
		err = kept.write(f)
	}
	if err != nil {
		return nil, explain("pull", ref, err)
	}
	return f.artifact(), nil
}

// kept is a folder of manifests and modules, each named by its digest.
type kept struct{ dir string }

func (k kept) path(d digest.Digest) string {
	return filepath.Join(k.dir, d.Algorithm().String()+"-"+d.Encoded())
}

func (k kept) read(r registry.Reference) (*fetched, error) {
	pinned, err := r.Digest()
	if err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(k.path(pinned))
	if err != nil {
		return nil, err
	}
	layer, err := layerOf(v1.MediaTypeImageManifest, manifest)
	if err != nil {
		return nil, err
	}
	module, err := os.ReadFile(k.path(layer.Digest))
	return &fetched{ref: r, manifest: manifest, layer: layer, module: module}, err
}

func (k kept) write(f *fetched) error {
	err := os.MkdirAll(k.dir, 0o700)
	for _, blob := range [][]byte{f.module, f.manifest} {
		if err == nil {
			err = WriteFile(k.path(digest.FromBytes(blob)), blob, 0o600)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCache, err)
	}
	return nil
}

// WriteFile writes a file that others, such as a daemon that looks for a new
// plugin, see either as it was or complete.
func WriteFile(name string, content []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
