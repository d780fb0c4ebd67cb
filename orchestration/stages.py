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
from typing import Any

from firstflight import shard as shards
from firstflight.layout import StageKey
from firstflight.run.outline import NOTHING, Known, Outline
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.settings import Settings, Vantage, optional_sections
from firstflight.shard import Shard


class Scope(Enum):
    """How often a stage runs within a run."""

    RUN = "run"  # once, at the centre
    KEY = "key"  # once for each vantage point and repetition
    EITHER = "either"  # once for the run, or for a single vantage point and repetition


class RunPlan(Enum):
    """A run's kind: a scan in repetitions, a watch in periods, or a run for a single purpose."""

    SCAN = "scan"
    WATCH = "watch"
    # On a schedule; a campaign does these in a scan.
    SURVEY = "survey"  # of TCP options
    DOWNLOADS = "downloads"


ALL = frozenset(RunPlan)
# The maximum duration for a scheduled scan, with all repetitions.
LONGEST = timedelta(days=30)


@dataclass(frozen=True)
class Stage:
    """One stage. The function `stage` of the module `entry` does the work."""

    name: str
    entry: str
    scope: Scope
    plans: frozenset[RunPlan] = ALL
    # Contacts measured hosts or the resolver: runs only at the vantage point that the settings name.
    sends: bool = False
    # Fetches lists and tables: runs by the centre's command.
    fetches: bool = False
    # Captures packets, in the folder `capture` of the key.
    captures: bool = False
    # Reads captures; does nothing for a key without a capture.
    needs_capture: bool = False
    # The section of the settings with the switch `enabled` for this stage; `None`: the stage always runs.
    enabled_by: str | None = None
    # Has a separate schedule on a site: scheduled scans omit it.
    apart: bool = False
    # If it fails on a schedule, later stages still run, without its rows. They wait only for a few retries.
    may_fail: bool = False
    # If the stage measures: the plural noun for its rows, for example `probes`.
    measures: str | None = None
    # Takes --period and --start.
    timed: bool = False
    # Finds the remaining work itself, so it runs even if it is done.
    looks_itself: bool = False
    # Replaces its output atomically: with --again, the old output stays until the new output is complete.
    replaces: bool = False
    # Permanently confines its process to the store and the run (store/confine).
    confined: bool = False
    # Native programs that it runs.
    programs: tuple[str, ...] = ()
    # Record kinds that it writes.
    kinds: tuple[str, ...] = ()
    # MODULE:FUNCTION that describes the stage for dry runs (`firstflight.run.outline`). A stage that sends or
    # fetches needs it.
    outline: str | None = None
    # MODULE:FUNCTION that counts the finished output again for the run's totals; `None`: use the counts of
    # the report.
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
        stage_function: Callable[..., None] = importlib.import_module(self.entry).stage
        return stage_function

    def outlined(self, settings: Settings, known: Known, vantage: Vantage | None) -> Outline:
        """Return the stage's outline for these settings, and for `vantage` if it runs at a vantage point."""
        if self.outline is None:
            silent = not (self.sends or self.fetches)
            return Outline(traffic=NOTHING if silent else None, unknown="it has no outline", known=known)
        outline: Outline = _named(self.outline)(settings, known, vantage)
        return outline

    def count(self, run: Run, report: StageReport) -> dict[str, int]:
        """Return the counts in a finished report, for the run's totals."""
        if self.totals is None:
            return dict(report.counts)
        counted: dict[str, int] = _named(self.totals)(run, report)
        return counted


def _named(name: str) -> Callable[..., Any]:
    """Import and return the function MODULE:FUNCTION."""
    module, _, function = name.partition(":")
    named_function: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return named_function


SCAN, WATCH = frozenset({RunPlan.SCAN}), frozenset({RunPlan.WATCH})
SURVEY, DOWNLOADS = SCAN | {RunPlan.SURVEY}, SCAN | {RunPlan.DOWNLOADS}
RESOLVED = SURVEY | DOWNLOADS

