#!/usr/bin/env bash
# Repeats the tests that depend on a clock (docs/design/0013), while LOOPS busy loops run at the same priority.
# Usage: deploy/repeat_timing.sh ROUNDS LOOPS [ABREAST]
# Prints a line for each round. For a failed round, it also prints the output and the folder with the tests' files.
# ABREAST (1) rounds run concurrently. Each has separate namespaces and adds load for the others.
set -euo pipefail
cd "$(dirname "$0")/.."
usage="usage: deploy/repeat_timing.sh ROUNDS LOOPS [ABREAST]"
rounds=${1:?$usage} loops=${2:?$usage} abreast=${3:-1}
[ "$rounds" -gt 0 ] && [ "$abreast" -gt 0 ] || { echo "ROUNDS and ABREAST are at least 1: $usage" >&2; exit 2; }
started=() streams=() failed=0
files=$(.venv/bin/python -c 'from tests.conftest import TIMING; print(*{name.split("::")[0]: 0 for name in TIMING})')
folder=$(mktemp -d) kept=$(mktemp -d)
end() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$folder"
    rmdir "$kept" 2>/dev/null || true
}
trap end EXIT
trap 'exit 130' INT TERM
# Runs every ABREAST-th round, starting with round $1; returns the number of failed rounds.
stream() {
    local round status failures=0 output=$folder/$1.out
    for round in $(seq "$1" "$abreast" "$rounds"); do
        status=0
        # Six processes: the tests mostly wait. Only their files are collected.
        # A shell without terminal starts its background jobs with SIGINT ignored; tests send that signal.
        env --default-signal=INT tests/isolated .venv/bin/python -m pytest -q -n 6 -p no:cacheprovider -m timing \
            --basetemp="$folder/$round" $files >"$output" 2>&1 || status=$?
        echo "round $round of $rounds, $loops busy loops, $abreast abreast: $(tail -n 1 "$output")," \
            "load $(cut -d ' ' -f 1 /proc/loadavg)"
        if [ "$status" != 0 ]; then
            failures=$((failures + 1))
            cat "$output"
            [ ! -d "$folder/$round" ] || mv "$folder/$round" "$kept/"
            echo "round $round: the tests' files are in $kept/$round"
        fi
        rm -rf "${folder:?}/$round" || true
    done
    return "$failures"
}
for _ in $(seq "$loops"); do
    (while :; do :; done) &
    started+=($!)
done
for first in $(seq "$abreast"); do
    stream "$first" &
    streams+=($!)
    started+=($!)
done
for pid in "${streams[@]}"; do wait "$pid" || failed=$((failed + $?)); done
echo "$failed of $rounds rounds failed"
[ "$failed" = 0 ]
