"""The dissect stage: converts the captures from a probe stage to quic_connection.parquet."""

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
from firstflight.system import binaries, children, files, lock
from firstflight.system.reporting import reading

ROWS, SUMMARY = "quic_connection.parquet", "summary.json"


def stage(run: Run, key: StageKey) -> None:
    """Dissect all captures of `key` into quic_connection.parquet (docs/reference/run-files.md).

    Writes no file for a watch that started after its period, because it sent no probes. InputError if there
    is no capture, if one is missing (then writes no rows), or if one is damaged (then writes the connections
    before the damage).
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
            for leftover in out.parent.glob("native.*"):  # by a stage that was killed
                shutil.rmtree(leftover)
            with tempfile.TemporaryDirectory(dir=out.parent, prefix="native.") as folder:
                job = Job(run, key, report, captures, Path(folder), copies)
                broken = job.dissect_and_trim(_probes(run, key) if run.settings.capture.trim else [])
                summary = json.loads((Path(folder) / SUMMARY).read_text(encoding="utf-8"))
                (Path(folder) / out.name).replace(out)
        counts = [record.captured for record in capture_files.records(run.layout.stage("capture", key))]
        known_counts = [packets for packets in counts if packets is not None]
        report.rows_in = sum(known_counts) if len(known_counts) == len(counts) else None
        _account(run, report, summary["quic_connection"], out)
        if broken:
            raise InputError(f"{broken}; the connections that could be read are in {out}")


def _captures(run: Run, key: StageKey) -> list[Path]:
    folder = run.layout.stage("capture", key)
    listed = [folder / record.file for record in capture_files.records(folder)]
    present = [path for path in listed if path.is_file()]
    if not listed and _is_missed(run, key):
        return []
    if not present:
        raise InputError(
            f"there is no capture in {folder}: run the probe stage of {key.vantage} with capture enabled"
        )
    # A killed stage leaves a `.part` file, which its next attempt renames.
    missing = [
        path.name for path in listed if path not in present and not capture_files.part_of(path).is_file()
    ]
    if missing:
        # Without this check, the connections of the other captures would look complete.
        raise InputError(
            f"{', '.join(missing)} in {folder} is missing, but listed in capture.json: put it back, "
            "or remove its entry from capture.json"
        )
    return present


def _is_missed(run: Run, key: StageKey) -> bool:
    """Return whether a watch started after its period: all slots were late, and no packet was captured."""
    report = run.report("watch", key)
    if report is None or not run.done("watch", key):
        return False
    return 0 < report.counts.get("slots", 0) == report.counts.get("skipped_late")


def _probes(run: Run, key: StageKey) -> list[Path]:
    """Return the record files of the probes in the captures."""
    paths = (run.layout.quic_probe(key), run.layout.watch_probe(key))
    return [path for path in paths if path.is_file()]


@dataclass
class Job:
    """Dissects `captures`. Writes the rows and their counts to `folder`."""

    run: Run
    key: StageKey
    report: StageReport
    captures: list[Path]
    folder: Path
    copies: trim.Copies

    def dissect_and_trim(self, probes: list[Path]) -> str | None:
        """Write the rows. Trim the captures if `probes` (quic_probe files) exist and agree with the rows.

        Returns the dissector's message about a damaged capture, or `None`. Damaged captures are not trimmed.
        """
        if not probes:
            return self._dissect(self.captures, self.folder)
        try:
            broken = self._dissect(self.captures, self.folder, self.copies.begin())
            if not (self.folder / SUMMARY).is_file():  # there is no room for copies, for example
                self._keep_complete(broken or "no rows were written")
                return self._dissect(self.captures, self.folder)
            reason = None if broken else self._trim(probes)
            if reason is not None:
                self._keep_complete(reason)
            return broken
        finally:
            self.copies.remove()

    def _trim(self, probes: list[Path]) -> str | None:
        """Replace the captures with trimmed copies. Return the reason if that was not done, or `None`."""
        comparison = agreement.compare(probes, self.folder / ROWS)
        capture_records = capture_files.records(self.captures[0].parent)
        dropped = sum(record.dropped_by_kernel or 0 for record in capture_records)
        reason = trim.reason_against(comparison, dropped)
        if reason is None and comparison.differing:
            self.report.facts["kept_whole"] = len(comparison.differing)
            options = self.copies.begin(comparison.differing)
            reason = self._dissect(self.captures, self._subfolder("except"), options, "trimming again")
        if reason is None:
            bytes_before = _size(self.captures)
            self.copies.replace(self.captures)
            self.report.facts |= {"capture_bytes": _size(self.captures), "capture_bytes_before": bytes_before}
        return reason

    def _keep_complete(self, reason: str) -> None:
        self.copies.remove()
        self.report.warnings.append(f"captures are kept whole: {reason}")

    def _subfolder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    def _dissect(
        self, captures: list[Path], folder: Path, extra: Sequence[str] = (), action: str = "dissect"
    ) -> str | None:
        """Run the dissector, which writes ROWS and SUMMARY to `folder`. Progress shows `action`.

        Each row has the key and the campaign's name for the capture. Returns the dissector's message about a
        damaged capture, or `None`. OutputError if nothing could be written without the options `extra`.
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
        with lock.locked_descriptors(stage_folder) as lock_descriptors:
            process = children.start(
                [*argv, *extra], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=lock_descriptors
            )
        title = f"{self.key.vantage} {action} {self.key.repetition}" + self.key.of_shard(" shard ")
        _, stderr = reading.wait_for_exit(process, captures, stage_folder, title)
        # With copies, the fault may be in writing them: the caller tries again without them.
        written = None if extra else folder / SUMMARY
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
