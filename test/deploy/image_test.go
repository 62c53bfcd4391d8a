package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// buildImage builds the image of the tests' release into a folder of its own, which it
// returns, with the image unpacked below oci.
func buildImage(ctx context.Context, t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(release(t))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, "../../deploy/image/build.sh", dir, version)
	cmd.Env = append(append(os.Environ(), "BUILDAH_ISOLATION=chroot"), stamps...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Mkdir(filepath.Join(dir, "oci"), 0o700); err != nil {
		t.Fatal(err)
	}
	run(t, "", "tar", "-xf", filepath.Join(dir, "pawl-"+version+"-image.tar"), "-C", filepath.Join(dir, "oci"))
	return dir
}

// blob reads a JSON blob of an image.
func blob(t *testing.T, dir, digest string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "oci/blobs", "sha256", digest[len("sha256:"):]))), into); err != nil {
		t.Fatal(err)
	}
}

func TestTheImageHoldsTheProgramAloneAndIsNobodys(t *testing.T) {
	ctx := slow(t)
	if _, err := exec.LookPath("buildah"); err != nil || runtime.GOOS != "linux" {
		t.Skip("buildah is not installed, or this is not Linux")
	}
	dir := buildImage(ctx, t)
	type list struct {
		Manifests []struct {
			Digest   string
			Platform struct{ OS, Architecture string }
		}
	}
	var index, platforms list
	if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "oci/index.json"))), &index); err != nil {
		t.Fatal(err)
	}
	blob(t, dir, index.Manifests[0].Digest, &platforms)
	if len(platforms.Manifests) != 1 || platforms.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Fatalf("it is for %+v", platforms)
	}
	var manifest struct {
		Config struct{ Digest string }
		Layers []struct{ Digest string }
	}
	blob(t, dir, platforms.Manifests[0].Digest, &manifest)
	var image struct {
		Created string
		Config  struct {
			User            string
			Entrypoint, Cmd []string
			Labels          map[string]string
		}
	}
	blob(t, dir, manifest.Config.Digest, &image)
	if image.Config.User != "65532:65532" || image.Created != "2026-01-02T03:04:05Z" || image.Config.Labels["org.opencontainers.image.version"] != version {
		t.Errorf("the image is %+v", image)
	}
	files := map[string]bool{}
	for _, l := range manifest.Layers {
		out := run(t, "", "tar", "--list", "-zf", filepath.Join(dir, "oci/blobs/sha256", l.Digest[len("sha256:"):]))
		for line := range lines(out) {
			files[line] = true
		}
	}
	for _, want := range []string{"pawl", "tmp/", "var/", "var/lib/", "var/lib/pawl/"} {
		if !files[want] {
			t.Errorf("it lacks %s", want)
		}
		delete(files, want)
	}
	if len(files) > 0 {
		t.Errorf("it holds %v as well", files)
	}
	t.Run("and the same release gives the same image", func(t *testing.T) {
		again := buildImage(ctx, t)
		a, b := sum(t, filepath.Join(dir, "pawl-"+version+"-image.tar")), sum(t, filepath.Join(again, "pawl-"+version+"-image.tar"))
		if a != b {
			t.Errorf("%s, then %s", a, b)
		}
	})
}

func sum(t *testing.T, path string) string {
	t.Helper()
	return fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, path))))
}
