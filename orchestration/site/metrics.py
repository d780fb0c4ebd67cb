"""Metrics of a vantage point's measurements and loads, from its folder of runs, not from the store.

A metric about a stage describes the stage's last execution. At a vantage point with shards it is the sum
over the repetition's shards. A count that the stage did not make is missing, not 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from firstflight import capture_files
from firstflight.capture_files import CaptureRecord
from firstflight.errors import FirstflightError
from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.network.clock import Offset
from orchestration import stages
from orchestration.site import pending_uploads
from orchestration.site.pending_uploads import BrokenRun

LABELS = ["vantage", "stage"]
_CAPTURING = {stage.name for stage in stages.STAGES if stage.captures}


@dataclass(frozen=True)
class LastExecution:
    """The last execution of a stage at a vantage point, with one report per shard."""

    run: Run
    vantage: str
    reports: Sequence[StageReport]

    @property
    def labels(self) -> list[str]:
        """Vantage point and stage."""
        return [self.vantage, self.reports[0].stage]

    @property
    def keys(self) -> list[StageKey]:
        """The keys of all shards."""
        return [key for report in self.reports if (key := report.key(self.run.id)) is not None]

    # Read once for all metrics. InputError if a file is broken.

    @cached_property
    def summaries(self) -> Sequence[dict[str, Any]]:
        """The summaries that the engines wrote when they finished."""
        return [summary for key in self.keys if (summary := _summary(self.run, self.labels[1], key))]

    @cached_property
    def captures(self) -> Sequence[CaptureRecord]:
        """The captures of the stage."""
        folders = [self.run.layout.stage("capture", key) for key in self.keys]
        return [record for folder in folders for record in capture_files.records(folder)]

    @cached_property
    def offsets(self) -> Sequence[Offset]:
        """The comparisons of this machine's clock."""
        return [offset for key in self.keys if (offset := clock.of(self.run, key)) is not None]


def metrics() -> Iterator[Metric]:
    """Yield all families. UsageError if the store's address cannot be read.

    A run with a broken file counts only as a run with a failed load.
    """
    broken: list[BrokenRun] = []
    uploads = list(pending_uploads.uploads(broken))
    left_out = {run_error.run.id for run_error in broken}
    newest = [
        stage
        for stage in _newest(run for run in Run.all() if run.id not in left_out)
        if _is_readable(stage, broken)
    ]
    yield from _uploads(uploads, broken)
    yield from _stages(newest)
    yield _rates(newest)
    yield from _losses(newest)


def _newest(runs: Iterable[Run]) -> Iterator[LastExecution]:
    newest: dict[tuple[str, str], LastExecution] = {}
    for run in runs:
        reports = run.reports()
        for report in reports:
            key = report.key(run.id)
            if key is None:
                continue
            before = newest.get((key.vantage, report.stage))
            if before is None or before.reports[0].started_at <= report.started_at:
                same = [
                    other
                    for other in reports
                    if (other.stage, other.vantage, other.repetition)
                    == (report.stage, report.vantage, report.repetition)
                ]
                newest[key.vantage, report.stage] = LastExecution(run, key.vantage, same)
    yield from newest.values()


def _is_readable(stage: LastExecution, broken: list[BrokenRun]) -> bool:
    """Return whether the files next to a stage's reports are readable; else add its run to `broken` once."""
    try:
        _ = stage.summaries, stage.captures, stage.offsets
    except FirstflightError as error:
        if stage.run.id not in {run_error.run.id for run_error in broken}:
            broken.append(BrokenRun(stage.run, error))
        return False
    return True


def _uploads(uploads: Sequence[pending_uploads.Upload], broken: Sequence[BrokenRun]) -> Iterator[Metric]:
    counts = GaugeMetricFamily(
        "firstflight_uploads",
        "Measured parts on this disk, by whether they are in the store.",
        labels=["state"],
    )
    waiting = [upload for upload in uploads if not upload.loaded]
    refused = [upload for upload in waiting if upload.message is not None]
    counts.add_metric(["loaded"], len(uploads) - len(waiting))
    counts.add_metric(["pending"], len(waiting))
    yield counts
    failed = GaugeMetricFamily(
        "firstflight_uploads_failed",
        "Pending parts that failed to load at the last attempt, and unreadable runs.",
    )
    failed.add_metric([], len(refused) + len(broken))
    yield failed
    yield _time(
        "firstflight_oldest_pending_upload_timestamp_seconds",
        "When the oldest pending part was measured, in seconds since 1970.",
        [([], upload.measured_at) for upload in waiting[:1]],
        [],
    )
    last = {upload.key.vantage: upload.measured_at for upload in uploads}
    yield _time(
        "firstflight_newest_measured_timestamp_seconds",
        "When the newest part was measured, in seconds since 1970.",
        [([vantage], at) for vantage, at in last.items()],
        ["vantage"],
    )


