#!/usr/bin/env bash
# Prepares a Debian machine for firstflight: system packages, a virtual environment, native programs.
#
#     deploy/setup.sh [demo|downloads|docs|site|testbed|superset|test|machines]
#
# demo: only what `make demo` runs; downloads: demo, crawl and downloads; docs: downloads, and the generator of the
# documentation site; site: downloads, Airflow and its database; testbed: downloads, and what builds the guest's kernel;
# superset: downloads, and Superset in a separate environment; test (the default): everything that tests, lint and benches
# use; machines: test, and what boots the machines of `make deploy-test`. Safe to run again: each step looks first and
# does only what is missing. deploy/install.py has the Python packages and the programs of each profile.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$HOME/.cargo/bin:/usr/local/go/bin:/usr/sbin:/sbin:$PATH"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 2; }

# at_least HAVE WANT: is version HAVE the same as WANT or newer?
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# need NAME WANT HAVE HOW: exits with a sentence that says HOW to get it if a program is missing or too old.
need() {
    [ -n "$3" ] || fail "$1 is missing and firstflight needs $1 $2 or newer: $4, then run this again."
    at_least "$3" "$2" || fail "$1 $3 is too old and firstflight needs $1 $2 or newer: $4, then run this again."
}

version_of() { "$@" 2>/dev/null | grep -oE '[0-9]+\.[0-9]+(\.[0-9]+)?' | head -n 1 || true; }

PROFILE="${1:-test}"
case "$PROFILE" in
    demo | downloads | docs | site | testbed | superset | test | machines) ;;
    *) fail "'$PROFILE' is not demo, downloads, docs, site, testbed, superset, test or machines." ;;
esac

PYTHON="${PYTHON:-python3}"
need Python 3.11 "$(version_of "$PYTHON" --version)" \
    "install Debian's package python3, or set PYTHON to a newer interpreter"
need gcc 10 "$(version_of gcc -dumpfullversion)" "install Debian's package gcc"
need Go 1.26 "$(version_of go version)" \
    "unpack the archive of https://go.dev/dl/ as /usr/local/go (a Go from 1.21 on gets it by 'go env -w GOTOOLCHAIN=go1.26.0+auto')"
need Rust 1.95 "$(version_of rustc --version)" \
    "run 'rustup update stable', after you have installed rustup from https://rustup.rs/ or Debian 13's package rustup"

# Debian package -> a file that shows that the package is installed.
declare -A PACKAGES=(
    [tcpdump]=tcpdump [bind9]=named [bind9-dnsutils]=dig [bind9-utils]=rndc [bird2]=bird [nginx-light]=nginx
    [iproute2]=ip [ethtool]=ethtool [nftables]=nft [zstd]=zstd [cmake]=cmake [make]=make [bzip2]=bzip2 [util-linux]=unshare
    [libclang-dev]='/usr/lib/llvm-*/lib/libclang.so' [g++]=g++ [pkg-config]=pkg-config [git]=git
)
if [ "$PROFILE" = testbed ]; then
    PACKAGES+=([flex]=flex [bison]=bison [bc]=bc [xz-utils]=xz [perl]=perl [patch]=patch
        [default-jdk-headless]=javac [maven]=mvn [libnuma-dev]='/usr/lib/*/libnuma.a' [libssl-dev]=/usr/include/openssl/ssl.h)
fi
if [ "$PROFILE" = site ] || [ "$PROFILE" = test ] || [ "$PROFILE" = machines ]; then
    PACKAGES+=([postgresql]='/usr/lib/postgresql/*/bin/postgres')
fi
if [ "$PROFILE" = machines ]; then
    PACKAGES+=([systemd-container]=systemd-nspawn [openssh-server]=/usr/sbin/sshd [curl]=curl)
fi
if [ "$PROFILE" = test ] || [ "$PROFILE" = machines ]; then
    PACKAGES+=([systemd]=systemd-analyze [openssh-client]=ssh [tshark]=tshark [chromium]=chromium [firefox-esr]=firefox-esr [libnss3-tools]=certutil [chromium-driver]=chromedriver [faketime]=faketime [strace]=strace [unbound]=/usr/sbin/unbound
        [zmap]=/usr/sbin/zmap [prometheus]=/usr/bin/promtool)
fi
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
    "$PYTHON" -m deploy.install debian 0 "${as_root[@]}" apt-get update
    read -r count bytes <<<"$(apt-get install --print-uris -qq --no-install-recommends "${missing[@]}" 2>/dev/null \
        | awk '{ n += $3 } END { print NR, n + 0 }')"
    say "installing Debian packages ($((bytes / 1000000)) MB to download): ${missing[*]}"
    # Installing a server must not start it, neither now nor at the next boot: the lab runs its own servers in its own
    # namespaces. PostgreSQL would also create a cluster and start it.
    no_cluster=/etc/postgresql-common/createcluster.d/firstflight.conf
    "${as_root[@]}" mkdir -p "${no_cluster%/*}"
    trap '"${as_root[@]}" rm -f "$no_cluster"' EXIT
    echo "create_main_cluster = false" | "${as_root[@]}" tee "$no_cluster" >/dev/null
    "$PYTHON" -m deploy.install debian "$count" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y --no-install-recommends "${missing[@]}"
    "${as_root[@]}" rm "$no_cluster"
    trap - EXIT
    declare -A SERVICES=([bind9]=named [bird2]=bird [nginx-light]=nginx [openssh-server]=ssh [unbound]=unbound
        [prometheus]=prometheus)
    for package in "${missing[@]}"; do
        service="${SERVICES[$package]:-}"
        if [ -n "$service" ] && command -v systemctl >/dev/null; then
            "${as_root[@]}" systemctl disable -q "$service" 2>/dev/null \
                || say "$service will start at the next boot; 'systemctl disable $service' prevents it."
        fi
    done
fi

exec "$PYTHON" -m deploy.install "$PROFILE"
