"""Captures packets beside the probe: starts tcpdump, waits until it captures, monitors and stops it.

Time stamps have nanosecond resolution. A capture is written as NAME.part and renamed when tcpdump has closed
it. Each capture has an entry in its folder's `capture.json`; a resumed run has several captures.
"""

from __future__ import annotations

import mmap
import os
import re
import selectors
import struct
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firstflight.errors import FirstflightError, InputError, OutputError, UsageError
from firstflight.system import children, files, path_names

# With less free disk space than this, the capture and the probe are stopped.
LEAST_FREE_BYTES = 65_536
MAX_SNAPLEN = 262_144
_LISTENING = re.compile(rb"listening on ")
_STATISTICS = {
    "captured": re.compile(r"(\d+) packets? captured"),
    "received_by_filter": re.compile(r"(\d+) packets? received by filter"),
    "dropped_by_kernel": re.compile(r"(\d+) packets? dropped by kernel"),
    "dropped_by_interface": re.compile(r"(\d+) packets? dropped by interface"),
}


@dataclass
class CaptureRecord:
    """One entry of capture.json. Counts are tcpdump's; null = not reported (tcpdump was killed)."""

    file: str
    interface: str
    filter: str
    snaplen: int
    started_ns: int  # UTC; every packet sent after this is in the capture
    ended_ns: int | None = None
    captured: int | None = None
    received_by_filter: int | None = None
    dropped_by_kernel: int | None = None
    dropped_by_interface: int | None = None
    # Packets that the dissect stage cut behind their headers; null = the capture was not trimmed.
    trimmed: int | None = None
    # Packets without their padding, which `firstflight dissect --restore` puts back; null likewise.
    unpadded: int | None = None


class Capture:
    """Context manager around one tcpdump.

    Entering returns when tcpdump is capturing; leaving waits until the kernel has delivered the last packets,
    stops tcpdump and writes `capture.json`. `check` verifies that it still runs. `prefix`: the command that
    runs tcpdump where the packets are, if they are not here.
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
        prefix: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.drain_s = drain_s
        self.record = CaptureRecord(path.name, interface, bpf, snaplen, started_ns=0)
        self._part = part_of(path)
        self._argv = [
            *prefix,
            "tcpdump",
            "-i",
            interface,
            "-n",  # no names: a resolver would add traffic
            "-p",  # does not change the interface's promiscuous mode
            "-U",  # writes each packet to the file at once
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
        self._process = children.start(self._argv, own_session=True, stderr=subprocess.PIPE)
        try:
            self._wait_until_listening(10.0)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self.record.started_ns = time.time_ns()
        _add_record(self.path.parent, self.record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            # The kernel delivers packets when a block of its ring is full, or after a second (tcpdump's read
            # timeout, retire_blk_tov): a capture stopped before loses the packets in the open block.
            time.sleep(self.drain_s)
        status = children.stop(self._process)
        self.record.ended_ns = time.time_ns()
        assert self._process.stderr is not None
        self._messages += self._process.stderr.read()
        self._process.stderr.close()
        text = self._messages.decode(errors="replace")
        for name, pattern in _STATISTICS.items():
            found = pattern.search(text)
            setattr(self.record, name, int(found[1]) if found else None)
        with files.explain_os_errors(self.path):
            whole = keep_whole_packets(self._part)
            self._part.replace(self.path)
        _add_record(self.path.parent, self.record)
        if error is None and status != 0:
            raise FirstflightError(self._failure("ended badly"))
        # tcpdump does not notice when its file cannot be written.
        if error is None and self.record.captured is not None and whole < self.record.captured:
            raise OutputError(
                f"{self.path} holds {whole} of {self.record.captured} captured packets: is the disk full?"
            )

    def check(self) -> None:
        """Raise FirstflightError if tcpdump has ended (interface removed), OutputError if its disk fills."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise FirstflightError(self._failure("ended while the probe ran"))
        disk = os.statvfs(self.path.parent)
        free = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize
        if free < LEAST_FREE_BYTES:
            raise OutputError(
                f"the disk that holds {self.path} is full; what was written is kept: "
                "free space, then --resume"
            )

    def losses(self) -> list[str]:
        """Return warnings about packets that are missing from the capture; empty if none is."""
        record = self.record
        dropped = (record.dropped_by_kernel or 0) + (record.dropped_by_interface or 0)
        if record.captured is None:
            return [f"tcpdump gave no statistics for {self.path.name}: losses unknown"]
        if dropped:
            return [f"the kernel dropped {dropped} packets of {self.path.name}: raise capture.buffer_kib"]
        return []

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
        while not (self._part.is_file() and self._part.stat().st_size >= 24):
            if time.monotonic() > deadline:
                raise FirstflightError(f"tcpdump listens but writes no file {self._part}")
            time.sleep(0.005)

    def _failure(self, what: str) -> str:
        lines = [line for line in self._messages.decode(errors="replace").splitlines() if line.strip()]
        if self._process is not None and self._process.stderr is not None and not self._process.stderr.closed:
            lines += self._process.stderr.read().decode(errors="replace").splitlines()
        errors = [
            line for line in lines if not line.startswith("tcpdump: listening") and "packet" not in line
        ]
        reason = "; ".join(line.removeprefix("tcpdump: ") for line in errors[-2:]) or "it gave no reason"
        return f"tcpdump {what} on {self.record.interface}: {reason}"