def _stages(newest: Sequence[LastExecution]) -> Iterator[Metric]:
    running = _gauge("firstflight_stage_running", "1 if the stage runs now, else 0.")
    failed = _gauge("firstflight_stage_failed", "1 if the stage ended with an error, else 0.")
    rows = _gauge("firstflight_stage_rows", "Rows that the stage wrote; for load, rows in the store.")
    records = _gauge("firstflight_stage_records", "Counts of the stage, by outcome or kind.", "outcome")
    for stage in newest:
        runs_now = any(stage.run.stage_is_running(report) for report in stage.reports)
        running.add_metric(stage.labels, runs_now)
        failed.add_metric(stage.labels, any(report.state == "failed" for report in stage.reports))
        row_counts = [report.rows_out for report in stage.reports if report.rows_out is not None]
        if len(row_counts) == len(stage.reports):
            rows.add_metric(stage.labels, sum(row_counts))
        counted: Counter[str] = Counter()
        for report in stage.reports:
            counted.update(report.counts)
        for name, count in counted.items():
            records.add_metric([*stage.labels, name], count)
    yield from (running, failed, rows, records)
    yield _time(
        "firstflight_stage_end_timestamp_seconds",
        "When the stage ended, in seconds since 1970.",
        [
            (stage.labels, max(ends))
            for stage in newest
            if len(ends := [report.ended_at for report in stage.reports if report.ended_at])
            == len(stage.reports)
        ],
        LABELS,
    )


def _rates(newest: Sequence[LastExecution]) -> Metric:
    """Return the engines' targets per second: the configured limit and the achieved rate."""
    rates = _gauge("firstflight_stage_targets_per_second", "New targets per second.", "rate")
    for stage in newest:
        summaries = stage.summaries
        if not summaries or len(summaries) < len(stage.reports):
            continue
        rates.add_metric([*stage.labels, "limit"], sum(float(summary["rate"]) for summary in summaries))
        if all(summary["duration_s"] > 0 for summary in summaries):
            done = sum(
                (summary["sent"] - summary["resumed"]) / summary["duration_s"] for summary in summaries
            )
            rates.add_metric([*stage.labels, "achieved"], max(0.0, done))
    return rates


def _summary(run: Run, stage: str, key: StageKey) -> dict[str, Any] | None:
    """Return an engine's summary, if it has written one with a rate."""
    path = run.layout.stage(stage, key) / "summary.json"
    summary = files.read_json(path) if path.is_file() else None
    fields = {"rate", "duration_s", "sent", "resumed"}
    return summary if isinstance(summary, dict) and fields <= set(summary) else None


def _losses(newest: Sequence[LastExecution]) -> Iterator[Metric]:
    lost = GaugeMetricFamily(
        "firstflight_capture_lost_packets", "Packets that the newest capture lost.", labels=LABELS
    )
    offsets = GaugeMetricFamily(
        "firstflight_clock_offset_seconds",
        "How far the clock here was ahead of its reference.",
        labels=LABELS,
    )
    for stage in newest:
        if stage.labels[1] not in _CAPTURING:
            continue
        entries = stage.captures
        known = [
            n
            for capture in entries
            for n in (capture.dropped_by_kernel, capture.dropped_by_interface)
            if n is not None
        ]
        if entries and len(known) == 2 * len(entries):
            lost.add_metric(stage.labels, sum(known))
        if stage.offsets:
            offsets.add_metric(stage.labels, stage.offsets[-1].offset_us / 1e6)
    yield lost
    yield offsets


def _gauge(name: str, meaning: str, *more: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, meaning, labels=[*LABELS, *more])


def _time(
    name: str, meaning: str, values: Iterable[tuple[list[str], datetime]], labels: list[str]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for of, at in values:
        family.add_metric(of, at.timestamp())
    return family
