"""Pending uploads of a vantage point: record files in its folder of runs that are not in the store yet.

The loader (store/load/) loads each file exactly once, however often it is tried. `load_pending` tries all
pending files, so that a later run also loads what an earlier one could not.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from firstflight.errors import FirstflightError
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run, runs_root
from firstflight.system.progress import print_line
from orchestration import stages
from orchestration.stages import Plan
from store import location

# A day's watch goes on for so long: the last hour's tasks have two days to record what was missed.
_WATCH = timedelta(days=3)


@dataclass(frozen=True)
class Upload:
    """Record files of one run, vantage point, repetition and shard, and whether they are in the store."""

    run: Run
    key: StageKey
    loaded: bool
    measured_at: datetime
    message: str | None  # error of the last attempt


def uploads() -> Iterator[Upload]:
    """Yield everything that was measured here and is still on disk, oldest first."""
    for run in Run.all():
        main = stages.main(stages.plan_of(run))  # a key has it once
        for stage, report in stages.of_reports(run):
            key = report.key(run.id)
            if stage != main or key is None or not _is_over(run, report):
                continue
            load = run.report(stages.LOAD, key)
            yield Upload(
                run=run,
                key=key,
                loaded=is_loaded(run, key),
                measured_at=report.ended_at or report.started_at,
                message=None if load is None else load.message,
            )


def _is_over(run: Run, report: StageReport) -> bool:
    """Return whether the stage will not continue: it is done, or was interrupted and its run is stopped."""
    return report.state == "done" or (report.state == "interrupted" and run.layout.stop_file.exists())


def is_loaded(run: Run, key: StageKey) -> bool:
    """Return whether the output of all stages of a key was loaded after they ended.

    It may have been loaded alone, with the vantage point's other shards, or with the run.

    What was loaded into another store than the one that now is in force still waits.
    """
    store = location.find(run.settings.store.url).shown
    others = [report for report in run.reports() if report.key(run.id) == key and report.stage != stages.LOAD]

    def loaded_after_all(of: StageKey | None) -> bool:
        load = run.report(stages.LOAD, of)
        return (
            load is not None
            and run.done(stages.LOAD, of)
            and load.facts.get("store", store) == store
            and all(other.ended_at is not None and other.ended_at <= load.started_at for other in others)
        )

    return any(loaded_after_all(of) for of in (key, key.whole, None))


def load_pending() -> tuple[int, list[FirstflightError]]:
    """Load all pending uploads; return the number of loaded parts, and the errors of the others.

    The first error of the store itself ends the loop, because the rest would fail too.
    """
    from firstflight.errors import InputError
    from store.load import loader

    loaded_count = 0
    faults: list[FirstflightError] = []
    for upload in uploads():
        if upload.loaded:
            continue
        where = f"{upload.run.id} {upload.key}"
        try:
            loader.stage(upload.run, upload.key)
        except InputError as error:  # concerns only this file
            faults.append(error)
            print_line(f"{where}: not loaded: {error}")
        except FirstflightError as error:
            faults.append(error)
            print_line(f"{where}: waits: {error}")
            break
        else:
            loaded_count += 1
            print_line(f"{where}: loaded")
    return loaded_count, faults


def clean(keep_days: float) -> list[str]:
    """Remove runs older than `keep_days` that are no longer needed, with captures; return their ids.

    At a vantage point: runs that do not go on and are completely loaded, and inputs that no run uses. At the
    centre: scheduled runs that have ended and are loaded, and all lists, tables and crawls except the newest
    of each.
    """
    before = datetime.now(UTC) - timedelta(days=keep_days)
    parts: dict[str, list[Upload]] = {}
    for upload in uploads():
        parts.setdefault(upload.run.id, []).append(upload)
    runs = Run.all()
    newest = {_newest(runs, name) for name in stages.names(stages.once())}
    removed = []
    for run in runs:
        if run.id in parts:
            over = all(part.loaded and part.measured_at < before for part in parts[run.id])
            over = over and not _goes_on(run)
        else:
            over = run.id not in newest and _is_over_at_centre(run, before)
        if over:
            shutil.rmtree(run.path)
            removed.append(run.id)
    for cached in (runs_root() / "cache").glob("*"):
        status = cached.stat()
        # A run that uses the file has a hard link to it.
        if status.st_nlink == 1 and datetime.fromtimestamp(status.st_mtime, UTC) < before:
            cached.unlink()
    return removed


def _goes_on(run: Run) -> bool:
    """Return whether a stage of a run is at work, or something of it is still to be measured."""
    reports = run.reports()
    if run.is_locked() or any(map(run.stage_is_running, reports)):
        return True
    plan, manifest = stages.plan_of(run), run.manifest
    began = datetime.fromisoformat(str(manifest["started_at"]))
    longest = _WATCH if plan is Plan.WATCH else stages.LONGEST
    if run.layout.stop_file.exists() or datetime.now(UTC) > began + longest:
        return False
    main = stages.main(plan).name
    if any(report.stage == main and report.state != "done" for report in reports):
        return True
    if not manifest.get("dag_run") or not manifest.get("vantage"):
        return False
    # The watch that gives way is a day's, with a repetition for each hour.
    of_day = plan is Plan.WATCH and run.settings.watch.gives_way
    numbers = range(1, 1 + (24 if of_day else int(manifest["repetitions"])))
    due = (key for number in numbers for key in stages.keys(run, str(manifest["vantage"]), number))
    return not all(run.done(main, key) for key in due)


def _newest(runs: Sequence[Run], stage: str) -> str | None:
    """Return the id of the run with the newest list or table that the schedule fetched, by date."""
    fetched = [run for run in runs if run.manifest.get("kind") == stage and run.done(stage)]
    return max(((str(run.manifest["date"]), run.id) for run in fetched), default=(None, None))[1]


def _is_over_at_centre(run: Run, before: datetime) -> bool:
    """Return whether a scheduled run at the centre began before that, has ended, and is in the store."""
    manifest = run.manifest
    if not manifest.get("dag_run") or manifest.get("vantage"):
        return False
    if datetime.fromisoformat(str(manifest["started_at"])) >= before:
        return False
    kind = manifest.get("kind")
    if kind in stages.names(stages.at_centre()):  # a list or table of a day
        return True
    if kind == "crawl":
        return run.done(stages.LOAD)
    # The end of a day's watch run is not recorded in its manifest.
    return run.done(stages.LOAD) and (kind == "watch" or manifest["state"] != "running")
