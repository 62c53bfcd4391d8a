package cli

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/pawlsync/pawl/internal/api"
)

// The build of a release sets them, as deploy/release/build.sh shows:
// -ldflags "-X github.com/pawlsync/pawl/internal/cli.version=v1.2.3 …".
var (
	version = ""
	commit  = "" // of Git, whole
	built   = "" // time of the commit, RFC 3339: a build of the same sources has the same
)

// BuildVersion says what this program is: what the linker was told, else what
// Go noted of the checkout.
func BuildVersion() api.Version {
	v := api.Version{Version: version, Commit: commit, Built: built, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = cmp.Or(v.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = cmp.Or(v.Commit, s.Value)
			case "vcs.time":
				v.Built = cmp.Or(v.Built, s.Value)
			}
		}
	}
	v.Commit = v.Commit[:min(12, len(v.Commit))]
	return v
}
