#!/usr/bin/env bash
# Builds the image of a release's Linux archives, with buildah: an OCI archive,
# pawl-VERSION-image.tar, of as many platforms. The same archives give the same bytes.
#
#   build.sh FOLDER VERSION
#
# DATE (RFC 3339), the time that the image says of itself, is as in deploy/release/build.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

(($# == 2)) || { echo "usage: build.sh FOLDER VERSION" >&2; exit 2; }
command -v buildah >/dev/null || { echo "buildah is missing; it is a package of most distributions" >&2; exit 1; }
out=$(cd "$1" && pwd)
version=$2
DATE=${DATE:-$(TZ=UTC git -C "$here" show -s --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd HEAD)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/context/state" "$work/context/tmp"
platforms=()
for archive in "$out/pawl-$version"-linux-*.tar.gz; do
	arch=${archive##*-linux-}
	arch=${arch%.tar.gz}
	mkdir -p "$work/context/linux/$arch"
	tar -xzf "$archive" -C "$work/context/linux/$arch" --strip-components=1 "pawl-$version-linux-$arch/pawl"
	platforms+=("linux/$arch")
done
[ -n "${platforms[*]}" ] || { echo "$out has no archive of $version for Linux; run: make release" >&2; exit 1; }

# A store of its own: nothing of the machine's images is used, and nothing is left there.
run() { buildah --root "$work/root" --runroot "$work/run" --storage-driver vfs "$@"; }
run build --quiet --timestamp "$(date -u -d "$DATE" +%s)" --build-arg VERSION="$version" \
	--platform "$(IFS=, && echo "${platforms[*]}")" --manifest pawl --file "$here/Dockerfile" "$work/context" >/dev/null
run manifest push --quiet --all pawl "oci:$work/image:$version" >/dev/null
tar --sort=name --format=ustar --mtime="$DATE" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
	-C "$work/image" -cf "$out/pawl-$version-image.tar" blobs index.json oci-layout
(cd "$out" && sha256sum -- "pawl-$version"-* >SHA256SUMS)
echo "built pawl-$version-image.tar for ${platforms[*]}"
