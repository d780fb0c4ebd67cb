#!/usr/bin/env bash
# Prepares a Debian 12 machine for firstflight: system packages, a virtual environment, native programs.
#
#     deploy/setup.sh [demo|docs|site|testbed|superset|test|machines]
#
# demo: the campaign and the lab; docs: demo, and the generator of the documentation site; site: Airflow and its
# database as well; testbed: demo, and what builds the guest's kernel; superset: demo, and Superset in an environment of
# its own; test (the default): everything that tests, lint and benches use; machines: test, and what boots the machines of
# `make deploy-test`. Safe to run again: each step looks first and does only what is missing.
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

PROFILE="${1:-test}"
case "$PROFILE" in
    demo | testbed | superset) requirements=(requirements.txt); python_size="1.1 GB" ;;
    docs) requirements=(requirements.txt requirements-docs.txt); python_size="1.1 GB" ;;
    site) requirements=(requirements.txt requirements-airflow.txt requirements-site.txt); python_size="1.3 GB" ;;
    test | machines)
        requirements=(requirements.txt requirements-airflow.txt requirements-site.txt requirements-deploy.txt requirements-docs.txt requirements-dev.txt)
        python_size="1.5 GB" ;;
    *) fail "'$PROFILE' is not demo, docs, site, testbed, superset, test or machines." ;;
esac

PYTHON="${PYTHON:-python3}"
need Python 3.11 "$(version_of "$PYTHON" --version)"
need Go 1.26 "$(version_of go version)"
need Rust 1.95 "$(version_of rustc --version)"
need gcc 10 "$(version_of gcc -dumpfullversion)"

# Debian package -> a file that shows that the package is installed.
declare -A PACKAGES=(
    [tcpdump]=tcpdump [bind9]=named [bind9-dnsutils]=dig [bind9-utils]=rndc [bird2]=bird [nginx-light]=nginx
    [iproute2]=ip [ethtool]=ethtool [nftables]=nft [zstd]=zstd [cmake]=cmake [make]=make [bzip2]=bzip2 [util-linux]=unshare
    [libclang-dev]='/usr/lib/llvm-*/lib/libclang.so' [g++]=g++ [pkg-config]=pkg-config [git]=git
)
if [ "$PROFILE" = testbed ]; then
    PACKAGES+=([flex]=flex [bison]=bison [bc]=bc [xz-utils]=xz [perl]=perl [patch]=patch
        [default-jdk-headless]=javac [maven]=mvn [libnuma-dev]='/usr/lib/*/libnuma.a')
fi
if [ "$PROFILE" = site ] || [ "$PROFILE" = test ] || [ "$PROFILE" = machines ]; then
    PACKAGES+=([postgresql]='/usr/lib/postgresql/*/bin/postgres')
fi
if [ "$PROFILE" = machines ]; then
    PACKAGES+=([systemd-container]=systemd-nspawn [openssh-server]=/usr/sbin/sshd [openssh-client]=ssh [curl]=curl)
fi
if [ "$PROFILE" = test ] || [ "$PROFILE" = machines ]; then
    PACKAGES+=([systemd]=systemd-analyze [tshark]=tshark [chromium]=chromium [firefox-esr]=firefox-esr [libnss3-tools]=certutil [chromium-driver]=chromedriver [faketime]=faketime [strace]=strace [unbound]=/usr/sbin/unbound
        [zmap]=/usr/sbin/zmap)
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
    "${as_root[@]}" apt-get update -qq
    bytes="$(apt-get install --print-uris -qq --no-install-recommends "${missing[@]}" 2>/dev/null | awk '{ n += $3 } END { print n + 0 }')"
    say "installing Debian packages ($((bytes / 1000000)) MB to download): ${missing[*]}"
    # Installing a server must not start it, neither now nor at the next boot: the lab runs its own servers in its own
    # namespaces. PostgreSQL would also create a cluster and start it.
    no_cluster=/etc/postgresql-common/createcluster.d/firstflight.conf
    "${as_root[@]}" mkdir -p "${no_cluster%/*}"
    trap '"${as_root[@]}" rm -f "$no_cluster"' EXIT
    echo "create_main_cluster = false" | "${as_root[@]}" tee "$no_cluster" >/dev/null
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    "${as_root[@]}" rm "$no_cluster"
    trap - EXIT
    declare -A SERVICES=([bind9]=named [bird2]=bird [nginx-light]=nginx [openssh-server]=ssh [unbound]=unbound)
    for package in "${missing[@]}"; do
        service="${SERVICES[$package]:-}"
        if [ -n "$service" ] && command -v systemctl >/dev/null; then
            "${as_root[@]}" systemctl disable -q "$service" 2>/dev/null \
                || say "$service will start at the next boot; 'systemctl disable $service' prevents it."
        fi
    done
fi

# A profile is installed when the stamp of its last file fits this Python and these files.
last="${requirements[-1]}"
want="$("$PYTHON" --version) $(sha256sum "${requirements[@]}" pyproject.toml)"
if [ ! -x .venv/bin/firstflight ] || [ "$(cat ".venv/.$last" 2>/dev/null)" != "$want" ]; then
    say "installing $(cat "${requirements[@]}" | grep -c ==) Python packages into .venv ($python_size on disk)"
    [ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
    .venv/bin/pip install -q --disable-pip-version-check "${requirements[@]/#/--requirement=}"
    .venv/bin/pip install -q --disable-pip-version-check --no-deps -e .
    for count in $(seq "${#requirements[@]}"); do
        files=("${requirements[@]:0:$count}")
        printf '%s' "$("$PYTHON" --version) $(sha256sum "${files[@]}" pyproject.toml)" >".venv/.${files[-1]}"
    done
fi

# Superset's dependencies are not ours: the analyst's bench has an environment of its own (deploy/superset).
bench=requirements-superset.txt
want="$("$PYTHON" --version) $(sha256sum "$bench")"
if [ "$PROFILE" = superset ] && [ "$(cat ".venv-superset/.$bench" 2>/dev/null)" != "$want" ]; then
    say "installing Superset: $(grep -c == "$bench") Python packages into .venv-superset (0.9 GB on disk)"
    [ -x .venv-superset/bin/python ] || "$PYTHON" -m venv .venv-superset
    .venv-superset/bin/pip install -q --disable-pip-version-check -r "$bench"
    printf '%s' "$want" >".venv-superset/.$bench"
fi

benches=()
if [ "$PROFILE" != test ] && [ "$PROFILE" != machines ]; then
    for name in responder captures kernel-alone; do benches+=(--exclude "firstflight-$name"); done
fi
[ -e target/release/firstflight-prober ] || say "building native programs (the first time takes several minutes, and 2 GB)"
cargo build --quiet --release --workspace --locked "${benches[@]}"
(cd lab/stacks/quic-go
    go build -trimpath -o ../../../target/release/firstflight-quicgo .
    go build -trimpath -o ../../../target/release/firstflight-files ./files
    go build -trimpath -o ../../../target/release/firstflight-quicgo-client ./client
    go build -trimpath -o ../../../target/release/firstflight-xnet-client ./xnet)
(cd deploy/grafana/check && go build -trimpath -o ../../../target/release/firstflight-grafana-check .)
