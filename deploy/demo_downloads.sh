#!/usr/bin/env bash
# Demo in the lab: start the lab, run the campaign of lab/downloads.toml (crawl, TCP options, downloads), print Tables 1
# and 2 beside the published values, and hold every row against the truth. The lab is always removed at the end; the
# store remains in var/store.
set -euo pipefail
cd "$(dirname "$0")/.."
ff=.venv/bin/firstflight
started=$SECONDS

"$ff" lab up # fails if a lab is already up: it may be in use
trap '"$ff" lab down' EXIT
run="$("$ff" campaign run --config lab/downloads.toml | tail -n 1)"
"$ff" report downloads --run "$run"
echo
echo "Downloads by outcome, as measured and as the lab declares them:"
truth="$(mktemp -d)"
trap 'rm -r "$truth"; "$ff" lab down' EXIT
"$ff" sql --format JSONEachRow "
SELECT domain, set, outcome FROM download WHERE run = '$run'" >"$truth/rows.jsonl"
"$ff" lab truth --downloads >"$truth/truth.jsonl"
.venv/bin/python - "$truth" <<'END'
import collections, json, pathlib, sys

folder = pathlib.Path(sys.argv[1])
truth = {
    (line["domain"], name): declared["outcome"]
    for line in map(json.loads, (folder / "truth.jsonl").open())
    for name, declared in line["download"].items()
}
rows = [json.loads(line) for line in (folder / "rows.jsonl").open()]
places = len(rows) // len(truth)
measured = collections.Counter(row["outcome"] for row in rows)
declared = collections.Counter(truth.values())
for outcome in sorted(measured | declared):
    print(f"  {outcome:15} {measured[outcome]:4} {declared[outcome] * places:4}")
wrong = [row for row in rows if row["outcome"] != truth[row["domain"], row["set"]]]
print(f"{len(rows)} downloads, {len(wrong)} not as declared")
sys.exit(bool(wrong) or len(rows) != places * len(truth))
END
echo "Run $run took $((SECONDS - started)) s, lab included. Query the store:"
echo "  $ff sql \"SELECT vantage, set, median(download_throughput_bps) FROM download GROUP BY ALL\""
echo "  $ff sql \"SELECT domain, window_scaling, sack, timestamps, ecn FROM tcp_option LIMIT 10\""
