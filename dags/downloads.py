"""Downloads the files of the newest crawl from every vantage point, under each option set."""

from __future__ import annotations

from airflow.sdk import DAG, Asset

from orchestration.airflow.measure import DAG_ARGUMENTS, measure, parameters
from orchestration.airflow.open_run import OpenDownloads
from orchestration.stages import RunPlan

DOWNLOAD_TARGETS, AS_DATA = Asset("download_targets"), Asset("as_data")

with DAG(
    "downloads",
    description="Throughput of downloads under option sets and QUIC, from every vantage point",
    schedule=[DOWNLOAD_TARGETS, AS_DATA],
    is_paused_upon_creation=True,
    **DAG_ARGUMENTS,
    params=parameters(max_age_days=8),
    doc_md="""
### How do TCP options and QUIC change throughput?

`open` creates a run with the files of the newest crawl and the newest routing table; its value (*XCom*) is
the run's id. Each vantage point then fetches its inputs from the centre and, per repetition, resolves the
names, downloads the selected files under each option set, and loads its rows into the store. `report` prints
Tables 1 and 2 of downloads when all rows are loaded, or after `report_after_minutes`, and names missing
vantage points; `late_report` prints the tables again when the last vantage point has finished.

**See the results:** the log of `report`, or at the centre `firstflight report downloads --run RUN`.

**Before you unpause it:** `[download]` of downloads.toml sets option sets, the number of selected files, and
the pauses: by default an hour between two runs for a name and address, for all vantage points together. A
vantage point forwards packets for the namespaces of the clients (`net.ipv4.ip_forward`).

**Run it now:** *Trigger*, at the top right; its form has the parameters. A crawl must have published files
(DAG `crawl`); the DAG starts automatically when there is a new crawl and a new table: once a week.

**Where tasks run:** a vantage point's tasks run only on its worker (queue), one run of downloads at a time
(pool `download_NAME`), even if scans have shards. Scans and watches continue meanwhile.

**Stop it:** pause the DAG: the stage stops cleanly and continues with the next file when the DAG is unpaused.
`firstflight runs stop RUN` at the centre stops one run permanently; its rows are loaded.

**When something fails:** the last line of the task's log is the error, and docs/reference/site-failures.md
says what to do. Downloads that were missed because of the failure are rows with outcome `skipped`; rows are
loaded exactly once.
""",
):
    run = OpenDownloads(task_id="open", inputs={"crawl": DOWNLOAD_TARGETS, "as_data": AS_DATA}).output
    measure(RunPlan.DOWNLOADS, run, parts=lambda vantage: vantage.download_parts, rows=Asset("download"))
