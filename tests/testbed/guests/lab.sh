#!/bin/sh
# In a guest: starts the lab, probes targets.csv from hamburg during a capture, and leaves records and logs.
# Usage: lab.sh PYTHON [lab up's options...]
set -eu
python=$1; shift
# Hosts of the lab have a /run of their own, without the job's folder.
cp "$LD_PRELOAD" /tmp/random_device.so
export LD_PRELOAD=/tmp/random_device.so FIRSTFLIGHT_LAB=/tmp/lab
job=$PWD
mkdir /tmp/out
cp ./* /tmp/out/
cd /tmp/out
finish() {
    cp -- *.jsonl *.pcap *.txt "$job" || true
    cp /tmp/lab/lateness.csv /tmp/lab/internet.toml "$job" || true
}
trap finish EXIT
"$python" -P -m cli lab up "$@" 2>up.txt
"$python" -P -m cli lab exec hamburg sh -c '
    tcpdump -i any --nano -U -w probe.pcap udp port 443 2>tcpdump.txt &
    capture=$!
    until grep -q "^tcpdump: listening" tcpdump.txt; do sleep 0.1; done
    # One probe at a time: a server with one processor answers simultaneous probes one after the other.
    "$0" -P -m cli probe --targets targets.csv --rate 10 --per-address-rate 0 --per-prefix-rate 0 \
        --seed 1 --cid-key 000102030405060708090a0b0c0d0e0f --ports 61000-61015 \
        --allow-net 198.18.0.0/15 --allow-net 2001:db8::/32 >probes.jsonl 2>probe.txt
    sleep 1
    kill -INT $capture
    wait $capture
' "$python"
"$python" -P -m cli lab down 2>>up.txt
