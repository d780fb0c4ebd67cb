"""Pending uploads of a vantage point: record files in its folder of runs that are not in the store yet.

The loader (store/load/) loads each file exactly once, even after many attempts. `load_pending` tries all
pending files, so that a later run also loads files on which an earlier run failed.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run, runs_root
from firstflight.system import files, lock
from firstflight.system.reporting.progress import print_line
from orchestration import stages
from orchestration.stages import RunPlan
from store import location
from store.errors import StoreHeld

# Runs that are being removed are in this folder, within the folder of runs.
_ASIDE = "removed"
# Captures, and the secrets of their TLS sessions.
_CAPTURES = ("*.pcap", "*.keys")
# Seconds to wait for parts that another process loads, after all others are loaded.
_OTHER_S = 30.0
# Maximum age of a day's watch that may continue: its last tasks have two days to record missed slots.
_WATCH = timedelta(days=3)


@dataclass(frozen=True)
class Upload:
    """The record files of a run, vantage point, repetition and shard, and whether they are in the store."""

    run: Run
    key: StageKey
    loaded: bool
    measured_at: datetime
    message: str | None  # error of the last attempt

    @property
    def load_lock(self) -> Path:
        """The lock of the process that loads it."""
        return self.run.layout.stage_lock(stages.LOAD, self.key)


class BrokenRun(InputError):
    """A file of a run cannot be read, for example after a power cut; other runs are not affected."""

    def __init__(self, run: Run, error: FirstflightError) -> None:
        why = " ".join(str(error).split())
        super().__init__(f"run {run.id} is skipped: {why}; repair that file, or remove {run.path}")
        self.run = run


def uploads(broken: list[BrokenRun]) -> Iterator[Upload]:
    """Yield everything that was measured here and is still on disk, oldest first.

    Unreadable runs are skipped and appended to `broken`.
    """
    for run in Run.all():
        try:
            finished = sorted(_finished(run), key=lambda part: part[1].started_at)
            loads = {key: run.report(stages.LOAD, key) for key, _ in finished}
            _ = run.settings if finished else None  # they name the store
        except FirstflightError as error:
            broken.append(BrokenRun(run, error))
            continue
        # Outside the block: an error in the store's address is not an error of the run.
        for key, report in finished:
            load = loads[key]
            yield Upload(
                run=run,
                key=key,
                loaded=is_loaded(run, key),
                measured_at=report.ended_at or report.started_at,
                message=None if load is None else load.message,
            )


def _finished(run: Run) -> Iterator[tuple[StageKey, StageReport]]:
    """Yield each key that has rows to load, with the report of the stage that shows it.

    This is the main stage, if it has started. If the run was stopped before that, it is another stage in
    `stages.beginning` that is done.
    """
    main, *others = stages.names(stages.beginning(stages.plan_of(run)))
    reports = {(report.key(run.id), report.stage): report for report in run.reports()}
    for key in dict.fromkeys(key for key, _ in reports if key is not None):
        if (report := reports.get((key, main))) is not None:
            if _is_over(run, report):
                yield key, report
            continue
        done = [r for other in others if (r := reports.get((key, other))) is not None and r.state == "done"]
        if done:
            yield key, done[-1]


def _is_over(run: Run, report: StageReport) -> bool:
    """Return whether the stage will not continue: it is done, or was interrupted and its run is stopped."""
    return report.state == "done" or (report.state == "interrupted" and run.layout.stop_file.exists())


def is_loaded(run: Run, key: StageKey) -> bool:
    """Return whether the output of all stages of a key was loaded after they ended.

    It may have been loaded separately, with the vantage point's other shards, or with the run.

    Output that was loaded into another store than the current one is still pending.
    """
    store = location.find(run.settings.store.url).public_url
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

    The first error of the store itself stops the loop, because all other parts would fail, too. Parts that
    another process is loading are tried last, after a wait for that process.
    """
    from store.load import loader

    loaded_count = 0
    faults: list[FirstflightError] = []
    broken: list[BrokenRun] = []
    waiting = deque(upload for upload in uploads(broken) if not upload.loaded)
    put_off: set[StageKey] = set()
    while waiting:
        upload = waiting.popleft()
        if lock.is_locked(upload.load_lock) and not all(lock.is_locked(other.load_lock) for other in waiting):
            waiting.append(upload)
            continue
        upload_name = f"{upload.run.id} {upload.key}"
        if not lock.wait_until_free(upload.load_lock, _OTHER_S):
            faults.append(
                UsageError(f"{upload_name} is being loaded by another process: wait until it finishes")
            )
            print_line(str(faults[-1]))
            continue
        if is_loaded(upload.run, upload.key):
            continue
        try:
            loader.stage(upload.run, upload.key)
        except StoreHeld as error:  # perhaps another process loads another shard of the unit
            if waiting and upload.key not in put_off:
                put_off.add(upload.key)
                waiting.append(upload)
                continue
            faults.append(error)
            print_line(f"{upload_name}: waits: {error}")
            break
        except InputError as error:  # concerns only this file
            faults.append(error)
            print_line(f"{upload_name}: not loaded: {error}")
        except FirstflightError as error:
            faults.append(error)
            print_line(f"{upload_name}: waits: {error}")
            break
        else:
            loaded_count += 1
            print_line(f"{upload_name}: loaded")
    for run_error in broken:
        print_line(str(run_error))
    return loaded_count, [*faults, *broken]


