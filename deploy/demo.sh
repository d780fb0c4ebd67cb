#!/usr/bin/env bash
# Demo in the lab: start the lab, run the campaign of lab/campaign.toml, print Table 1 beside the declared values, and
# write the report page. The lab is always removed at the end; the store remains in var/store.
set -euo pipefail
cd "$(dirname "$0")/.."
ff=.venv/bin/firstflight
started=$SECONDS

"$ff" lab up # fails if a lab is already up: it may be in use
trap '"$ff" lab down' EXIT
run="$("$ff" campaign run --config lab/campaign.toml | tail -n 1)"
"$ff" lab truth --table1 >var/table1_truth.jsonl
"$ff" report table1 --run "$run" --truth var/table1_truth.jsonl
page="$("$ff" report --out var/report --run "$run")"
echo
echo "Run $run took $((SECONDS - started)) s, lab included. Query the store:"
echo "  $ff sql \"SELECT * FROM table1\""
echo "  $ff sql \"SELECT domain, status, server_header, edge_location FROM quic_handshake LIMIT 10\""
echo "Tables and figures of the run: $page"
