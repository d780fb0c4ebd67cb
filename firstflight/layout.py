"""Where everything of a run lies. The one module that builds paths below a run's folder.

RUN/ holds what the whole run has, RUN/VANTAGE/REPETITION/ what one vantage point measured in one repetition
(docs/architecture.md, "A run on disk").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TARGETS = "targets"
AS_DATA = "as_data"
LISTS = "lists"
_LOGS = "logs"
_RULES = "rules"
_LOAD = "load"
_LOCK = "lock"
_STOP = "stop"
# A vantage point of such a name would share a folder with the run itself.
OWN_NAMES = frozenset({TARGETS, AS_DATA, LISTS, _LOGS, _RULES, _LOAD, _LOCK, _STOP})

REPORT = "report.json"


@dataclass(frozen=True, order=True)
class StageKey:
    """What a vantage point measures in one repetition of a run (of a watch: one period).

    `run` is the run's id, `repetition` counts from 1. The same three columns identify its rows.
    """

    run: str
    vantage: str
    repetition: int

    def __str__(self) -> str:
        return f"{self.vantage}, repetition {self.repetition}"

    def columns(self) -> dict[str, str | int]:
        """The columns of a row that say where it belongs."""
        return {"run": self.run, "vantage": self.vantage, "repetition": self.repetition}


class RunLayout:
    """Paths of one run, whose folder is `root`. Nothing is looked up or created."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # ---- of the whole run

    @property
    def manifest(self) -> Path:
        """State, versions, seeds, stages."""
        return self.root / "manifest.json"

    @property
    def config(self) -> Path:
        """The settings as the user gave them."""
        return self.root / "config.toml"

    @property
    def settings(self) -> Path:
        """The settings in force."""
        return self.root / "settings.json"

    @property
    def inputs(self) -> Path:
        """What the centre offers to the vantage points of a scheduled run."""
        return self.root / "inputs.json"

    @property
    def lock(self) -> Path:
        """Locked by the campaign while it runs."""
        return self.root / _LOCK

    @property
    def stop_file(self) -> Path:
        """While it exists, the run ends in order and nothing more is sent."""
        return self.root / _STOP

    @property
    def targets(self) -> Path:
        """targets.parquet: rank, domain, list_id."""
        return self.root / TARGETS / "targets.parquet"

    @property
    def as_data(self) -> Path:
        """Folder of rib.pyasn, cdn_map.toml, as_data.json."""
        return self.root / AS_DATA

    @property
    def lists(self) -> Path:
        """Block and opt-out lists that a scheduled run carries along."""
        return self.root / LISTS

    def list_copy(self, kind: str, number: int, name: str) -> Path:
        """Copy of the block or opt-out list `number` of a scheduled run."""
        return self.lists / f"{kind}-{number}-{name}"

    def rule_copy(self, sha256: str, name: str) -> Path:
        """Copy of a rule file that a stage used, named by its content."""
        return self.root / _RULES / f"{sha256[:12]}-{name}"

    def log(self, name: str, key: StageKey | None = None) -> Path:
        """Output of a process that the campaign ran."""
        where = "" if key is None else f"-{key.vantage}-{key.repetition}"
        return self.root / _LOGS / f"{name}{where}.log"

    # ---- of a stage

    def folder(self, key: StageKey) -> Path:
        """Folder of all stages of a key. ValueError for the key of another run."""
        if key.run != self.root.name:
            raise ValueError(f"{key} belongs to run {key.run}, not to {self.root.name}")
        return self.root / key.vantage / str(key.repetition)

    def stage(self, name: str, key: StageKey | None = None) -> Path:
        """Folder of a stage's output; `key` for the stages of a vantage point and repetition."""
        return (self.root if key is None else self.folder(key)) / name

    def report(self, stage: str, key: StageKey | None = None) -> Path:
        """Report of a stage."""
        return self.stage(stage, key) / REPORT

    def stage_lock(self, stage: str, key: StageKey | None = None) -> Path:
        """Locked by the process that does a stage."""
        return self.stage(stage, key) / _LOCK

    def reports(self) -> Iterator[Path]:
        """Reports of all stages that exist; copies put aside under other names are left out."""
        yield from self.root.glob(f"*/{REPORT}")
        for path in self.root.glob(f"*/[0-9]*/*/{REPORT}"):
            if path.parts[-3].isdecimal():
                yield path

    def key_of(self, path: Path) -> StageKey:
        """The key below whose folder `path` lies. ValueError if it does not lie below one."""
        vantage, repetition = path.relative_to(self.root).parts[:2]
        return StageKey(self.root.name, vantage, int(repetition))

    def clock(self, key: StageKey) -> Path:
        """How far the clock at the vantage point was off."""
        return self.folder(key) / "clock.json"

    # ---- record files

    def dns_answer(self, key: StageKey) -> Path:
        """Record file of the resolve stage."""
        return self.stage("resolve", key) / "dns_answer.parquet"

    def quic_probe(self, key: StageKey) -> Path:
        """Record file of the probe stage, or of the watch stage of that period."""
        watched = self.stage("watch", key) / "quic_probe.parquet"
        return watched if watched.is_file() else self.stage("probe", key) / watched.name

    def quic_connection(self, key: StageKey) -> Path:
        """Record file of the dissect stage."""
        return self.stage("dissect", key) / "quic_connection.parquet"

    def capture(self, key: StageKey) -> Path:
        """Capture beside the probe; a resumed stage adds probe-2.pcap, probe-3.pcap, ..."""
        return self.stage("capture", key) / "probe.pcap"

    def captures(self, key: StageKey) -> list[Path]:
        """All whole captures of a key, oldest first."""
        found = self.stage("capture", key).glob("probe*.pcap")
        # probe.pcap, probe-2.pcap, ..., probe-10.pcap
        return sorted(found, key=lambda path: (len(path.name), path.name))

    def name_of(self, path: Path) -> str:
        """A file's name in records: RUN/ and the path within the run."""
        return f"{self.root.name}/{path.relative_to(self.root)}"