def clean(keep_days: float, broken: list[BrokenRun]) -> list[str]:
    """Remove runs older than `keep_days` that are no longer needed, with captures; return their ids.

    At a vantage point, removes finished runs that are completely loaded, and inputs that no run uses. At the
    centre, removes finished scheduled runs that are loaded, and all lists, tables and crawls except the
    newest. Unreadable runs stay and are appended to `broken`.
    """
    before = datetime.now(UTC) - timedelta(days=keep_days)
    parts: dict[str, list[Upload]] = {}
    for upload in uploads(broken):
        parts.setdefault(upload.run.id, []).append(upload)
    left_out = {run_error.run.id for run_error in broken}
    runs = [run for run in Run.all() if run.id not in left_out]
    newest = {_newest(runs, name) for name in stages.names(stages.once_per_run())}
    removed = []
    # Move each run aside first, atomically. After a kill, the next call removes the rest.
    aside = runs_root() / _ASIDE
    _empty(aside)
    for run in runs:
        if run.id in parts:
            removable = all(part.loaded and part.measured_at < before for part in parts[run.id])
            removable = removable and not _is_running(run)
        else:
            removable = run.id not in newest and _is_over_at_centre(run, before)
        if removable:
            with files.explain_os_errors(aside):
                aside.mkdir(exist_ok=True)
                run.path.rename(aside / run.id)
            removed.append(run.id)
    _empty(aside)
    for cached in (runs_root() / "cache").glob("*"):
        if cached.suffix == ".lock" and lock.is_locked(cached):
            continue
        status = cached.stat()
        # A run that uses the file has a hard link to it.
        if status.st_nlink == 1 and datetime.fromtimestamp(status.st_mtime, UTC) < before:
            cached.unlink()
    return removed


def remove_captures(keep_days: float) -> tuple[int, int]:
    """Remove the captures, and the keys to decrypt them, of loaded parts older than `keep_days`.

    Record files stay. Unreadable runs, and runs that a stage works on, stay as they are. Returns the number
    of files and their bytes.
    """
    before = datetime.now(UTC) - timedelta(days=keep_days)
    count = size = 0
    for part in uploads([]):
        if not part.loaded or part.measured_at >= before or part.run.is_locked():
            continue
        folder = part.run.layout.folder(part.key)
        for path in sorted(file for name in _CAPTURES for file in folder.rglob(name) if file.is_file()):
            with files.explain_os_errors(path):
                size += path.stat().st_size
                path.unlink()
            count += 1
    return count, size


def _empty(aside: Path) -> None:
    if aside.is_dir():
        with files.explain_os_errors(aside):
            shutil.rmtree(aside)


def _is_running(run: Run) -> bool:
    """Return whether a stage of the run is active, or the run has not finished its measurements."""
    reports = run.reports()
    if run.is_locked() or any(map(run.stage_is_running, reports)):
        return True
    plan, manifest = stages.plan_of(run), run.manifest
    began = datetime.fromisoformat(str(manifest["started_at"]))
    longest = _WATCH if plan is RunPlan.WATCH else stages.LONGEST
    if run.layout.stop_file.exists() or datetime.now(UTC) > began + longest:
        return False
    main = stages.main(plan).name
    if any(report.stage == main and report.state != "done" for report in reports):
        return True
    if not manifest.get("dag_run") or not manifest.get("vantage"):
        return False
    # A scheduled watch has low precedence, and a repetition for each hour of a day.
    of_day = plan is RunPlan.WATCH and run.settings.watch.precedence == "low"
    numbers = range(1, 1 + (24 if of_day else int(manifest["repetitions"])))
    due = (key for number in numbers for key in stages.keys(run, str(manifest["vantage"]), number))
    return not all(run.done(main, key) for key in due)


def _newest(runs: Sequence[Run], stage: str) -> str | None:
    """Return the id of the run with the newest list or table that the schedule fetched, by date."""
    fetched = [run for run in runs if run.manifest.get("kind") == stage and run.done(stage)]
    return max(((str(run.manifest["date"]), run.id) for run in fetched), default=(None, None))[1]


def _is_over_at_centre(run: Run, before: datetime) -> bool:
    """Return whether a scheduled run at the centre started before then, is finished, and is in the store."""
    manifest = run.manifest
    if not manifest.get("dag_run") or manifest.get("vantage"):
        return False
    began = datetime.fromisoformat(str(manifest["started_at"]))
    if began >= before:
        return False
    kind = manifest.get("kind")
    if not run.layout.inputs.is_file():  # never offered to a vantage point
        if manifest["state"] == "failed":  # its first task failed
            return True
        is_prepared_once = kind in ("crawl", *stages.names(stages.at_centre()))
        if not is_prepared_once and began < datetime.now(UTC) - stages.LONGEST:  # that task was killed
            return True
    if kind in stages.names(stages.at_centre()):  # a list or table of a day
        return True
    if kind == "crawl":
        return run.done(stages.LOAD)
    # The end of a day's watch run is not recorded in its manifest.
    return run.done(stages.LOAD) and (kind == "watch" or manifest["state"] != "running")
