"""The watch stage: probes names at set times for a period, at one vantage point.

It is cdn_watch in the IMC 2024 paper. It probes the names of the target list once a minute, and `owned`
names more often. One stage is one period. All times are planned before the period starts
(`scanner.planned.probes`), and the prober keeps them. A planned probe that is not sent is a row with its
reason. A killed stage resumes with the rest of the period. A stage that starts after the period has ended
records the missed slots and sends no packets.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from firstflight import capture_files
from firstflight.as_map import Mapper
from firstflight.egress import shared_limits
from firstflight.errors import Interrupted, UsageError
from firstflight.layout import StageKey
from firstflight.run.provenance import ruleset_hash
from firstflight.run.report import StageReport, UnusedLine
from firstflight.run.run import Run
from firstflight.settings import Settings
from firstflight.settings.types import HOST_NAME
from firstflight.system import files
from scanner.driver import leftovers, rules, summaries
from scanner.planned.precedence import Precedence
from scanner.planned.probes import SECOND_NS, ProbeSeries, plan, series
from scanner.resolver.names import Name, read_targets
from scanner.watch import records
from scanner.watch.period import WatchPeriod, watch
from scanner.watch.records import OWNED_LIST_ID

PERIOD_FILE = "period.json"


def stage(run: Run, key: StageKey, *, start_ns: int | None = None, period_s: float | None = None) -> None:
    """Watch for one period. `key.repetition` is the number within the run.

    The period starts at `start_ns` (UTC; `None`: the next whole minute) and lasts `period_s` (`None`: as in
    the settings). A resumed stage keeps its original period. Write quic_probe.parquet, watch_slot.parquet and
    dns_answer.parquet to the watch folder, and a capture. Raise FirstflightError.
    """
    settings = run.settings
    with run.stage("watch", key) as report:
        if run.report("probe", key) is not None:
            raise UsageError(
                f"repetition {key.repetition} of {key.vantage} in run {run.id} is a campaign's: "
                "a watch needs a separate run"
            )
        rules.check_lists(run)
        folder = run.layout.stage("watch", key)
        report.warnings += leftovers.settle(folder, run.check_not_stopped)
        capture_files.keep_parts(run.layout.stage("capture", key))
        names = _usable(read_targets(run), report)
        owned = set(settings.watch.owned)
        listed = [name for name in names if name.domain not in owned]
        shared_limits.check_watch(settings, len(listed))
        times = _times(folder / PERIOD_FILE, settings, start_ns, period_s)
        slots = list(plan(_series(settings, key.vantage, listed), *times))
        if not slots:
            raise UsageError(f"the period of {(times[1] - times[0]) / SECOND_NS:g} s holds no slot")
        report.rows_in = len(slots)
        in_force = rules.rule_files(run)
        rules.copy_into_run(run, in_force)
        by_domain = {name.domain: name for name in names}
        period = WatchPeriod(run, key, slots, by_domain, Mapper(run.layout.as_data), report)
        stopped: Interrupted | None = None
        is_over = time.time_ns() >= times[1]
        if not is_over:
            domains = sorted({*by_domain, *owned})
            watched = [by_domain.get(domain, Name(None, domain, OWNED_LIST_ID)) for domain in domains]
            precedence = Precedence(run, key.vantage, times[0])
            try:
                with precedence:
                    watch(period, watched, precedence)
            except Interrupted as error:
                stopped = error
            if precedence.skipped:
                report.warnings.append(
                    f"{precedence.skipped} slots were skipped (limit) because another watch was running here"
                )
        # A prober that stopped gracefully leaves a summary. Without a summary, no stage ran in time.
        unfed = "late" if is_over and not summaries.exist(folder) else "stopped"
        probed = records.write(period, ruleset_hash(in_force), unfed)
        if stopped is not None:
            raise stopped
    # Only after the report marks the period as done, because a resumed period reads them.
    if probed is not None:
        records.remove_segments(folder, probed)


def _usable(names: Sequence[Name], report: StageReport) -> list[Name]:
    """Return the names that are valid as SNI. Reject the others and report their rows in the target list."""
    for number, name in enumerate(names, start=1):
        if not HOST_NAME.fullmatch(name.domain):
            report.rejected.append(UnusedLine(line=number, reason=f"{name.domain!r} is not a host name"))
    return [name for name in names if HOST_NAME.fullmatch(name.domain)]


def _times(path: Path, settings: Settings, start_ns: int | None, period_s: float | None) -> tuple[int, int]:
    """Return start and end (excluded) of the period, from the file if it exists."""
    if not path.is_file():
        minute_ns = round(settings.watch.minute_s * SECOND_NS)
        # Time to start capture and prober.
        ready_ns = time.time_ns() + 3 * SECOND_NS
        first = -(-ready_ns // minute_ns) * minute_ns if start_ns is None else start_ns
        length_ns = round((settings.watch.period_s if period_s is None else period_s) * SECOND_NS)
        files.write_json(path, {"start_ns": first, "end_ns": first + length_ns})
    period = files.read_json(path)
    return int(period["start_ns"]), int(period["end_ns"])


def _series(settings: Settings, vantage: str, listed: Sequence[Name]) -> list[ProbeSeries]:
    watch = settings.watch
    position = (settings.index_of(vantage), len(settings.vantage))
    owned_interval_s = watch.minute_s / watch.owned_per_minute
    return [
        *series("watch", [name.domain for name in listed], watch.families, watch.minute_s, position),
        *series("owned", watch.owned, watch.families, owned_interval_s, position),
    ]
