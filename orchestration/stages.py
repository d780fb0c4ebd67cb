"""The table of stages, in the order in which they run.

To add a stage: write a module with a function `stage(run)` (scope RUN) or `stage(run, key)` (scope KEY), its
record kinds (schemas/records), and an entry here. The command line, campaigns, dry runs, schedules, counts
and pending uploads read this table and name no stage themselves.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from firstflight import shard as shards
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.settings import Settings
from firstflight.shard import Shard


class Scope(Enum):
    """How often a stage runs within a run."""

    RUN = "run"  # once, at the centre
    KEY = "key"  # once for each vantage point and repetition
    EITHER = "either"  # once for the run, or for a single vantage point and repetition


class Plan(Enum):
    """The kind of a run: a scan in repetitions, a watch in periods, or a run for a single purpose."""

    SCAN = "scan"
    WATCH = "watch"
    # On a schedule; a campaign does these in a scan.
    SURVEY = "survey"  # of TCP options
    DOWNLOADS = "downloads"


ALL = frozenset(Plan)
# The maximum duration of a scheduled scan, with all repetitions.
LONGEST = timedelta(days=30)


@dataclass(frozen=True)
class Stage:
    """One stage. `entry` is the module whose function `stage` does the work."""

    name: str
    entry: str
    scope: Scope
    plans: frozenset[Plan] = ALL
    # Contacts measured hosts or the resolver: runs only at the vantage point that the settings name.
    sends: bool = False
    # Fetches lists and tables: runs by the centre's command.
    fetches: bool = False
    # Takes a capture, in the folder `capture` of its key.
    captures: bool = False
    # Reads captures: has nothing to do where its key took none.
    needs_capture: bool = False
    # The section of the settings whose `enabled` says whether it runs; None: it always does.
    enabled_by: str | None = None
    # Has a separate schedule on a site: scheduled scans omit it.
    apart: bool = False
    # The plural of what its rows hold, if the stage measures.
    measures: str | None = None
    # Takes --period and --start.
    timed: bool = False
    # Finds the remaining work itself, so it runs even if it is done.
    looks_itself: bool = False
    # Replaces its output atomically: with --again, the old output stays until the new output is complete.
    replaces: bool = False
    # Permanently confines its process to the store and the run (store/confine).
    confined: bool = False
    # Record kinds that it writes.
    kinds: tuple[str, ...] = ()
    # MODULE:FUNCTION that counts its finished output again for the run's totals; None = its report's counts.
    totals: str | None = None

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders below a run or key that hold its output."""
        return (self.name, "capture") if self.captures else (self.name,)

    def is_enabled(self, settings: Settings) -> bool:
        """Return whether a run with these settings has this stage."""
        return self.enabled_by is None or bool(getattr(settings, self.enabled_by).enabled)

    def function(self) -> Callable[..., None]:
        """Import and return the function that does the work."""
        found: Callable[..., None] = importlib.import_module(self.entry).stage
        return found

    def count(self, run: Run, report: StageReport) -> dict[str, int]:
        """Return the counts of one finished report, for the run's totals."""
        if self.totals is None:
            return dict(report.counts)
        module, _, function = self.totals.partition(":")
        counted: dict[str, int] = getattr(importlib.import_module(module), function)(run, report)
        return counted


SCAN, WATCH = frozenset({Plan.SCAN}), frozenset({Plan.WATCH})
SURVEY, DOWNLOADS = SCAN | {Plan.SURVEY}, SCAN | {Plan.DOWNLOADS}
RESOLVED = SURVEY | DOWNLOADS

STAGES: tuple[Stage, ...] = (
    Stage("targets", "crawler.lists.stage", Scope.RUN, fetches=True, kinds=("target",)),
    Stage("as_data", "crawler.routing.stage", Scope.RUN, fetches=True, kinds=("as_prefix", "as_org")),
    Stage(
        "crawl",
        "crawler.files.stage",
        Scope.RUN,
        SCAN,
        fetches=True,
        enabled_by="crawl",
        apart=True,
        kinds=("download_file", "crawl_page"),
    ),
    Stage("resolve", "scanner.resolve.stage", Scope.KEY, RESOLVED, sends=True, kinds=("dns_answer",)),
    Stage(
        "probe",
        "scanner.first_answer.stage",
        Scope.KEY,
        SCAN,
        sends=True,
        captures=True,
        measures="probes",
        kinds=("quic_probe", "watch_slot"),
        totals="scanner.first_answer.totals:count",
    ),
    Stage(
        "handshake",
        "scanner.handshake.stage",
        Scope.KEY,
        SCAN,
        sends=True,
        enabled_by="handshake",
        measures="handshakes",
        kinds=("quic_handshake", "certificate", "http3_response"),
        totals="scanner.handshake.totals:count",
    ),
    Stage(
        "calibrate",
        "scanner.calibrate.stage",
        Scope.KEY,
        SCAN,
        sends=True,
        enabled_by="calibrate",
        measures="pairs",
        kinds=("calibration",),
        totals="scanner.calibrate.totals:count",
    ),
    Stage(
        "tcp_options",
        "scanner.tcp_options.stage",
        Scope.KEY,
        SURVEY,
        sends=True,
        enabled_by="tcp_options",
        apart=True,
        measures="tcp_options",
        kinds=("tcp_option",),
        totals="scanner.tcp_options.totals:count",
    ),
    Stage(
        "download",
        "downloader.stage",
        Scope.KEY,
        DOWNLOADS,
        sends=True,
        enabled_by="download",
        apart=True,
        measures="downloads",
        kinds=("download", "quic_ack"),
    ),
    Stage(
        "watch",
        "scanner.watch.stage",
        Scope.KEY,
        WATCH,
        sends=True,
        captures=True,
        measures="slots",
        timed=True,
        kinds=("quic_probe", "watch_slot", "dns_answer"),
    ),
    Stage(
        "dissect",
        "dissector.stage",
        Scope.KEY,
        SCAN | WATCH,
        needs_capture=True,
        enabled_by="capture",
        replaces=True,
        kinds=("quic_connection",),
    ),
    Stage("load", "store.load.loader", Scope.EITHER, looks_itself=True, confined=True),
)
LOAD = "load"


