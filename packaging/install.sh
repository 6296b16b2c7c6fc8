#!/bin/sh
# Installs wf: downloads the binary of this system, checks its digest, and copies it with manual pages and completions.
#
#   curl -fsSL @URL@/install.sh | sh
#
# Variables: WF_PREFIX (default: /usr/local for root, else ~/.local), WF_RELEASE (where the archives are).
set -eu

version=@VERSION@
release=${WF_RELEASE:-@URL@}

fail() { echo "install.sh: $*" >&2; exit 1; }

fetch() { # URL FILE
  if command -v curl >/dev/null; then
    curl -fsSL -o "$2" "$1"
  elif command -v wget >/dev/null; then
    wget -q -O "$2" "$1"
  else
    fail "curl or wget is required"
  fi || fail "$1 cannot be downloaded"
}

digest() { # FILE
  if command -v sha256sum >/dev/null; then
    sha256sum "$1"
  elif command -v shasum >/dev/null; then
    shasum -a 256 "$1"
  else
    fail "sha256sum or shasum is required"
  fi | cut -d ' ' -f 1
}

target() {
  case "$(uname -s) $(uname -m)" in
    "Linux x86_64") echo x86_64-unknown-linux-musl ;;
    "Linux aarch64") echo aarch64-unknown-linux-musl ;;
    "Darwin arm64") echo aarch64-apple-darwin ;;
    "Darwin x86_64") echo x86_64-apple-darwin ;;
    *) fail "there is no binary for $(uname -s) on $(uname -m): build it with cargo build --release" ;;
  esac
}

# Everything is one function, so that half a download of this script runs nothing.
main() {
  name=wf-$version-$(target)
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  fetch "$release/SHA256SUMS" "$dir/SHA256SUMS"
  fetch "$release/$name.tar.gz" "$dir/$name.tar.gz"
  expected=$(awk -v name="$name.tar.gz" '$2 == name { print $1 }' "$dir/SHA256SUMS")
  [ -n "$expected" ] || fail "SHA256SUMS does not list $name.tar.gz"
  found=$(digest "$dir/$name.tar.gz")
  [ "$found" = "$expected" ] || fail "$name.tar.gz has the digest $found, expected $expected"
  tar -xzf "$dir/$name.tar.gz" -C "$dir"
  "$dir/$name/wf" --version >/dev/null || fail "the binary does not run on this machine"

  prefix=${WF_PREFIX:-}
  if [ -z "$prefix" ]; then
    if [ "$(id -u)" = 0 ]; then prefix=/usr/local; else prefix=$HOME/.local; fi
  fi
  share=$prefix/share
  mkdir -p "$prefix/bin" "$share/man/man1" "$share/bash-completion/completions" \
    "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
  # Renamed, because a binary that runs cannot be written to.
  cp "$dir/$name/wf" "$prefix/bin/.wf.new"
  mv -f "$prefix/bin/.wf.new" "$prefix/bin/wf"
  cp "$dir/$name"/man/*.1 "$share/man/man1/"
  cp "$dir/$name/completions/wf.bash" "$share/bash-completion/completions/wf"
  cp "$dir/$name/completions/_wf" "$share/zsh/site-functions/_wf"
  cp "$dir/$name/completions/wf.fish" "$share/fish/vendor_completions.d/wf.fish"
  echo "wf $version is installed in $prefix/bin. Try: wf chat"
  case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) echo "$prefix/bin is not in PATH" ;;
  esac
}

main
