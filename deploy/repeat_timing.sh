#!/usr/bin/env bash
# Repeats the tests that depend on a clock (docs/design/0013), beside busy loops of the same priority.
# Usage: deploy/repeat_timing.sh ROUNDS LOOPS. One line a round; the output of a failed one follows it.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:?usage: deploy/repeat_timing.sh ROUNDS LOOPS} loops=${2:?usage: deploy/repeat_timing.sh ROUNDS LOOPS}
busy=() failed=0
files=$(.venv/bin/python -c 'from tests.conftest import TIMING; print(*{name.split("::")[0]: 0 for name in TIMING})')
output=$(mktemp)
end() {
    for pid in "${busy[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -f "$output"
}
trap end EXIT
trap 'exit 130' INT TERM
for _ in $(seq "$loops"); do
    (while :; do :; done) &
    busy+=($!)
done
for round in $(seq "$rounds"); do
    status=0
    # Six processes: the tests mostly wait. Only their files are collected.
    # A shell without terminal starts its background jobs with SIGINT ignored; tests send that signal.
    env --default-signal=INT tests/isolated .venv/bin/python -m pytest -q -n 6 -p no:cacheprovider -m timing \
        $files >"$output" 2>&1 || status=$?
    echo "round $round of $rounds, $loops busy loops: $(tail -n 1 "$output"), load $(cut -d ' ' -f 1 /proc/loadavg)"
    if [ "$status" != 0 ]; then
        failed=$((failed + 1))
        cat "$output"
    fi
done
echo "$failed of $rounds rounds failed"
[ "$failed" = 0 ]
