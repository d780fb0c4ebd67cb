#!/usr/bin/env bash
# The main job on the lab: raise it, run the campaign of lab/campaign.toml, print Table 1 beside the truth, and write
# the report page.
# The lab is removed at the end, however that comes; the store stays in var/store.
set -euo pipefail
cd "$(dirname "$0")/.."
ff=.venv/bin/firstflight
started=$SECONDS

"$ff" lab up # when it is up already, this says so and ends here: it may be somebody's
trap '"$ff" lab down' EXIT
run="$("$ff" campaign run --config lab/campaign.toml | tail -n 1)"
"$ff" lab truth --table1 >var/table1_truth.jsonl
"$ff" report table1 --run "$run" --truth var/table1_truth.jsonl
page="$("$ff" report --out var/report --run "$run")"
echo
echo "Run $run took $((SECONDS - started)) s, lab included. Ask the store yourself:"
echo "  $ff sql \"SELECT * FROM table1\""
echo "Tables and figures of the run: $page"
