"""The tcp_options stage: draw names, connect with each address by TCP, write which options were agreed.

Runs after the handshakes of its key, otherwise as `scanner/drawn.py` says. Its SYNs come from a network
namespace in which all options are offered, behind this one; where none can be made, from here, and options
that are not offered are null.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.egress import lab
from firstflight.errors import UsageError
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system.netns import Masqueraded
from scanner import drawn
from scanner.backoff import pauses
from scanner.driver import process, summaries
from scanner.driver.mapped import joined
from scanner.driver.rows import Rows
from scanner.driver.segments import closed_segments
from scanner.records import counts, finished, merge
from scanner.records.provenance import provenance
from schemas import records

NAME, KIND = "tcp_options", "tcp_option"
ENGINE = process.Engine("TCP engine", "what was done is kept, and --resume continues")
# Every option is offered; a SYN without ECN after a lost one is the kernel's (RFC 3168 6.1.1.1).
OFFERED = {
    "ipv4/tcp_ecn": "1",
    "ipv4/tcp_sack": "1",
    "ipv4/tcp_window_scaling": "1",
    "ipv4/tcp_timestamps": "1",
}


def stage(run: Run, key: StageKey) -> None:
    """Connect with the drawn share of the addresses that the resolve stage found for `key`.

    Reads dns_answer.parquet and as_data/; writes tcp_option.parquet into the stage's folder. Raises
    FirstflightError, UsageError if the settings do not enable it; SIGINT shuts down gracefully.
    """

    def argv(report: StageReport, stack: ExitStack) -> list[str]:
        return _offering(run, key, report, stack)

    def write(targets: drawn.Drawn, report: StageReport, stopped: bool) -> None:
        _write(run, key, targets, report, stopped)

    port, out = run.settings.tcp_options.port, run.layout.tcp_option(key)
    drawn.execute(run, key, drawn.Stage(NAME, ENGINE, port, out, argv, write))


def arguments(run: Run, key: StageKey, *, inside: bool) -> list[str]:
    """Return the argument list of the engine for a key, with its files in the stage's folder.

    `inside` a namespace of its own, which has neither the vantage point's addresses nor its ports.
    """
    options = [
        (name, value) for name, value in drawn.options(run, key, NAME) if not (inside and name == "--source")
    ]
    options.append(("--attempts", run.settings.tcp_options.attempts))
    return drawn.argument_list("firstflight-tcp-options", options, run.layout.stage(NAME, key))


def _offering(run: Run, key: StageKey, report: StageReport, stack: ExitStack) -> list[str]:
    """Return the engine's argument list inside a namespace that offers all options, or here."""
    mark = lab.MARK if lab.is_lab() else ""
    try:
        namespace = stack.enter_context(Masqueraded(0, OFFERED, mark=mark))
    except UsageError as error:
        report.warnings.append(f"{error}; SYNs offer what this machine's settings say, the rest is null")
        return arguments(run, key, inside=False)
    return namespace.inside(arguments(run, key, inside=True))


def _write(run: Run, key: StageKey, targets: drawn.Drawn, report: StageReport, stopped: bool) -> None:
    """Write tcp_option.parquet from the closed segments.

    `stopped`: write the rows that exist, if any; the next start does the rest. Raises FirstflightError if a
    target is missing without having been rejected.
    """
    folder, out, plan = run.layout.stage(NAME, key), run.layout.tcp_option(key), targets.plan
    closed = closed_segments(folder / "segments")
    if plan.num_rows == 0:
        report.rows_out = merge.write([records.load(KIND).arrow_schema().empty_table()], out, KIND)
        report.counts = {"sent": 0}
        run.add_output(report, out)
        return
    if stopped and not (closed and summaries.exist(folder)):
        return
    rows = Rows(closed, folder)
    summary = summaries.read(folder)
    finished.account(key, report, rows.targets, plan.num_rows, summary, stage=NAME, stopped=stopped)
    common = provenance(run, key, report.tool_version, targets.ruleset, out)
    report.counts = counts.of_connections(rows.blocks(len(rows), ["outcome"]))
    paused = pauses.read_pauses(folder)
    report.rows_out = merge.write(joined(_records(rows, plan, common, targets.mapper, paused)), out, KIND)
    run.add_output(report, out)


def _records(
    rows: Rows, plan: pa.Table, common: merge.Provenance, mapper: Mapper, paused: list[pauses.Pause]
) -> Iterator[pa.Table]:
    for block in rows.blocks(len(rows)):
        asn, cdn = merge.origins(block, mapper)
        columns: dict[str, Any] = merge.stage_columns(common, merge.own_rows(block, plan))
        columns |= {"asn": asn, "cdn": cdn, "network_paused_at": pauses.paused_at(block, asn, paused)}
        yield merge.in_order(KIND, block, columns)
