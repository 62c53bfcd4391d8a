package oci

import (
	"bytes"
	"context"
	"fmt"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
)

// maxManifestBytes bounds a manifest: one of ours has half a KiB.
const maxManifestBytes = 1 << 20

// Push puts a plugin under ref, which names a tag, and returns it pinned. What
// the registry has already is not sent again.
//
// # Errors
//
// An *Error that wraps ErrReference, ErrNotWasm, ErrTooLarge, ErrUnauthorized,
// ErrNotFound or ErrRegistry.
func Push(ctx context.Context, ref string, module []byte, o Options) (*Artifact, error) {
	pinned, err := push(ctx, ref, module, o)
	if err != nil {
		return nil, explain("push", ref, err)
	}
	return &Artifact{Ref: pinned, SHA256: hexSum(module), Module: module}, nil
}

func push(ctx context.Context, ref string, module []byte, o Options) (pinned string, err error) {
	r, err := parse(ref)
	if err != nil {
		return "", err
	}
	if _, err := r.Digest(); err == nil {
		return "", fmt.Errorf("%w: what is pushed needs a tag", ErrReference)
	}
	if err := checkModule(module); err != nil {
		return "", err
	}
	repo, err := open(r, o)
	if err != nil {
		return "", err
	}
	configBlob, manifestBlob, layer, err := pack(module)
	if err != nil {
		return "", err
	}
	for _, b := range []struct {
		desc v1.Descriptor
		blob []byte
	}{{layer, module}, {describe(ConfigType, configBlob), configBlob}} {
		if err := pushBlob(ctx, repo, b.desc, b.blob); err != nil {
			return "", err
		}
	}
	desc := describe(v1.MediaTypeImageManifest, manifestBlob)
	return pin(r, desc.Digest), repo.PushReference(ctx, desc, bytes.NewReader(manifestBlob), r.Reference)
}

func pushBlob(ctx context.Context, repo *remote.Repository, desc v1.Descriptor, blob []byte) error {
	if there, err := repo.Exists(ctx, desc); err != nil || there {
		return err
	}
	return repo.Push(ctx, desc, bytes.NewReader(blob))
}

// Pull fetches the plugin that ref names by tag or digest, and checks it: a
// digest is compared with the manifest, and the manifest's with the module.
//
// # Errors
//
// An *Error that wraps ErrReference, ErrNotFound, ErrUnauthorized, ErrNotWasm,
// ErrTooLarge, ErrMismatch or ErrRegistry.
func Pull(ctx context.Context, ref string, o Options) (*Artifact, error) {
	f, err := fetch(ctx, ref, o)
	if err == nil {
		err = verify(f)
	}
	if err != nil {
		return nil, explain("pull", ref, err)
	}
	return f.artifact(), nil
}

// fetch gets an artifact. What it returns is not to be used before verify.
func fetch(ctx context.Context, ref string, o Options) (*fetched, error) {
	r, err := parse(ref)
	if err != nil {
		return nil, err
	}
	repo, err := open(r, o)
	if err != nil {
		return nil, err
	}
	desc, manifest, err := oras.FetchBytes(ctx, repo, r.Reference, oras.FetchBytesOptions{MaxBytes: maxManifestBytes})
	if err != nil {
		return nil, err
	}
	layer, err := layerOf(desc.MediaType, manifest)
	if err != nil {
		return nil, err
	}
	module, err := content.FetchAll(ctx, repo, layer)
	return &fetched{ref: r, manifest: manifest, layer: layer, module: module}, err
}

func (f *fetched) artifact() *Artifact {
	return &Artifact{Ref: pin(f.ref, digest.FromBytes(f.manifest)), SHA256: hexSum(f.module), Module: f.module}
}

// pin names the manifest of r by its digest.
func pin(r registry.Reference, d digest.Digest) string {
	r.Reference = d.String()
	return r.String()
}
