#!/bin/sh
# Builds a plugin with rustc alone: no cargo, no network, no file but the module.
# The same sources and the same rustc give the same bytes, in whatever folder.
#
#   build.sh CRATE OUT.wasm      CRATE is a folder with src/lib.rs
#   build.sh --test CRATE        runs the crate's tests, natively; of the SDK too
#
# RUSTC names the compiler. By default it is the first that has the target.
set -eu

target=wasm32-unknown-unknown
sdk=$(cd "$(dirname "$0")" && pwd)

has_target() {
	command -v "$1" >/dev/null 2>&1 && [ -d "$("$1" --print sysroot)/lib/rustlib/$target/lib" ]
}

find_rustc() {
	for rustc in rustc /usr/bin/rustc; do
		if has_target "$rustc"; then
			echo "$rustc"
			return
		fi
	done
	cat >&2 <<-END
		build.sh: no rustc with the target $target was found. Either of
		  rustup target add $target
		  apt-get install rustc libstd-rust-dev-wasm32 lld     (Debian 12 or later)
		brings it. Where another compiler is meant, name it by RUSTC.
	END
	return 1
}

usage() {
	sed -n 's/^# \{0,1\}//; 5,6p' "$0" >&2
	exit 2
}

# The crate's name is Cargo.toml's, or without one its folder's.
name_of() {
	name=$(sed -n 's/^name *= *"\(.*\)".*/\1/p' "$1/Cargo.toml" 2>/dev/null | head -n 1)
	echo "${name:-$(basename "$1")}" | tr -c '[:alnum:]\n' _
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

compile() {
	"$RUSTC" --edition 2021 --remap-path-prefix "$sdk=pawl" "$@"
}

case $# in
2) ;;
*) usage ;;
esac
RUSTC=${RUSTC:-$(find_rustc)}

if [ "$1" = --test ]; then
	crate=$(cd "$2" && pwd)
	set -- --crate-name "$(name_of "$crate")" --test "$crate/src/lib.rs"
	if [ "$crate" != "$sdk" ]; then
		compile --crate-name pawl --crate-type rlib "$sdk/src/lib.rs" -o "$work/libpawl.rlib"
		set -- "$@" --extern "pawl=$work/libpawl.rlib"
	fi
	compile "$@" -o "$work/tests"
	cd "$crate"
	"$work/tests"
	exit
fi

crate=$(cd "$1" && pwd)
name=$(name_of "$crate")
out=$2
# Debian has no rust-lld where recommended packages were left out; wasm-ld is the same.
if ! command -v rust-lld >/dev/null && ! ls "$("$RUSTC" --print sysroot)"/lib/rustlib/*/bin/rust-lld >/dev/null 2>&1; then
	set -- -C linker=wasm-ld
else
	set --
fi
set -- "$@" --target "$target" -C opt-level=2 -C panic=abort -C codegen-units=1 -C embed-bitcode=no
compile "$@" --crate-name pawl --crate-type rlib "$sdk/src/lib.rs" -o "$work/libpawl.rlib"
compile "$@" --crate-name "$name" --crate-type cdylib --extern "pawl=$work/libpawl.rlib" \
	--remap-path-prefix "$crate=$name" -C strip=symbols "$crate/src/lib.rs" -o "$work/plugin.wasm"
mv "$work/plugin.wasm" "$out"
