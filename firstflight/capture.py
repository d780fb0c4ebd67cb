"""Captures the probe's packets: starts tcpdump, waits until it captures, monitors and stops it.

Time stamps have nanosecond resolution. `firstflight.capture_files` describes the files in the folder.
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from firstflight.capture_files import CaptureRecord, add_record, keep_whole_packets, part_of
from firstflight.errors import FirstflightError, Interrupted, OutputError, UsageError
from firstflight.system import children, files, lock
from firstflight.system.noted_signals import noted_signals

# If there is less free disk space, the capture and the probe stop.
LEAST_FREE_BYTES = 65_536
# Seconds for tcpdump to start, to read all delivered packets, or to stop. Only a hang lasts longer. After
# this time a start fails, and a running capture is stopped or killed.
_HANG_S = 60.0
_LISTENING = re.compile(rb"listening on ")
_STATISTICS = {
    "captured": re.compile(r"(\d+) packets? captured"),
    "received_by_filter": re.compile(r"(\d+) packets? received by filter"),
    "dropped_by_kernel": re.compile(r"(\d+) packets? dropped by kernel"),
    "dropped_by_interface": re.compile(r"(\d+) packets? dropped by interface"),
}


class TcpdumpCapture:
    """Context manager for one tcpdump process.

    Entering returns when tcpdump is capturing. Leaving waits until the kernel has delivered the last packets,
    stops tcpdump and writes `capture.json`. Then it raises Interrupted if SIGINT or SIGTERM has arrived
    meanwhile. `check` verifies that tcpdump still runs. `prefix`: a command that runs tcpdump in another
    network namespace.

    `max_bytes`: the maximum size of the file. Beyond it, tcpdump continues and counts the packets that it
    cannot write (`CaptureRecord.cut`). The file never uses more than half of the disk space that is free at
    the start.
    """

    def __init__(
        self,
        path: Path,
        interface: str,
        bpf: str,
        *,
        snaplen: int,
        buffer_kib: int,
        drain_s: float,
        max_bytes: int,
        prefix: Sequence[str] = (),
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self.drain_s = drain_s
        self.record = CaptureRecord(path.name, interface, bpf, snaplen, started_ns=0)
        self._part = part_of(path)
        self._argv = [
            *prefix,
            "tcpdump",
            "-i",
            interface,
            "-n",  # no name resolution, which would add traffic
            "-p",  # does not change the interface's promiscuous mode
            "-U",  # writes each packet to the file immediately
            "--time-stamp-precision=nano",
            "-s",
            str(snaplen),
            "-B",
            str(buffer_kib),
            # Debian's tcpdump drops root for a user that cannot write here; otherwise it keeps its user.
            *(["-Z", "root"] if os.geteuid() == 0 else []),
            "-w",
            str(self._part),
            bpf,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._messages = b""

    def __enter__(self) -> Self:
        self._part.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._process = self._started()
            self._wait_until_listening(_HANG_S)
        except BaseException:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            self._part.unlink(missing_ok=True)
            raise
        self.record.started_ns = time.time_ns()
        add_record(self.path.parent, self.record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A signal in between would leave the capture as `.part`.
        with noted_signals() as signalled:
            self._end(check=error is None)
            if signalled() and error is None:
                raise Interrupted("stopped by a signal; captured packets are kept")

    def _started(self) -> subprocess.Popen[bytes]:
        """Start tcpdump. It holds the file's lock until it exits, even if this process is killed."""
        with files.explain_os_errors(self._part):
            self._part.write_bytes(b"")
            self.record.max_bytes = min(self._max_bytes, _free_bytes(self.path.parent) // 2)
        with lock.locked_descriptors(self._part) as lock_descriptors:
            return children.start(
                self._argv,
                own_session=True,
                stderr=subprocess.PIPE,
                pass_fds=lock_descriptors,
                max_file_bytes=self.record.max_bytes,
            )

    def _end(self, *, check: bool) -> None:
        """Drain, stop tcpdump and write the record. With `check`, raise if tcpdump failed."""
        assert self._process is not None
        if self._process.poll() is None:
            # The kernel delivers packets when a block of the ring is full, or after a second (tcpdump's read
            # timeout, retire_blk_tov). Stopping earlier loses the packets in the open block.
            time.sleep(self.drain_s)
            self._wait_until_read(_HANG_S)
        status = children.stop(self._process, _HANG_S)
        self.record.ended_ns = time.time_ns()
        assert self._process.stderr is not None
        self._messages += self._process.stderr.read()
        self._process.stderr.close()
        text = self._messages.decode(errors="replace")
        for name, pattern in _STATISTICS.items():
            match = pattern.search(text)
            setattr(self.record, name, int(match[1]) if match else None)
        with files.explain_os_errors(self.path):
            is_full = self.size() >= (self.record.max_bytes or 0)
            packets = keep_whole_packets(self._part)
            self._part.replace(self.path)
        files.sync([self.path])
        if self.record.captured is not None:
            self.record.cut = self.record.captured - packets if is_full else 0
        add_record(self.path.parent, self.record)
        if check and status != 0:
            raise FirstflightError(self._failure("failed"))
        # tcpdump does not notice a failed write to the file.
        if check and not is_full and self.record.captured is not None and packets < self.record.captured:
            raise OutputError(
                f"{self.path} holds {packets} of {self.record.captured} captured packets: is the disk full?"
            )

    def check(self) -> None:
        """Raise FirstflightError if tcpdump has exited (interface removed), OutputError on a full disk."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise FirstflightError(self._failure("ended while the probe ran"))
        if _free_bytes(self.path.parent) < LEAST_FREE_BYTES:
            raise OutputError(
                f"the disk that holds {self.path} is full; written packets are kept: "
                "free space, then --resume"
            )

    def size(self) -> int:
        """Return the capture's current size in bytes."""
        try:
            return self._part.stat().st_size
        except FileNotFoundError:
            return 0

    def _wait_until_listening(self, limit_s: float) -> None:
        """Wait for tcpdump's start message (printed when socket and filter are ready) and the file header."""
        assert self._process is not None and self._process.stderr is not None
        deadline = time.monotonic() + limit_s
        pipe = self._process.stderr
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while not _LISTENING.search(self._messages):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise FirstflightError(f"tcpdump did not start capturing within {limit_s:.0f} s")
                chunk = os.read(pipe.fileno(), 4096)
                if not chunk:
                    self._process.wait()
                    raise UsageError(self._failure("could not start"))
                self._messages += chunk
        while self.size() < 24:
            if time.monotonic() > deadline:
                raise FirstflightError(f"tcpdump captures but does not write {self._part}")
            time.sleep(0.005)

    def _wait_until_read(self, limit_s: float) -> None:
        """Wait until tcpdump is asleep. Then it has read all packets that the kernel has delivered.

        On a busy machine this can be long after their delivery.
        """
        assert self._process is not None
        deadline = time.monotonic() + limit_s
        while not children.is_asleep(self._process) and time.monotonic() < deadline:
            time.sleep(0.005)

    def _failure(self, event: str) -> str:
        lines = [line for line in self._messages.decode(errors="replace").splitlines() if line.strip()]
        if self._process is not None and self._process.stderr is not None and not self._process.stderr.closed:
            lines += self._process.stderr.read().decode(errors="replace").splitlines()
        errors = [
            line for line in lines if not line.startswith("tcpdump: listening") and "packet" not in line
        ]
        reason = "; ".join(line.removeprefix("tcpdump: ") for line in errors[-2:]) or "it gave no reason"
        return f"tcpdump {event} on {self.record.interface}: {reason}"


def _free_bytes(folder: Path) -> int:
    disk = os.statvfs(folder)
    return (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize


def default_interface() -> str:
    """Return the interface of the default route (IPv4, else IPv6). Raise UsageError if there is no route."""
    with Path("/proc/net/route").open() as table:
        for line in table:
            fields = line.split()
            if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
                return fields[0]
    with Path("/proc/net/ipv6_route").open() as table:
        for line in table:
            fields = line.split()
            if fields[0] == "0" * 32 and fields[1] == "00" and fields[-1] != "lo":
                return fields[-1]
    raise UsageError(
        "there is no default route that selects the interface to capture on: set [[vantage]] interface"
    )