STAGES: tuple[Stage, ...] = (
    Stage(
        "targets",
        "crawler.lists.stage",
        Scope.RUN,
        fetches=True,
        kinds=("target",),
        outline="crawler.lists.outline:outline",
    ),
    Stage(
        "as_data",
        "crawler.routing.stage",
        Scope.RUN,
        fetches=True,
        programs=("firstflight-rib",),
        kinds=("as_prefix", "as_org"),
        outline="crawler.routing.outline:outline",
    ),
    Stage(
        "crawl",
        "crawler.files.stage",
        Scope.RUN,
        SCAN,
        fetches=True,
        enabled_by="crawl",
        apart=True,
        kinds=("download_file", "crawl_page"),
        outline="crawler.files.outline:outline",
    ),
    Stage(
        "resolve",
        "scanner.resolve.stage",
        Scope.KEY,
        RESOLVED,
        sends=True,
        programs=("firstflight-resolve",),
        kinds=("dns_answer",),
        outline="scanner.resolve.outline:outline",
    ),
    Stage(
        "scan",
        "scanner.external.stage",
        Scope.KEY,
        SCAN,
        sends=True,
        enabled_by="scan",
        may_fail=True,
        kinds=("scan_answer",),
        outline="scanner.external.outline:outline",
    ),
    Stage(
        "probe",
        "scanner.first_answer.stage",
        Scope.KEY,
        SCAN,
        sends=True,
        captures=True,
        measures="probes",
        programs=("firstflight-prober",),
        kinds=("quic_probe", "watch_slot"),
        outline="scanner.first_answer.outline:outline",
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
        programs=("firstflight-handshake",),
        kinds=("quic_handshake", "certificate", "http3_response"),
        outline="scanner.handshake.outline:outline",
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
        programs=("firstflight-prober", "firstflight-handshake"),
        kinds=("calibration",),
        outline="scanner.calibrate.outline:outline",
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
        programs=("firstflight-tcp-options",),
        kinds=("tcp_option",),
        outline="scanner.tcp_options.outline:outline",
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
        programs=("firstflight-resolve",),
        kinds=("download", "quic_ack"),
        outline="downloader.outline:outline",
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
        programs=("firstflight-prober", "firstflight-resolve"),
        kinds=("quic_probe", "watch_slot", "dns_answer"),
        outline="scanner.watch.outline:outline",
    ),
    Stage(
        "dissect",
        "dissector.stage",
        Scope.KEY,
        SCAN | WATCH,
        needs_capture=True,
        enabled_by="capture",
        replaces=True,
        programs=("firstflight-dissect",),
        kinds=("quic_connection",),
    ),
    Stage("load", "store.load.loader", Scope.EITHER, looks_itself=True, confined=True),
)
LOAD = "load"
# Fetches the list of names.
LIST = "targets"


def named(name: str) -> Stage:
    """Return the stage with that name; KeyError if the name is unknown."""
    return {stage.name: stage for stage in STAGES}[name]


def names(chosen: Iterable[Stage] | None = None) -> list[str]:
    """Return the names of the given stages, by default of all stages, in order."""
    return [stage.name for stage in (STAGES if chosen is None else chosen)]


def optional() -> list[Stage]:
    """Return the stages that run only if the settings enable them, which they do not by default."""
    disabled = optional_sections()
    return [stage for stage in STAGES if stage.enabled_by in disabled]


def by_default() -> list[Stage]:
    """Return the stages that run by default."""
    return [stage for stage in STAGES if stage not in optional()]


def at_centre() -> list[Stage]:
    """Return the stages that fetch a run's inputs before it measures."""
    return [stage for stage in STAGES if stage.scope is Scope.RUN and stage.enabled_by is None]


