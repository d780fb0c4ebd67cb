"""A run on disk: where its files are, what its manifest says, which stages have done what.

The campaign alone writes `manifest.json`. Every stage process writes a `report.json` of its own beside its
output, so that processes never write into each other's files; `Run.reports` gathers them.
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
from firstflight.run.provenance import tool_version
from firstflight.run.report import StageReport
from firstflight.settings import Settings, check
from firstflight.system import files, lock, path_names

RUN_ID = path_names.RUN_ID
CENTRE_STAGES = ("targets", "as_data")


class Run:
    """One run's folder. Paths are methods and properties; nothing else knows the layout."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.id = path.name

    # ---- making and finding runs

    @classmethod
    def create(cls, settings: Settings, text: str, overrides: Sequence[str] = ()) -> Run:
        """Make a new run folder with its settings as given (`text`) and in force, and a first manifest."""
        started = datetime.now(UTC)
        run = cls(runs_root() / f"{started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}")
        with files.said_in_one_sentence(run.path):
            run.path.mkdir(parents=True)
        files.write_text(run.path / "config.toml", text)
        files.write_json(run.path / "settings.json", settings.model_dump(mode="json"))
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
                "settings_sha256": files.sha256_of(run.path / "settings.json"),
            }
        )
        return run

    @classmethod
    def open(cls, name: str) -> Run:
        """The run with that id, or at that path. UsageError if there is none."""
        path = Path(name) if "/" in name else runs_root() / name
        if not name or not (path / "manifest.json").is_file():
            where = path if "/" in name else f"{name or repr(name)} in {runs_root()}"
            raise UsageError(f"there is no run {where}; `firstflight runs` lists them")
        return cls(path.resolve())

    @classmethod
    def with_id(cls, run_id: str) -> Run:
        """The run with that id, which came from elsewhere: never a path. UsageError if there is none."""
        try:
            return cls.open(path_names.run_id(run_id))
        except path_names.UnsafeName as error:
            raise UsageError(str(error)) from error

    @classmethod
    def all(cls) -> list[Run]:
        """All runs, oldest first."""
        root = runs_root()
        if not root.is_dir():
            return []
        return [cls(path) for path in sorted(root.iterdir()) if (path / "manifest.json").is_file()]

    # ---- what it was told

    @cached_property
    def settings(self) -> Settings:
        """The settings in force."""
        where = self.path / "settings.json"
        return check(files.read_json(where), str(where), self.path, check_files=False)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as it stands on disk."""
        manifest = files.read_json(self.path / "manifest.json")
        if not isinstance(manifest, dict):
            raise InputError(f"{self.path / 'manifest.json'} is not a manifest")
        return manifest

    def write_manifest(self, manifest: dict[str, Any]) -> None:
        """Replace the manifest; only the campaign does this."""
        files.write_json(self.path / "manifest.json", manifest)

    # ---- where things are

    @property
    def targets(self) -> Path:
        """targets.parquet: rank, domain, list_id."""
        return self.path / "targets" / "targets.parquet"

    @property
    def as_data(self) -> Path:
        """Folder of rib.pyasn, cdn_map.toml, as_data.json."""
        return self.path / "as_data"

    def stage_dir(self, stage: str, vantage: str | None = None, repetition: int | None = None) -> Path:
        """Folder of a stage's output; vantage and repetition for the stages that have them."""
        if vantage is None:
            return self.path / stage
        if repetition is None:
            raise UsageError(f"stage {stage} at {vantage} needs a repetition")
        return self.path / vantage / str(repetition) / stage

    def dns_answer(self, vantage: str, repetition: int) -> Path:
        """Record file of the resolve stage."""
        return self.stage_dir("resolve", vantage, repetition) / "dns_answer.parquet"

    def quic_probe(self, vantage: str, repetition: int) -> Path:
        """Record file of the probe stage, or of the watch stage of that period."""
        watched = self.stage_dir("watch", vantage, repetition) / "quic_probe.parquet"
        return watched if watched.is_file() else self.stage_dir("probe", vantage, repetition) / watched.name

    def capture(self, vantage: str, repetition: int) -> Path:
        """Capture beside the probe."""
        return self.stage_dir("capture", vantage, repetition) / "probe.pcap"

    def captures(self, vantage: str, repetition: int) -> list[Path]:
        """All whole captures of a probe stage, oldest first: more than one if it was cut and resumed."""
        found = self.stage_dir("capture", vantage, repetition).glob("probe*.pcap")
        # probe.pcap, probe-2.pcap, ..., probe-10.pcap
        return sorted(found, key=lambda path: (len(path.name), path.name))

    def quic_connection(self, vantage: str, repetition: int) -> Path:
        """Record file of the dissect stage."""
        return self.stage_dir("dissect", vantage, repetition) / "quic_connection.parquet"

    def name_of(self, path: Path) -> str:
        """A file's name in records: RUN/ and the path within the run."""
        return f"{self.id}/{path.relative_to(self.path)}"

    # ---- being told to stop

    @property
    def stop_file(self) -> Path:
        """Where it lies, the run is to end in order and nothing more is sent."""
        return self.path / "stop"

    def stopped_at(self) -> datetime | None:
        """When the stop file was laid there (UTC); None if it is not."""
        try:
            return datetime.fromtimestamp(self.stop_file.stat().st_mtime, UTC)
        except FileNotFoundError:
            return None

    def check_not_stopped(self) -> None:
        """Interrupted (exit 130) if the stop file is there."""
        if self.stop_file.exists():
            way_on = f"and `firstflight campaign run --resume {self.id}` goes on"
            if self.manifest.get("dag_run"):
                way_on = "and loaded; for the rest start another run of the DAG"
            raise Interrupted(
                f"run {self.id} was stopped by {self.stop_file}; what was probed is kept, {way_on}"
            )

    # ---- what was done

    def report_path(self, stage: str, vantage: str | None = None, repetition: int | None = None) -> Path:
        """Where a stage's report stands."""
        return self.stage_dir(stage, vantage, repetition) / "report.json"

    def report(
        self, stage: str, vantage: str | None = None, repetition: int | None = None
    ) -> StageReport | None:
        """A stage's report, or None if it never started. A process that is gone did not keep running."""
        path = self.report_path(stage, vantage, repetition)
        if not path.is_file():
            return None
        return self._read_report(path)

    def reports(self) -> list[StageReport]:
        """All stages' reports, in order of their start; copies put aside under other names are left out."""
        of_run = self.path.glob("*/report.json")
        of_repetitions = self.path.glob("*/[0-9]*/*/report.json")
        paths = [*of_run, *(path for path in of_repetitions if path.parts[-3].isdecimal())]
        return sorted(map(self._read_report, paths), key=lambda report: report.started_at)

    def done(self, stage: str, vantage: str | None = None, repetition: int | None = None) -> bool:
        """Whether a stage ended well and all its outputs are still there."""
        report = self.report(stage, vantage, repetition)
        return (
            report is not None
            and report.state == "done"
            # A folder of the run may be a link, to another disk say: nothing is written by these names.
            and all((self.path / path_names.relative(name)).exists() for name in report.outputs)
        )

    @contextmanager
    def stage(
        self, stage: str, vantage: str | None = None, repetition: int | None = None
    ) -> Iterator[StageReport]:
        """Run a block as a stage: the report is written at its start and, whatever happens, at its end.

        The block fills rows_in, rows_out, rejected, counts and calls `add_output` for what it wrote.
        """
        # A process that a killed campaign left behind may still be ending in order: wait for it a while.
        with lock.locked(self.stage_dir(stage, vantage, repetition) / "lock", f"stage {stage}", wait_s=30):
            report = StageReport(
                stage=stage,
                vantage=vantage,
                repetition=repetition,
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
        """Held by the campaign as long as it runs; UsageError at once if another holds it."""
        return lock.locked(self.path / "lock", f"run {self.id}")

    def stage_is_held(self, stage: str, vantage: str | None, repetition: int | None) -> bool:
        """Whether a process is doing that stage now."""
        return lock.is_locked(self.stage_dir(stage, vantage, repetition) / "lock")

    def is_held(self) -> bool:
        """Whether a campaign is running on this run now."""
        return lock.is_locked(self.path / "lock")

    def add_output(self, report: StageReport, path: Path) -> None:
        """Note a finished output file, with its hash, in the stage's report."""
        report.outputs[str(path.relative_to(self.path))] = files.sha256_of(path)

    def _read_report(self, path: Path) -> StageReport:
        """A report, which may be another machine's; InputError if it is broken or belongs elsewhere.

        Its vantage point and its outputs become paths, so it may only speak of where it lies.
        """
        try:
            report = StageReport.model_validate(files.read_json(path))
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            raise InputError(f"{path} is no report of a stage: {where}: {fault['msg']}") from error
        if self.report_path(report.stage, report.vantage, report.repetition) != path:
            raise InputError(f"{path} is the report of another stage or vantage point: remove it")
        return report

    def _write_report(self, report: StageReport) -> None:
        path = self.report_path(report.stage, report.vantage, report.repetition)
        files.write_json(path, json.loads(report.model_dump_json()))


def runs_root() -> Path:
    """Folder of all runs: FIRSTFLIGHT_RUNS, else var/runs under the working directory."""
    return Path(os.environ.get("FIRSTFLIGHT_RUNS") or "var/runs").resolve()
