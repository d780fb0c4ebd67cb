"""Runs the instant-ACK campaign from every vantage point, when a new list and a new table are available."""

from __future__ import annotations

from airflow.sdk import DAG, Asset, Param

from orchestration.airflow.measure import DAG_ARGUMENTS, measure, parameters
from orchestration.airflow.open_run import OpenScan
from orchestration.stages import RunPlan

ROWS = Asset("quic_probe")

with DAG(
    "quic_scan",
    description="First answers of all names from every vantage point, for a new list and table",
    schedule=[Asset("targets"), Asset("as_data")],
    **DAG_ARGUMENTS,
    params={
        **parameters(max_age_days=3),
        "rate": Param(
            None,
            type=["null", "number"],
            exclusiveMinimum=0,
            description="New probes per second and vantage point, at most what vantage_points.toml allows.",
        ),
        "families": Param([4, 6], type="array", items={"enum": [4, 6]}, minItems=1, uniqueItems=True),
        "handshake_share": Param(
            0.01,
            type=["null", "number"],
            minimum=0,
            maximum=1,
            description="Share of the names to complete a handshake with, selected by the run's seed; "
            "0: no handshakes; null: the value in the site's settings.",
        ),
        "scan_networks": Param(
            "weekly",
            enum=["weekly", "always", "never"],
            description="When ZMap scans the networks in [scan] of the site's settings, if it is enabled "
            "there; weekly: in each repetition of a run with "
            "Monday's list.",
        ),
    },
    doc_md="""
### How do the edges answer the first flight?

`open` creates a run with the newest list and routing table; its value (*XCom*) is the run's id, as in rows
and `firstflight runs`. Each vantage point then fetches its inputs from the centre and, per repetition,
resolves the names, probes them while a capture runs, completes handshakes with a share of the names, dissects
the capture, and loads its rows into the store. If `[scan]` of site.toml is enabled, ZMap scans its networks
before the probes in runs with Monday's list, and the addresses that answer are probed, too. If the scan
fails, the names are probed without it.
`report` writes the page when all rows are loaded, or after `report_after_minutes`, and names missing vantage
points; `late_report` writes it again when the last vantage point has finished.

**Run it now:** *Trigger*, at the top right. Its form has the parameters; do not change the logical date. The
list and the table must have been fetched (DAGs `targets`, `as_data`); the DAG starts automatically when both
are updated.

**See the results:** the log of `report`, its page below `FIRSTFLIGHT_REPORTS`, or at the centre
`firstflight sql "SELECT vantage, outcome, count() FROM quic_probe WHERE run = 'RUN' GROUP BY ALL"`.

**Where tasks run:** a vantage point's tasks run only on its worker (queue), one scan at a time (pool
`scan_NAME`; with shards a pool for each), at most `scan_rate` new probes per second. If a vantage point is
down, its tasks wait, and other vantage points are not delayed.

**Stop it:** pause the DAG. Probing stops gracefully within seconds, no data is lost, and it continues when
the DAG is unpaused. `firstflight runs stop RUN` at the centre stops one run permanently; its rows are loaded
and reported.

**When something fails:** the last line of the task's log is the error, and docs/reference/site-failures.md
says what to do. A retried stage continues where it stopped; rows are loaded exactly once.
""",
):
    run = OpenScan(
        task_id="open",
        inputs={name: Asset(name) for name in ("targets", "as_data")},
        shares={"handshake": "handshake_share"},
    ).output
    measure(
        RunPlan.SCAN, run, parts=lambda vantage: vantage.scan_parts, rows=ROWS, report=Asset("quic_report")
    )