def next_path(folder: Path, name: str = "probe") -> Path:
    """Return the next free name of a capture in a folder: NAME.pcap, then NAME-2.pcap, ...

    First renames a `.part` that a killed process left to its final name, without its last partial packet.
    """
    for part in (*folder.glob(f"{name}.pcap.part"), *folder.glob(f"{name}-[0-9]*.pcap.part")):
        keep_whole_packets(part)
        part.replace(part.with_suffix(""))
    number = 1
    while (path := folder / (f"{name}.pcap" if number == 1 else f"{name}-{number}.pcap")).exists():
        number += 1
    return path


def part_of(path: Path) -> Path:
    """Return the path of a capture while it is written; it stays there when its writer is killed."""
    return path.with_name(path.name + ".part")


def records(folder: Path) -> list[CaptureRecord]:
    """Read the entries of a folder's capture.json, oldest first; InputError if it is broken.

    Their `file` is a plain name: a capture is in that folder.
    """
    path = folder / "capture.json"
    if not path.is_file():
        return []
    try:
        found = [CaptureRecord(**entry) for entry in files.read_json(path)["captures"]]
        for record in found:
            path_names.component(record.file)
    except (AttributeError, KeyError, TypeError, path_names.UnsafeName) as error:
        raise InputError(f"{path} is not a list of captures ({error}): restore the file") from error
    return found


def set_trimmed(path: Path, packets: int, unpadded: int) -> None:
    """Write into capture.json how many packets of the capture at `path` were trimmed, how many unpadded."""
    found = records(path.parent)
    for record in found:
        if record.file == path.name:
            record.trimmed, record.unpadded = packets, unpadded
    _write_records(path.parent, found)


def keep_whole_packets(path: Path) -> int:
    """Truncate a pcap file (native byte order) after its last whole packet; return the number of packets."""
    size = path.stat().st_size
    if size < 24:
        return 0
    packets, end = 0, 24
    with path.open("r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            while end + 16 <= size:
                (length,) = struct.unpack_from("=I", content, end + 8)
                if length > MAX_SNAPLEN or end + 16 + length > size:
                    break
                packets += 1
                end += 16 + length
        if end < size:
            file.truncate(end)
    return packets


def default_interface() -> str:
    """Return the interface of the default route (IPv4, else IPv6); UsageError if there is none."""
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


def _add_record(folder: Path, record: CaptureRecord) -> None:
    kept = [entry for entry in records(folder) if entry.file != record.file]
    _write_records(folder, [*kept, record])


def _write_records(folder: Path, found: Sequence[CaptureRecord]) -> None:
    value: dict[str, Any] = {"captures": [asdict(entry) for entry in found]}
    files.write_json(folder / "capture.json", value)