def named(name: str) -> Stage:
    """Return the stage of that name; KeyError if there is none."""
    return {stage.name: stage for stage in STAGES}[name]


def names(chosen: Iterable[Stage] | None = None) -> list[str]:
    """Return the names of stages (None: of all), in order."""
    return [stage.name for stage in (STAGES if chosen is None else chosen)]


def at_centre() -> list[Stage]:
    """Return the stages that fetch a run's inputs before it measures."""
    return [stage for stage in STAGES if stage.scope is Scope.RUN and stage.enabled_by is None]


def once() -> list[Stage]:
    """Return all stages that run once per run, at the centre."""
    return [stage for stage in STAGES if stage.scope is Scope.RUN]


def enabling(*names: str) -> dict[str, dict[str, bool]]:
    """Return settings that disable all stages with separate schedules, except the named ones."""
    return {s.enabled_by: {"enabled": s.name in names} for s in STAGES if s.apart and s.enabled_by}


def from_centre(plan: Plan, settings: Settings) -> list[Stage]:
    """Return the stages that these settings enable and that measure from the centre, once per run."""
    return [s for s in _of(plan, settings) if s.scope is Scope.RUN and s.enabled_by is not None]


def at_vantage(plan: Plan, settings: Settings | None = None) -> list[Stage]:
    """Return the stages that send from each vantage point, in order; with settings, only enabled ones."""
    return [s for s in _of(plan, settings) if s.scope is Scope.KEY and s.sends]


def afterwards(plan: Plan, settings: Settings | None = None) -> list[Stage]:
    """Return the stages that process a vantage point's measurements, in order; they send nothing.

    With settings, only enabled ones.
    """
    return [s for s in _of(plan, settings) if s.scope is Scope.KEY and not s.sends]


def scheduled(plan: Plan) -> list[Stage]:
    """Return the stages of a plan on a schedule at a vantage point, in order; the last one loads.

    A scan omits stages with separate schedules.
    """
    chosen = [s for s in at_vantage(plan) if not (s.apart and plan is Plan.SCAN)]
    return [*chosen, *afterwards(plan), named(LOAD)]


def measuring(plan: Plan, settings: Settings | None = None) -> list[Stage]:
    """Return the stages of a plan that measure, the main one first; with settings, only enabled ones."""
    return [s for s in _of(plan, settings) if s.measures is not None]


def main(plan: Plan) -> Stage:
    """Return the main stage of a plan, which every run of the plan has; other stages are additional."""
    return measuring(plan)[0]


def _of(plan: Plan, settings: Settings | None) -> Iterator[Stage]:
    for stage in STAGES:
        if plan in stage.plans and (settings is None or stage.is_enabled(settings)):
            yield stage


def plan_of(run: Run) -> Plan:
    """Return the plan of a run by its kind; a scan has none."""
    kind = run.manifest.get("kind")
    return next((plan for plan in Plan if plan.value == kind), Plan.SCAN)


def shards_of(run: Run, vantage: str) -> list[Shard]:
    """Return the shards of a vantage point in a run: of a watch, whose times are fixed, always one.

    UsageError for an unknown vantage point.
    """
    declared = run.settings.vantage_named(vantage).shards
    return shards.all_of(declared if plan_of(run) is Plan.SCAN else 1)


def keys(run: Run, vantage: str, repetition: int) -> list[StageKey]:
    """Return the keys of one vantage point and repetition, one for each of its shards."""
    return [run.key(vantage, repetition, shard) for shard in shards_of(run, vantage)]


def of_reports(run: Run) -> Iterator[tuple[Stage, StageReport]]:
    """Yield the run's reports with their stages, without stages that this version does not know."""
    known = {stage.name: stage for stage in STAGES}
    for report in run.reports():
        if report.stage in known:
            yield known[report.stage], report
