package dir

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// publish writes files as the kubelet does in the mount of a ConfigMap: into a directory
// of their own, to which ..data is swapped. It returns that directory.
func publish(t *testing.T, root, version string, files map[string]string) string {
	t.Helper()
	dir := "..2026_" + version
	for name, content := range files {
		write(t, root, filepath.Join(dir, name), content)
	}
	must(t, os.Symlink(dir, filepath.Join(root, "..data_tmp")))
	must(t, os.Rename(filepath.Join(root, "..data_tmp"), filepath.Join(root, "..data")))
	return filepath.Join(root, dir)
}

func TestAMountedConfigMapIsSwapped(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	old := publish(t, root, "1", map[string]string{"a.yaml": doc("a", "1"), "b.yaml": doc("b", "1"), "sub/c.yaml": doc("c", "1")})
	for _, name := range []string{"a.yaml", "b.yaml", "sub"} {
		must(t, os.Symlink("..data/"+name, filepath.Join(root, name)))
	}
	run(t, root, d, nil)
	d.wants("a=1", "b=1", "c=1")

	next := publish(t, root, "2", map[string]string{"a.yaml": doc("a", "2"), "b.yaml": doc("b", "1"), "sub/c.yaml": doc("c", "2")})
	must(t, os.RemoveAll(old))
	d.wants("a=2", "b=1", "c=2")

	// A key that is new gets its link after the swap, one that went loses it after.
	publish(t, root, "3", map[string]string{"a.yaml": doc("a", "2"), "n.yaml": doc("n", "1"), "sub/c.yaml": doc("c", "3")})
	must(t, os.Symlink("..data/n.yaml", filepath.Join(root, "n.yaml")))
	must(t, os.Remove(filepath.Join(root, "b.yaml")))
	must(t, os.RemoveAll(next))
	d.wants("a=2", "n=1", "c=3")
	d.well()
	d.neverDeleted(t, "a", "c", "n")
}

func TestLinksMayLeadInCircles(t *testing.T) {
	root, d := t.TempDir(), newDesk(t)
	write(t, root, "z/a.yaml", doc("a", "1"))
	must(t, os.Symlink(".", filepath.Join(root, "z/self")))
	must(t, os.Symlink("..", filepath.Join(root, "z/up")))
	must(t, os.Symlink("z", filepath.Join(root, "first")))
	run(t, root, d, nil)
	d.wants("a=1")
	if got := d.places["web/a"]; got != "z/a.yaml:1" {
		t.Errorf("a is at %s: a directory goes by its own name where it has one", got)
	}
	d.well()
}

func TestLinksLeadOutOfTheTree(t *testing.T) {
	root, outside, d := t.TempDir(), t.TempDir(), newDesk(t)
	write(t, outside, "dir/a.yaml", doc("a", "1"))
	write(t, outside, "b", doc("b", "1"))
	must(t, os.Symlink(filepath.Join(outside, "dir"), filepath.Join(root, "dir")))
	must(t, os.Symlink(filepath.Join(outside, "b"), filepath.Join(root, "b.yaml")))
	s, _ := run(t, root, d, nil)
	d.wants("a=1", "b=1")
	write(t, outside, "dir/a.yaml", doc("a", "2")) // a directory is watched where it is
	d.wants("a=2", "b=1")
	write(t, outside, "b", doc("b", "2"))
	s.Rescan() // a file is not
	d.wants("a=2", "b=2")
	write(t, outside, "dir2/a.yaml", doc("a", "3"))
	must(t, os.Symlink(filepath.Join(outside, "dir2"), filepath.Join(root, ".new")))
	must(t, os.Rename(filepath.Join(root, ".new"), filepath.Join(root, "dir")))
	d.wants("a=3", "b=2")
	write(t, outside, "dir2/a.yaml", doc("a", "4"))
	d.wants("a=4", "b=2")
	d.neverDeleted(t)
}

func TestManyFiles(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 1000
	}
	root, d := t.TempDir(), newDesk(t)
	var want []string
	for i := range n {
		write(t, root, fmt.Sprintf("d%d/f%d.yaml", i%50, i), doc(fmt.Sprintf("k%d", i), "1"))
		want = append(want, fmt.Sprintf("k%d=1", i))
	}
	s, _ := run(t, root, d, nil)
	d.wants(want...)
	t.Run("are renamed one by one", func(t *testing.T) {
		for i := range n / 2 {
			must(t, os.Rename(filepath.Join(root, fmt.Sprintf("d%d/f%d.yaml", i%50, i)), filepath.Join(root, fmt.Sprintf("d%d/g%d.yaml", (i+7)%50, i))))
		}
		d.await(func() bool {
			return d.places[fmt.Sprintf("web/k%d", n/2-1)] == fmt.Sprintf("d%d/g%d.yaml:1", (n/2-1+7)%50, n/2-1)
		})
	})
	d.neverDeleted(t)
	t.Run("are renamed with their directories while all is read", func(t *testing.T) {
		s.Rescan()
		for i := range 50 {
			must(t, os.Rename(filepath.Join(root, fmt.Sprintf("d%d", i)), filepath.Join(root, fmt.Sprintf("a%d", i))))
		}
		d.await(func() bool { return d.places["web/k0"] == "a7/g0.yaml:1" })
	})
	d.wants(want...)
	d.well()
	d.neverDeleted(t)
	t.Run("are deleted", func(t *testing.T) {
		for i := range 50 {
			must(t, os.RemoveAll(filepath.Join(root, fmt.Sprintf("a%d", i))))
		}
		d.wants()
	})
}
