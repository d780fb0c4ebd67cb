"""The dissect stage: turns the captures of a probe stage into quic_connection.parquet."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dissector import agreement, trim
from dissector.connections import kept
from firstflight import capture_files
from firstflight.errors import InputError
from firstflight.layout import StageKey
from firstflight.run.engines import await_engine
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import binaries, children, files, lock, reading

ROWS, SUMMARY = "quic_connection.parquet", "summary.json"


def stage(run: Run, key: StageKey) -> None:
    """Dissect all captures of `key` into quic_connection.parquet (docs/architecture.md).

    A watch that began after its period has sent nothing: no file then. Else InputError if there is no
    capture, if one is missing (nothing is written then), or if one is damaged (the connections before that
    position are written).
    """
    with run.stage("dissect", key) as report:
        captures = _captures(run, key)
        out = run.layout.quic_connection(key)
        if not captures:
            out.unlink(missing_ok=True)
            report.rows_in = report.rows_out = 0
            return
        with files.explain_os_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
        await_engine(out.parent, run.check_not_stopped)
        copies = trim.Copies.beside(captures[0].parent)
        with files.explain_os_errors(out):
            for left in out.parent.glob("native.*"):  # by a stage that was killed
                shutil.rmtree(left)
            with tempfile.TemporaryDirectory(dir=out.parent, prefix="native.") as folder:
                job = Job(run, key, report, captures, Path(folder), copies)
                broken = job.dissect_and_trim(_probes(run, key) if run.settings.capture.trim else [])
                summary = json.loads((Path(folder) / SUMMARY).read_text(encoding="utf-8"))
                (Path(folder) / out.name).replace(out)
        taken = [record.captured for record in capture_files.records(run.layout.stage("capture", key))]
        known = [packets for packets in taken if packets is not None]
        report.rows_in = sum(known) if len(known) == len(taken) else None
        _account(run, report, summary["quic_connection"], out)
        if broken:
            raise InputError(f"{broken}; the connections that could be read are in {out}")


def _captures(run: Run, key: StageKey) -> list[Path]:
    folder = run.layout.stage("capture", key)
    taken = [folder / record.file for record in capture_files.records(folder)]
    present = [path for path in taken if path.is_file()]
    if not taken and _missed(run, key):
        return []
    if not present:
        raise InputError(
            f"there is no capture in {folder}: run the probe stage of {key.vantage} with capture enabled"
        )
    # A killed stage leaves a `.part` file, which its next attempt renames.
    missing = [
        path.name for path in taken if path not in present and not capture_files.part_of(path).is_file()
    ]
    if missing:
        # Otherwise the connections of the others would look complete.
        raise InputError(
            f"{', '.join(missing)} in {folder} is missing, which capture.json names: put it back, "
            "or remove its entry from capture.json"
        )
    return present


def _missed(run: Run, key: StageKey) -> bool:
    """Return whether a watch began after its period: all its slots were late, and nothing was captured."""
    report = run.report("watch", key)
    if report is None or not run.done("watch", key):
        return False
    return 0 < report.counts.get("slots", 0) == report.counts.get("skipped_late")


def _probes(run: Run, key: StageKey) -> list[Path]:
    """Return the record files of the probes that the captures are of."""
    found = (run.layout.quic_probe(key), run.layout.stage("watch", key) / "quic_probe.parquet")
    return [path for path in found if path.is_file()]


@dataclass
class Job:
    """Dissects `captures`; the rows and their counts come into `folder`."""

    run: Run
    key: StageKey
    report: StageReport
    captures: list[Path]
    folder: Path
    copies: trim.Copies

    def dissect_and_trim(self, probes: list[Path]) -> str | None:
        """Write the rows, and trim the captures if `probes` (quic_probe files) are there and agree with them.

        Returns the dissector's sentence about a capture that breaks off, or None; such captures stay whole.
        """
        if not probes:
            return self._dissect(self.captures, self.folder)
        try:
            broken = self._dissect(self.captures, self.folder, self.copies.begin())
            if not (self.folder / SUMMARY).is_file():  # there is no room for copies, for example
                self._kept_whole(broken or "no rows were written")
                return self._dissect(self.captures, self.folder)
            against = None if broken else self._trim(probes)
            if against is not None:
                self._kept_whole(against)
            return broken
        finally:
            self.copies.remove()

    def _trim(self, probes: list[Path]) -> str | None:
        """Put trimmed copies in place of the captures; return why that was not done, or None."""
        found = agreement.compare(probes, self.folder / ROWS)
        taken = capture_files.records(self.captures[0].parent)
        dropped = sum(record.dropped_by_kernel or 0 for record in taken)
        against = trim.reason_against(found, dropped)
        if against is None and found.differing:
            self.report.facts["kept_whole"] = len(found.differing)
            options = self.copies.begin(found.differing)
            against = self._dissect(self.captures, self._inside("except"), options, "trimming again")
        if against is None:
            before = _size(self.captures)
            self.copies.replace(self.captures)
            self.report.facts |= {"capture_bytes": _size(self.captures), "capture_bytes_before": before}
        return against

    def _kept_whole(self, reason: str) -> None:
        self.copies.remove()
        self.report.warnings.append(f"captures are kept whole: {reason}")

    def _inside(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    def _dissect(
        self, captures: list[Path], folder: Path, more: Sequence[str] = (), doing: str = "dissect"
    ) -> str | None:
        """Run the dissector, which writes ROWS and SUMMARY into `folder`; progress shows `doing`.

        Each row holds the key and the campaign's name of its capture. Returns the dissector's sentence about
        a capture that breaks off, or None. OutputError if nothing could be written without `more` options.
        """
        stamps = {**self.key.columns(), "tool_version": self.report.tool_version}
        options: list[tuple[str, object]] = [
            ("--kind", "quic_connection"),
            ("--format", "parquet"),
            ("--out", folder),
            ("--summary", folder / SUMMARY),
            *kept(self.run.settings),
            *(("--source-name", self.run.layout.name_of(path)) for path in self.captures),
            *(("--stamp", f"{name}={value}") for name, value in stamps.items()),
        ]
        argv = [str(binaries.find("firstflight-dissect")), *map(str, captures)]
        for option, value in options:
            argv += [option, str(value)]
        stage_folder = self.run.layout.stage("dissect", self.key)
        with lock.handed_over(stage_folder) as held:
            process = children.start(
                [*argv, *more], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=held
            )
        shown = f"{self.key.vantage} {doing} {self.key.repetition}" + self.key.of_shard(" shard ")
        _, stderr = reading.finished(process, captures, stage_folder, shown)
        # With copies, it may be these that nothing could be written for: the caller goes on without.
        written = None if more else folder / SUMMARY
        broken = binaries.unreadable(process.returncode, stderr, written)
        return broken[-1] if broken else None


def _size(captures: list[Path]) -> int:
    return sum(path.stat().st_size for path in captures)


def _account(run: Run, report: StageReport, summary: dict[str, Any], out: Path) -> None:
    report.rows_out = summary["rows"]
    report.counts = dict(sorted(summary["first_answer"].items()))
    undecrypted = summary["without_client_hello"]
    if undecrypted:
        report.warnings.append(f"{undecrypted} connections without a ClientHello that can be decrypted")
    run.add_output(report, out)
