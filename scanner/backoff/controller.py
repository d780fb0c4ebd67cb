"""Pauses and resumes ASes of a running prober, based on the outcomes in the closed segments.

Reads each closed segment once. Writes all pauses to pauses.json in the segments' parent folder, so that a
resumed stage continues them and rows can be flagged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from firstflight.run.accounting import NOT_SENT
from firstflight.settings import Backoff
from firstflight.system import files
from firstflight.system.reporting import progress
from scanner.backoff.detector import SECOND_NS, Detector
from scanner.backoff.pauses import PAUSES_FILE, Pause, read_pauses
from scanner.driver.feed import FIRST_SLOT, Feed
from scanner.driver.segments import NewSegments, read_segment

_RETRIED = ("retry", "retry_loop")


class Controller:
    """Controls an engine's pauses. Call `update` several times a second."""

    def __init__(
        self, settings: Backoff, folder: Path, asn_of: Callable[[str], int | None], feed: Feed, label: str
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._asn_of = asn_of
        self._feed = feed
        self._label = label
        self._detector = Detector(settings)
        self._segments = NewSegments(folder / "segments")
        self._asn: dict[str, int | None] = {}
        # Rows in closed segments: listed targets, and planned probes.
        self.listed_rows = 0
        self.planned_rows = 0
        self.pauses = read_pauses(folder)
        for pause in self.pauses:
            if pause.resumed_at_ns is None:
                self._pause(pause.asn)
            else:
                self._detector.restart_window(pause.asn, pause.resumed_at_ns)

    def update(self, clock: Callable[[], int] = time.time_ns) -> None:
        """Read new segments, then pause and resume ASes. `clock` returns UTC in ns.

        A recorded pause starts after the pause command is written, and finishes before the resume command is
        written. All probes sent within it left before the engine read the pause command.
        """
        for path in self._segments.take():
            self._read_segment(path)
        if not self._settings.enabled:
            return
        now_ns = clock()
        for pause in self._active():
            resume_ns = pause.paused_at_ns + self._settings.resume_after_s * SECOND_NS
            if self._settings.resume_after_s and now_ns >= resume_ns:
                pause.resumed_at_ns = now_ns
                self._detector.restart_window(pause.asn, now_ns)
                self._feed.resume(pause.asn)
                self._write()
                progress.print_line(f"{self._label}: AS{pause.asn} is probed again")
        paused = {pause.asn for pause in self._active()}
        for verdict in self._detector.verdicts():
            if verdict.asn in paused:
                continue
            self._pause(verdict.asn)
            self.pauses.append(
                Pause(
                    asn=verdict.asn,
                    sign=verdict.sign,
                    baseline=verdict.baseline,
                    window=verdict.window,
                    suspect_from_ns=verdict.since_ns,
                    paused_at_ns=clock(),
                )
            )
            self._write()
            progress.print_line(f"{self._label}: {verdict}; probing of it is paused")

    @property
    def warnings(self) -> list[str]:
        """One sentence per pause."""
        return [
            f"AS{pause.asn} was paused: its share of {pause.sign} rose from {pause.baseline[0]} of "
            f"{pause.baseline[1]} to {pause.window[0]} of {pause.window[1]}; its rows are flagged "
            "(network_paused_at)"
            for pause in self.pauses
        ]

    def _active(self) -> list[Pause]:
        return [pause for pause in self.pauses if pause.resumed_at_ns is None]

    def _pause(self, asn: int) -> None:
        if self._settings.resume_after_s:
            self._feed.pause(asn)
        else:
            self._feed.refuse(asn)

    def _read_segment(self, path: Path) -> None:
        rows = read_segment(path)
        listed = int(np.count_nonzero(rows["target"].to_numpy() < FIRST_SLOT))
        self.listed_rows += listed
        self.planned_rows += rows.num_rows - listed
        if not self._settings.enabled:
            return
        # Named `retried` for a probe. For a handshake, `retry`: a handshake always follows a Retry. TCP has
        # neither.
        retry_columns = [name for name in ("retried", "retry") if name in rows.column_names]
        retried = rows[retry_columns[0]].to_pylist() if retry_columns else [False] * rows.num_rows
        columns = (rows["outcome"].to_pylist(), rows["sent_at"].to_pylist(), retried)
        # Row by row: a segment is small and mostly covers one second, and each call of Arrow has a cost.
        for asn, outcome, sent_ns, retry in zip(self._asns(rows), *columns, strict=True):
            if asn is not None and sent_ns is not None and outcome not in NOT_SENT:
                self._detector.add(asn, sent_ns, outcome == "timeout", retry or outcome in _RETRIED)

    def _asns(self, rows: pa.Table) -> list[int | None]:
        """Return the AS of each row: from the prober's rows, or looked up if its input has no AS."""
        if "asn" in rows.column_names:
            asns: list[int | None] = rows["asn"].to_pylist()
            return asns
        ips = rows["ip"].to_pylist()
        for ip in set(ips) - self._asn.keys():
            self._asn[ip] = self._asn_of(ip)
        return [self._asn[ip] for ip in ips]

    def _write(self) -> None:
        value: list[dict[str, Any]] = [pause.model_dump() for pause in self.pauses]
        files.write_json(self._folder / PAUSES_FILE, value)
