#!/usr/bin/env bash
# Builds a release into a folder: for each platform a pawl-VERSION-OS-ARCH.tar.gz, the
# bills of material, and SHA256SUMS. The same sources, with the same Go, give the same bytes,
# wherever and whenever it runs; but a bill names the very tool that made it. The plugins
# must be built: `make release` sees to it.
#
#   build.sh FOLDER [OS/ARCH ...]
#
# VERSION, COMMIT and DATE (RFC 3339) are what the program says of itself. They default to
# what Git knows of the checkout; DATE is the commit's.
set -euo pipefail
cd "$(dirname "$0")/../.."

(($# >= 1)) || { echo "usage: build.sh FOLDER [OS/ARCH ...]" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
platforms=("$@")
((${#platforms[@]})) || platforms=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64)

VERSION=${VERSION:-$(git describe --tags --always --dirty)}
COMMIT=${COMMIT:-$(git rev-parse HEAD)}
DATE=${DATE:-$(TZ=UTC git show -s --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd HEAD)}
SBOM=$(realpath "${SBOM:-bin/cyclonedx-gomod}")

cli=github.com/pawlsync/pawl/internal/cli
ldflags="-s -w -buildid= -X $cli.version=$VERSION -X $cli.commit=$COMMIT -X $cli.built=$DATE"

for p in $(sed -n "s/^PLUGINS := //p" Makefile); do
	p=internal/bundled/plugins/$p.wasm
	[ -s "$p" ] || { echo "$p is missing; run: make plugins" >&2; exit 1; }
done

# A tar file that tells nothing of who made it, and when.
pack() { # FOLDER NAME
	tar --sort=name --format=ustar --mtime="$DATE" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -C "$1" -cf - "$2" | gzip -9n
}

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
for platform in "${platforms[@]}"; do
	os=${platform%/*} arch=${platform#*/}
	name=pawl-$VERSION-$os-$arch
	mkdir -p "$work/$name"
	# No C: the program is static, and needs nothing of the system that it comes to.
	# What Git knows is not asked by Go itself, so that sources without Git give the same.
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch GOFLAGS=-mod=readonly \
		go build -trimpath -buildvcs=false -ldflags "$ldflags" -o "$work/$name/pawl" ./cmd/pawl
	cp LICENSE CHANGELOG.md "$work/$name/"
	cp config/example.yaml "$work/$name/pawl.yaml"
	[ "$os" != linux ] || cp -r deploy/systemd "$work/$name/systemd"
	pack "$work" "$name" >"$out/$name.tar.gz"
	"$SBOM" bin -json -noserial -notimestamp -version "$VERSION" -output "$out/$name.cdx.json" "$work/$name/pawl"
	echo "built $name.tar.gz"
done
(cd plugins && "$SBOM" mod -json -noserial -notimestamp -output "$out/pawl-$VERSION-plugins.cdx.json")
(cd "$out" && sha256sum -- "pawl-$VERSION"-* >SHA256SUMS)
