"""A run's paths. Only this module builds paths below a run's folder.

RUN/ has the files of the whole run. RUN/VANTAGE/REPETITION/ has the files for a vantage point and
repetition, and RUN/VANTAGE/REPETITION/shard-K-of-N/ the files for a shard
(docs/reference/run-files.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from firstflight import shard as shards
from firstflight.shard import WHOLE, Shard

TARGETS = "targets"
AS_DATA = "as_data"
LISTS = "lists"
CRAWL = "crawl"
_LOGS = "logs"
_RULES = "rules"
_LOAD = "load"
_LOCK = "lock"
_STOP = "stop"
# Names that a vantage point may not have, because the run uses them.
OWN_NAMES = frozenset({TARGETS, AS_DATA, CRAWL, LISTS, _LOGS, _RULES, _LOAD, _LOCK, _STOP})

REPORT = "report.json"


@dataclass(frozen=True, order=True)
class StageKey:
    """Identifies a vantage point's measurement in a repetition of a run (in a watch: a period).

    `run` is the run's id. `repetition` counts from 1. Columns of the same names identify the key's rows.
    `shard` is the measured part of the names.
    """

    run: str
    vantage: str
    repetition: int
    shard: Shard = WHOLE

    def __str__(self) -> str:
        return f"{self.vantage}, repetition {self.repetition}" + self.of_shard(", shard ")

    def of_shard(self, before: str) -> str:
        """Return `before` and the shard as text; empty if there is only one shard."""
        return "" if self.shard.is_whole else f"{before}{self.shard}"

    @property
    def whole(self) -> StageKey:
        """The key that stands for all shards together."""
        return replace(self, shard=WHOLE)

    def earlier(self) -> Iterator[StageKey]:
        """Yield the same key in earlier repetitions, oldest first."""
        return (replace(self, repetition=number) for number in range(1, self.repetition))

    def columns(self) -> dict[str, str | int]:
        """Return the columns that identify a key in rows."""
        return {"run": self.run, "vantage": self.vantage, "repetition": self.repetition}


class RunLayout:
    """Paths of the run in the folder `root`. Creates no files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # ---- of the whole run

    @property
    def manifest(self) -> Path:
        """The file with state, versions, seeds and stages."""
        return self.root / "manifest.json"

    @property
    def config(self) -> Path:
        """The settings file as the user gave it."""
        return self.root / "config.toml"

    @property
    def settings(self) -> Path:
        """The file with the settings in force."""
        return self.root / "settings.json"

    @property
    def inputs(self) -> Path:
        """The file that lists the centre's files for the vantage points in a scheduled run."""
        return self.root / "inputs.json"

    @property
    def lock(self) -> Path:
        """The file that the campaign locks while it runs."""
        return self.root / _LOCK

    @property
    def stop_file(self) -> Path:
        """While this file exists, the run stops gracefully and sends no more packets."""
        return self.root / _STOP

    @property
    def targets(self) -> Path:
        """targets.parquet: rank, domain, list_id."""
        return self.root / TARGETS / "targets.parquet"

    @property
    def as_data(self) -> Path:
        """The folder with rib.pyasn, cdn_map.toml, cdn_rules.toml and as_data.json."""
        return self.root / AS_DATA

    @property
    def lists(self) -> Path:
        """The folder with a scheduled run's block and opt-out lists."""
        return self.root / LISTS

    def list_copy(self, kind: str, number: int, name: str) -> Path:
        """Return the path for a scheduled run's copy of a list or of root certificates."""
        return self.lists / f"{kind}-{number}-{name}"

    def rule_copy(self, sha256: str, name: str) -> Path:
        """Return the path of the copy of a stage's rule file. The name contains the hash."""
        return self.root / _RULES / f"{sha256[:12]}-{name}"

    def log(self, name: str, key: StageKey | None = None) -> Path:
        """Return the log file for a campaign's child process."""
        suffix = "" if key is None else f"-{key.vantage}-{key.repetition}"
        if key is not None and not key.shard.is_whole:
            suffix += f"-{key.shard.folder}"
        return self.root / _LOGS / f"{name}{suffix}.log"

    # ---- of a stage

    def folder(self, key: StageKey) -> Path:
        """Return the folder for a key's stages. Raise ValueError for the key of another run."""
        if key.run != self.root.name:
            raise ValueError(f"{key} belongs to run {key.run}, not to {self.root.name}")
        folder = self.root / key.vantage / str(key.repetition)
        return folder if key.shard.is_whole else folder / key.shard.folder

    def stage(self, name: str, key: StageKey | None = None) -> Path:
        """Return a stage's output folder. `key`: for the stages at a vantage point and repetition."""
        return (self.root if key is None else self.folder(key)) / name

    def report(self, stage: str, key: StageKey | None = None) -> Path:
        """Return the path for a stage's report."""
        return self.stage(stage, key) / REPORT

    def stage_lock(self, stage: str, key: StageKey | None = None) -> Path:
        """Return the lock file for a stage's process."""
        return self.stage(stage, key) / _LOCK

    def reports(self) -> Iterator[Path]:
        """Yield the existing reports of all stages, except for copies in other folders."""
        yield from self.root.glob(f"*/{REPORT}")
        for path in self.root.glob(f"*/[0-9]*/*/{REPORT}"):
            if path.parts[-3].isdecimal():
                yield path
        for path in self.root.glob(f"*/[0-9]*/shard-*-of-*/*/{REPORT}"):
            if path.parts[-4].isdecimal() and not shards.of_folder(path.parts[-3]).is_whole:
                yield path

    def is_copy(self, path: Path) -> bool:
        """Return whether a file is in a copy of a repetition's folder, such as `1.old`."""
        parts = path.relative_to(self.root).parts
        return len(parts) > 3 and not parts[1].isdecimal()

    def key_of(self, path: Path) -> StageKey:
        """Return the key of the folder that contains `path`. Raise ValueError without such a key."""
        vantage, repetition = path.relative_to(self.root).parts[:2]
        return StageKey(self.root.name, vantage, int(repetition), self.shard_of(path))

    def shard_of(self, path: Path) -> Shard:
        """Return the shard of the folder that contains `path`; WHOLE outside of shard folders."""
        parts = path.relative_to(self.root).parts
        return shards.of_folder(parts[2]) if len(parts) > 3 else WHOLE

    def clock(self, key: StageKey) -> Path:
        """Return the path of the vantage point's clock comparison."""
        return self.folder(key) / "clock.json"

    # ---- record files

    def record_file(self, stage: str, kind: str, key: StageKey | None = None) -> Path:
        """Return the path for a stage's record file. The kind is the file's name."""
        return self.stage(stage, key) / f"{kind}.parquet"

    def dns_answer(self, key: StageKey) -> Path:
        """Return the path of the resolve stage's record file."""
        return self.stage("resolve", key) / "dns_answer.parquet"

    def scan_answer(self, key: StageKey) -> Path:
        """Return the path of the scan stage's record file."""
        return self.stage("scan", key) / "scan_answer.parquet"

    def quic_probe(self, key: StageKey) -> Path:
        """Return the path of the probe stage's record file."""
        return self.stage("probe", key) / "quic_probe.parquet"

    def watch_probe(self, key: StageKey) -> Path:
        """Return the path of the watch stage's record file of probes, for the period in `key`."""
        return self.stage("watch", key) / "quic_probe.parquet"

    def handshakes(self, key: StageKey, kind: str = "quic_handshake") -> Path:
        """Return the handshake stage's record file of quic_handshake, certificate or http3_response."""
        return self.stage("handshake", key) / f"{kind}.parquet"

    def calibration(self, key: StageKey) -> Path:
        """Return the path of the calibrate stage's record file."""
        return self.stage("calibrate", key) / "calibration.parquet"

    def crawl(self, kind: str) -> Path:
        """Return the crawl stage's record file of download_file or crawl_page."""
        return self.stage(CRAWL) / f"{kind}.parquet"

    def tcp_option(self, key: StageKey) -> Path:
        """Return the path of the tcp_options stage's record file."""
        return self.stage("tcp_options", key) / "tcp_option.parquet"

    def downloads(self, key: StageKey) -> Path:
        """Return the path of the download stage's record file."""
        return self.stage("download", key) / "download.parquet"

    def quic_ack(self, key: StageKey) -> Path:
        """Return the path of the download stage's record file of quic_ack."""
        return self.stage("download", key) / "quic_ack.parquet"

    def quic_connection(self, key: StageKey) -> Path:
        """Return the path of the dissect stage's record file."""
        return self.stage("dissect", key) / "quic_connection.parquet"

    def capture(self, key: StageKey) -> Path:
        """Return the path of the probe's capture. A resumed stage adds probe-2.pcap, probe-3.pcap, ..."""
        return self.stage("capture", key) / "probe.pcap"

    def captures(self, key: StageKey) -> list[Path]:
        """Return all of a key's complete captures, oldest first."""
        paths = self.stage("capture", key).glob("probe*.pcap")
        # probe.pcap, probe-2.pcap, ..., probe-10.pcap
        return sorted(paths, key=lambda path: (len(path.name), path.name))

    def name_of(self, path: Path) -> str:
        """Return a file's name in records: RUN/ and the path within the run."""
        return f"{self.root.name}/{path.relative_to(self.root)}"
