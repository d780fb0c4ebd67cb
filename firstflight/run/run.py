"""A run on disk: its settings, its manifest and the stages' reports.

Only the campaign writes `manifest.json`. Each stage process writes a separate `report.json` next to its
output, so processes never write to each other's files. `Run.reports` collects the reports.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from firstflight.errors import FirstflightError, InputError, Interrupted, UsageError
from firstflight.layout import CRAWL, RunLayout, StageKey
from firstflight.run.provenance import tool_version
from firstflight.run.report import StageReport
from firstflight.settings import Settings, check
from firstflight.shard import WHOLE, Shard
from firstflight.suggestion import did_you_mean
from firstflight.system import files, lock, path_names
from schemas import records

RUN_ID = path_names.RUN_ID
NEWEST = "newest"
"""The word for the id of the newest run."""


class Run:
    """One run. `path` is the folder; `layout` has all paths below it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name
        self.layout = RunLayout(path)

    # ---- creating and finding runs

    @classmethod
    def create(cls, settings: Settings, text: str, overrides: Sequence[str] = ()) -> Run:
        """Create a run folder with the settings as given (`text`) and in force, and a first manifest."""
        started = datetime.now(UTC)
        run = cls(runs_root() / f"{started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}")
        with files.explain_os_errors(run.path):
            run.path.mkdir(parents=True)
        files.write_text(run.layout.config, text)
        files.write_json(run.layout.settings, settings.model_dump(mode="json"))
        seed = settings.probe.seed
        run.write_manifest(
            {
                "id": run.id,
                "name": settings.campaign.name,
                "state": "running",
                "started_at": started.isoformat(),
                "tool_version": tool_version(),
                "overrides": list(overrides),
                "seed": secrets.randbits(62) if seed is None else seed,
                "cid_key": secrets.token_hex(16),
                "repetitions": settings.campaign.repetitions,
                "settings_sha256": files.sha256_of(run.layout.settings),
            }
        )
        return run

    @classmethod
    def open(cls, name: str) -> Run:
        """Return the run with the id or path `name`, or the `newest`. Raise UsageError without such a run."""
        if name == NEWEST:
            return cls.newest()[0]
        path = Path(name) if "/" in name else runs_root() / name
        if not name or not RunLayout(path).manifest.is_file():
            description = path if "/" in name else f"{name or repr(name)} in {runs_root()}"
            hint = "" if "/" in name else did_you_mean(name, (run.id for run in cls.all()))
            raise UsageError(f"there is no run {description}{hint or '; `firstflight runs` lists them'}")
        return cls(path.resolve())

    @classmethod
    def newest(cls, kind: str | None = None) -> tuple[Run, int]:
        """Return the newest run in the runs folder and the number of runs. Raise UsageError without a run.

        `kind`: consider only runs with a record file of this kind.
        """
        runs = [run for run in cls.all() if kind is None or any(run.path.glob(f"*/*/**/{kind}.parquet"))]
        if not runs:
            condition = "" if kind is None else f" with {kind}.parquet"
            raise UsageError(
                f"there is no run{condition} in {runs_root()}: start one with `firstflight campaign run`"
            )
        return runs[-1], len(runs)

    @classmethod
    def with_id(cls, run_id: str) -> Run:
        """Return the run with an untrusted id, never a path. Raise UsageError if it does not exist."""
        try:
            return cls.open(path_names.run_id(run_id))
        except path_names.UnsafeName as error:
            raise UsageError(str(error)) from error

    @classmethod
    def all(cls, root: Path | None = None) -> list[Run]:
        """Return all runs in the folder `root` (`None`: `runs_root`), oldest first."""
        root = root or runs_root()
        if not root.is_dir():
            return []
        return [cls(path) for path in sorted(root.iterdir()) if RunLayout(path).manifest.is_file()]

    # ---- settings and manifest

    @cached_property
    def settings(self) -> Settings:
        """The settings in force."""
        path = self.layout.settings
        return check(files.read_json(path), str(path), self.path, check_files=False)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest, read from disk at each access."""
        manifest = files.read_json(self.layout.manifest)
        if not isinstance(manifest, dict):
            raise InputError(f"{self.layout.manifest} is not a manifest")
        return manifest

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest. Only the campaign calls this."""
        files.write_json(self.layout.manifest, manifest)

    # ---- record files

    def record_files(self, key: StageKey | None = None) -> list[Path]:
        """Return the run's record files, or only those in `key`'s folder, sorted by path.

        Excludes the files of copied folders. Excludes a crawl that the centre copied from another run,
        because that run loads it.
        """
        folder = self.path if key is None else self.layout.folder(key)
        inputs = self.manifest.get("inputs")
        crawl = inputs.get(CRAWL) if isinstance(inputs, dict) else None
        source = crawl.get("run") if isinstance(crawl, dict) else None
        foreign = self.layout.stage(CRAWL) if source not in (None, self.id) else None
        stems = set(map(records.stem_of, records.stored_names()))
        return [
            path
            for path in sorted(folder.rglob("*.parquet"))
            if path.stem in stems and not self.layout.is_copy(path) and path.parent != foreign
        ]

    # ---- stop requests

    def stopped_at(self) -> datetime | None:
        """Return when the stop file was created (UTC); `None` if it does not exist."""
        try:
            return datetime.fromtimestamp(self.layout.stop_file.stat().st_mtime, UTC)
        except FileNotFoundError:
            return None

    def check_not_stopped(self) -> None:
        """Raise Interrupted (exit 130) if the stop file exists."""
        if self.layout.stop_file.exists():
            hint = f"and `firstflight campaign run --resume {self.id}` continues"
            if self.manifest.get("dag_run"):
                hint = "and loaded; start another run of the DAG for the remaining part"
            raise Interrupted(
                f"run {self.id} was stopped by {self.layout.stop_file}; its results are kept, {hint}"
            )

    # ---- stages

    def key(self, vantage: str, repetition: int, shard: Shard = WHOLE) -> StageKey:
        """Return the key for a vantage point and repetition of this run, optionally for one shard."""
        return StageKey(self.id, vantage, repetition, shard)

    def report(self, stage: str, key: StageKey | None = None) -> StageReport | None:
        """Read a stage's report; `None` if the stage never started."""
        path = self.layout.report(stage, key)
        if not path.is_file():
            return None
        return self._read_report(path)

    def reports(self) -> list[StageReport]:
        """Read the reports of all stages, sorted by start time."""
        return sorted(map(self._read_report, self.layout.reports()), key=lambda report: report.started_at)

    def done(self, stage: str, key: StageKey | None = None) -> bool:
        """Return whether a stage succeeded and all outputs still exist."""
        report = self.report(stage, key)
        return (
            report is not None
            and report.state == "done"
            # A folder of the run may be a link to another disk. These names are only checked for existence.
            and all((self.path / path_names.relative(name)).exists() for name in report.outputs)
        )

    @contextmanager
    def stage(self, stage: str, key: StageKey | None = None) -> Iterator[StageReport]:
        """Run a block as a stage. Writes the report at the block's start and at the end, even after an error.

        The block sets rows_in, rows_out, rejected and counts, and calls `add_output` for each output file.
        """
        # A killed campaign's process may still be shutting down: wait for it.
        with lock.locked(self.layout.stage_lock(stage, key), f"stage {stage}", wait_s=30):
            report = StageReport(
                stage=stage,
                vantage=None if key is None else key.vantage,
                repetition=None if key is None else key.repetition,
                shard=None if key is None or key.shard.is_whole else str(key.shard),
                started_at=datetime.now(UTC),
                pid=os.getpid(),
                tool_version=tool_version(),
            )
            self._write_report(report)
            try:
                yield report
                report.state = "done"
            except (Interrupted, KeyboardInterrupt):
                report.state = "interrupted"
                raise
            except BaseException as error:
                report.state = "failed"
                report.message = str(error) if isinstance(error, FirstflightError) else repr(error)
                raise
            finally:
                report.ended_at = datetime.now(UTC)
                self._write_report(report)

    def lock(self) -> AbstractContextManager[None]:
        """Lock the run while the campaign runs. Raise UsageError immediately if another campaign runs."""
        return lock.locked(self.layout.lock, f"run {self.id}")

    def is_locked(self) -> bool:
        """Return whether a campaign is running on this run now."""
        return lock.is_locked(self.layout.lock)

    def stage_is_running(self, report: StageReport) -> bool:
        """Return whether the process that wrote a report at the start is still running."""
        return lock.is_locked(self.layout.stage_lock(report.stage, report.key(self.id)))

    def add_output(self, report: StageReport, path: Path) -> None:
        """Add a finished output file, with the hash, to the stage's report.

        Syncs the file to disk first, so a report never marks the stage as done before that. Raise
        OutputError.
        """
        files.sync([path])
        report.outputs[str(path.relative_to(self.path))] = files.sha256_of(path)

    def _read_report(self, path: Path) -> StageReport:
        """Read a report, possibly from another machine. Raise InputError if it is invalid or misplaced.

        The vantage point and outputs become paths, so they must match the report's location.
        """
        try:
            report = StageReport.model_validate(files.read_json(path))
        except ValidationError as error:
            fault = error.errors()[0]
            field = ".".join(map(str, fault["loc"]))
            raise InputError(f"{path} is not a report of a stage: {field}: {fault['msg']}") from error
        if self.layout.report(report.stage, report.key(self.id)) != path:
            raise InputError(f"{path} is the report of another stage or vantage point: remove it")
        return report

    def _write_report(self, report: StageReport) -> None:
        path = self.layout.report(report.stage, report.key(self.id))
        left_out = {"shard"} if report.shard is None else None
        files.write_json(path, json.loads(report.model_dump_json(exclude=left_out)))


def runs_root() -> Path:
    """Return the folder of all runs: FIRSTFLIGHT_RUNS, else var/runs in the working directory."""
    return Path(os.environ.get("FIRSTFLIGHT_RUNS") or "var/runs").resolve()
