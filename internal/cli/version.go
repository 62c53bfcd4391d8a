package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/pawlsync/pawl/internal/api"
)

// version is set by the build: -ldflags "-X github.com/pawlsync/pawl/internal/cli.version=v1.2.3".
var version = ""

// BuildVersion says what this program is: what the linker was told, else what
// Go noted of the checkout.
func BuildVersion() api.Version {
	v := api.Version{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if v.Version == "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value[:min(12, len(s.Value))]
		case "vcs.time":
			v.Built = s.Value
		}
	}
	return v
}