def once_per_run() -> list[Stage]:
    """Return all stages that run once per run, at the centre."""
    return [stage for stage in STAGES if stage.scope is Scope.RUN]


def measuring_once() -> list[Stage]:
    """Return the stages that measure from the centre, once per run, if the settings enable them."""
    return [stage for stage in once_per_run() if stage.enabled_by is not None]


def enabling(*names: str) -> dict[str, dict[str, bool]]:
    """Return settings that disable all stages with separate schedules, except the named ones."""
    return {s.enabled_by: {"enabled": s.name in names} for s in STAGES if s.apart and s.enabled_by}


def from_centre(plan: RunPlan, settings: Settings) -> list[Stage]:
    """Return the stages that these settings enable and that measure from the centre, once per run."""
    return [s for s in _stages_of_plan(plan, settings) if s.scope is Scope.RUN and s.enabled_by is not None]


def at_vantage(plan: RunPlan, settings: Settings | None = None) -> list[Stage]:
    """Return the stages that send from each vantage point, in order; with settings, only enabled ones."""
    return [s for s in _stages_of_plan(plan, settings) if s.scope is Scope.KEY and s.sends]


def processing(plan: RunPlan, settings: Settings | None = None) -> list[Stage]:
    """Return the stages that process a vantage point's measurements, in order; they send nothing.

    With settings, only enabled ones.
    """
    return [s for s in _stages_of_plan(plan, settings) if s.scope is Scope.KEY and not s.sends]


def scheduled(plan: RunPlan) -> list[Stage]:
    """Return a plan's stages on a schedule at a vantage point, in order; the last one loads.

    A scan omits stages with separate schedules.
    """
    chosen = [s for s in at_vantage(plan) if not (s.apart and plan is RunPlan.SCAN)]
    return [*chosen, *processing(plan), named(LOAD)]


def measuring(plan: RunPlan, settings: Settings | None = None) -> list[Stage]:
    """Return a plan's stages that measure, the main one first; with settings, only enabled ones."""
    return [s for s in _stages_of_plan(plan, settings) if s.measures is not None]


def main(plan: RunPlan) -> Stage:
    """Return a plan's main stage, which every run of the plan has; other stages are additional."""
    return measuring(plan)[0]


def beginning(plan: RunPlan) -> list[Stage]:
    """Return the stages that give a key rows to load: the main stage first, then optional ones that send.

    Not the resolve stage: DNS answers alone are not a measurement.
    """
    first = main(plan)
    return [first, *(s for s in at_vantage(plan) if s.enabled_by is not None and s != first)]


def _stages_of_plan(plan: RunPlan, settings: Settings | None) -> Iterator[Stage]:
    for stage in STAGES:
        if plan in stage.plans and (settings is None or stage.is_enabled(settings)):
            yield stage


def plan_of(run: Run) -> RunPlan:
    """Return the plan for the run's kind. A run without a kind is a scan."""
    kind = run.manifest.get("kind")
    return next((plan for plan in RunPlan if plan.value == kind), RunPlan.SCAN)


def shards_of(run: Run, vantage: str) -> list[Shard]:
    """Return a vantage point's shards in a run. Only a scan has more than one.

    A watch is not divided, because its times are fixed. UsageError for an unknown vantage point.
    """
    declared = run.settings.vantage_named(vantage).shards
    return shards.all_of(declared if plan_of(run) is RunPlan.SCAN else 1)


def keys(run: Run, vantage: str, repetition: int) -> list[StageKey]:
    """Return the keys for a vantage point and repetition, one for each shard."""
    return [run.key(vantage, repetition, shard) for shard in shards_of(run, vantage)]


def of_reports(run: Run) -> Iterator[tuple[Stage, StageReport]]:
    """Yield the run's reports with their stages; skip stages that this version does not have."""
    known = {stage.name: stage for stage in STAGES}
    for report in run.reports():
        if report.stage in known:
            yield known[report.stage], report
