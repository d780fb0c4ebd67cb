#!/usr/bin/env bash
# Prepares a Debian 12 machine for firstflight: system packages, a virtual environment, Rust and Go programs.
# Safe to run again: each step installs only what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:/usr/local/go/bin:/usr/sbin:/sbin:$PATH"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 2; }

# at_least HAVE WANT: is version HAVE the same as WANT or newer?
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# need NAME WANT HAVE: exits with a message if a toolchain is missing or too old.
need() {
    [ -n "$3" ] || fail "$1 is not installed; firstflight needs $1 $2 or newer: install it and run this again."
    at_least "$3" "$2" || fail "$1 $3 is too old; firstflight needs $1 $2 or newer: upgrade it and run this again."
}

version_of() { "$@" 2>/dev/null | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1 || true; }

PYTHON="${PYTHON:-python3}"
need Python 3.11 "$(version_of "$PYTHON" --version)"
need Go 1.26 "$(version_of go version)"
need Rust 1.95 "$(version_of rustc --version)"
need gcc 10 "$(version_of gcc -dumpfullversion)"

# Debian package -> a file that shows that the package is installed.
declare -A PACKAGES=(
    [tcpdump]=tcpdump [tshark]=tshark [bind9]=named [bind9-dnsutils]=dig [bind9-utils]=rndc [bird2]=bird [nginx-light]=nginx
    [iproute2]=ip [ethtool]=ethtool [nftables]=nft [zstd]=zstd [cmake]=cmake [make]=make [bzip2]=bzip2 [util-linux]=unshare
    [chromium]=chromium [chromium-driver]=chromedriver [faketime]=faketime [postgresql]='/usr/lib/postgresql/*/bin/postgres'
    [libclang-dev]='/usr/lib/llvm-*/lib/libclang.so' [g++]=g++ [pkg-config]=pkg-config [git]=git
)
missing=()
for package in "${!PACKAGES[@]}"; do
    shows="${PACKAGES[$package]}"
    case "$shows" in
        /*) compgen -G "$shows*" >/dev/null || missing+=("$package") ;;
        *) command -v "$shows" >/dev/null || missing+=("$package") ;;
    esac
done
"$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
# pyasn is installed from source: its C part needs Python's headers.
header="$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include") + "/Python.h")')"
[ -e "$header" ] || missing+=(python3-dev)
if [ "${#missing[@]}" -gt 0 ]; then
    if [ "$(id -u)" = 0 ]; then as_root=()
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root=(sudo -n)
    elif command -v sudo >/dev/null && [ -t 0 ]; then as_root=(sudo)
    else fail "these Debian packages are missing and need root or sudo to install: ${missing[*]}."
    fi
    command -v apt-get >/dev/null || fail "apt-get is missing; install these programs by hand and run this again: ${missing[*]}."
    say "installing Debian packages: ${missing[*]}"
    "${as_root[@]}" apt-get update -qq
    # Installing a server must not start it: the lab runs its own servers in its own namespaces. PostgreSQL would also
    # create a cluster and start it.
    no_cluster=/etc/postgresql-common/createcluster.d/firstflight.conf
    "${as_root[@]}" mkdir -p "${no_cluster%/*}"
    echo "create_main_cluster = false" | "${as_root[@]}" tee "$no_cluster" >/dev/null
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    "${as_root[@]}" rm "$no_cluster"
fi

stamp=".venv/.requirements"
want="$("$PYTHON" --version) $(sha256sum requirements.txt pyproject.toml)"
if [ ! -x .venv/bin/firstflight ] || [ "$(cat "$stamp" 2>/dev/null)" != "$want" ]; then
    say "installing Python packages into .venv"
    [ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
    .venv/bin/pip install -q --disable-pip-version-check -r requirements.txt
    .venv/bin/pip install -q --disable-pip-version-check --no-deps -e .
    printf '%s' "$want" >"$stamp"
fi

say "building native programs (the first time takes several minutes)"
cargo build --quiet --release --workspace --locked
(cd lab/quicgo && go build -trimpath -o ../../target/release/firstflight-quicgo .)
