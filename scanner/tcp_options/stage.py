"""The tcp_options stage: sample names, connect to each address by TCP, write the agreed options.

Runs after the key's handshakes. SYNs come from a network namespace in which the kernel offers all
options. If no namespace can be created, SYNs come from this namespace, and options that it does not offer are
null.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from firstflight.as_map import Mapper
from firstflight.egress import lab
from firstflight.errors import UsageError
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system.network.netns import Masqueraded
from scanner.backoff import pauses
from scanner.driver import process, summaries
from scanner.driver.rows import Rows
from scanner.driver.segments import closed_segments, joined
from scanner.records import counts, finished, merge
from scanner.records.provenance import provenance
from scanner.sampled import SampledEngineStage
from schemas import records

KIND = "tcp_option"
# The kernel offers each option. After a lost SYN, it sends one without ECN (RFC 3168 6.1.1.1).
OFFERED = {
    "ipv4/tcp_ecn": "1",
    "ipv4/tcp_sack": "1",
    "ipv4/tcp_window_scaling": "1",
    "ipv4/tcp_timestamps": "1",
}


def stage(run: Run, key: StageKey) -> None:
    """Connect to the sampled addresses that the resolve stage found for `key`.

    Read dns_answer.parquet and as_data/; write tcp_option.parquet to the stage's folder. Raise
    FirstflightError, or UsageError if the settings do not enable the stage. SIGINT shuts it down gracefully.
    """
    TcpOptionsStage(run, key).execute()


class TcpOptionsStage(SampledEngineStage):
    """The stage at one key."""

    name = "tcp_options"
    over_quic = False
    engine = process.EngineTexts("TCP engine")

    @property
    def port(self) -> int:
        """The TCP port of targets."""
        return self.run.settings.tcp_options.port

    @property
    def out(self) -> Path:
        """tcp_option.parquet."""
        return self.run.layout.tcp_option(self.key)

    def arguments(self, report: StageReport, stack: ExitStack) -> list[str]:
        """Return the engine's command line inside a namespace that offers all options, or in this one."""
        mark = lab.MARK if lab.is_lab() else ""
        try:
            namespace = stack.enter_context(Masqueraded(0, OFFERED, mark=mark))
        except UsageError as error:
            report.warnings.append(f"{error}; SYNs offer what this machine's settings say, the rest is null")
            return self.engine_arguments(inside=False)
        return namespace.inside(self.engine_arguments(inside=True))

    def engine_arguments(self, *, inside: bool) -> list[str]:
        """Return the engine's command line, with the files in the stage's folder.

        A namespace (`inside`) has neither the vantage point's addresses nor its ports.
        """
        options = [
            (name, value) for name, value in self.shared_options() if not (inside and name == "--source")
        ]
        options.append(("--attempts", self.run.settings.tcp_options.attempts))
        return self.command("firstflight-tcp-options", options)

    def write(self, plan: pa.Table, ruleset: str, report: StageReport, stopped: bool) -> None:
        """Write tcp_option.parquet from the closed segments. FirstflightError if a target has no row."""
        if plan.num_rows == 0:
            report.rows_out = merge.write([records.load(KIND).arrow_schema().empty_table()], self.out, KIND)
            report.counts = {"sent": 0}
            self.run.add_output(report, self.out)
            return
        closed = closed_segments(self.segments)
        if stopped and not (closed and summaries.exist(self.folder)):
            return
        rows = Rows(closed)
        summary = summaries.read(self.folder)
        finished.account(
            self.key, report, rows.targets, plan.num_rows, summary, stage=self.name, stopped=stopped
        )
        common = provenance(self.run, self.key, report.tool_version, ruleset, self.out)
        report.counts = counts.of_connections(rows.blocks(len(rows), ["outcome"]))
        paused = pauses.read_pauses(self.folder)
        blocks = _records(rows, plan, common, self.mapper, paused)
        report.rows_out = merge.write(joined(blocks), self.out, KIND)
        self.run.add_output(report, self.out)


def _records(
    rows: Rows, plan: pa.Table, common: merge.StageProvenance, mapper: Mapper, paused: list[pauses.Pause]
) -> Iterator[pa.Table]:
    for block in rows.blocks(len(rows)):
        asn, cdn = merge.origins(block, mapper)
        columns: dict[str, Any] = merge.stage_columns(common, merge.own_rows(block, plan))
        columns |= {"asn": asn, "cdn": cdn, "network_paused_at": pauses.paused_at(block, asn, paused)}
        yield merge.ordered_columns(KIND, block, columns)
