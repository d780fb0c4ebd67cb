"""A capture beside the probe: tcpdump started, seen to be capturing, watched, stopped, its losses read.

The capture is taken in nanoseconds. It is written as NAME.part and renamed when tcpdump has closed it, and
each one has an entry in `capture.json` of its folder, so that a run that was cut and resumed has several.
"""

from __future__ import annotations

import mmap
import os
import re
import selectors
import struct
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.system import children, files, path_names

# A capture is stopped, and the probe with it, before the disk cannot take another moment of it.
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
    """One entry of capture.json. Counts are tcpdump's own; null = it did not say (it was killed)."""

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


class Capture:
    """Context manager around one tcpdump.

    Entering returns when tcpdump is capturing; leaving waits until the kernel has handed over the last
    packets, stops it and writes `capture.json`. `check` says whether it still runs.
    """

    def __init__(
        self, path: Path, interface: str, bpf: str, *, snaplen: int, buffer_kib: int, drain_s: float
    ) -> None:
        self.path = path
        self.drain_s = drain_s
        self.record = CaptureRecord(path.name, interface, bpf, snaplen, started_ns=0)
        self._part = part_of(path)
        self._argv = [
            "tcpdump",
            "-i",
            interface,
            "-n",  # no names: a resolver would add traffic
            "-p",  # leaves the interface's promiscuous mode alone
            "-U",  # what has been captured is in the file, whatever happens next
            "--time-stamp-precision=nano",
            "-s",
            str(snaplen),
            "-B",
            str(buffer_kib),
            # Debian's tcpdump gives up root for a user that cannot write here; others keep what they are.
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
            # The kernel hands packets over when a block of its ring is full, or after a second (tcpdump's
            # read timeout, retire_blk_tov): a capture stopped before loses what is in the open block.
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
            raise FirstflightError(
                f"{self.path} holds {whole} of {self.record.captured} captured packets: is the disk full?"
            )

    def check(self) -> None:
        """FirstflightError if tcpdump is no longer running (interface gone) or its disk is full."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise FirstflightError(self._failure("ended while the probe ran"))
        disk = os.statvfs(self.path.parent)
        free = (disk.f_bfree if os.geteuid() == 0 else disk.f_bavail) * disk.f_frsize
        if free < LEAST_FREE_BYTES:
            raise FirstflightError(
                f"the disk that holds {self.path} is full; what was written is kept: "
                "free space, then --resume"
            )

    def losses(self) -> list[str]:
        """Sentences about packets that are missing from the capture; empty if none is, for `warnings`."""
        record = self.record
        dropped = (record.dropped_by_kernel or 0) + (record.dropped_by_interface or 0)
        if record.captured is None:
            return [f"tcpdump gave no statistics for {self.path.name}: losses unknown"]
        if dropped:
            return [f"the kernel dropped {dropped} packets of {self.path.name}: raise capture.buffer_kib"]
        return []

    def _wait_until_listening(self, limit_s: float) -> None:
        """Wait for tcpdump's own line (printed after socket and filter stand) and the file's header."""
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
        reason = "; ".join(line.removeprefix("tcpdump: ") for line in errors[-2:]) or "it said nothing"
        return f"tcpdump {what} on {self.record.interface}: {reason}"


def next_path(folder: Path) -> Path:
    """The next free capture name in a folder: probe.pcap, then probe-2.pcap, ...

    A capture left as `.part` by a process that was killed is kept under its final name first, without the
    packet that was being written.
    """
    for part in folder.glob("*.pcap.part"):
        keep_whole_packets(part)
        part.replace(part.with_suffix(""))
    number = 1
    while (path := folder / ("probe.pcap" if number == 1 else f"probe-{number}.pcap")).exists():
        number += 1
    return path


def part_of(path: Path) -> Path:
    """Where a capture stands while it is written, and stays when its writer is killed."""
    return path.with_name(path.name + ".part")


def records(folder: Path) -> list[CaptureRecord]:
    """The entries of a folder's capture.json, oldest first; InputError if it is broken.

    Their `file` is a plain name: a capture lies in its folder.
    """
    path = folder / "capture.json"
    if not path.is_file():
        return []
    try:
        found = [CaptureRecord(**entry) for entry in files.read_json(path)["captures"]]
        for record in found:
            path_names.component(record.file)
    except (AttributeError, KeyError, TypeError, path_names.UnsafeName) as error:
        raise InputError(f"{path} is no list of captures ({error}): put the right one back") from error
    return found


def keep_whole_packets(path: Path) -> int:
    """Cut a pcap file (native byte order, as tcpdump writes it) behind its last whole packet; count those."""
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
    """The interface of the default route (IPv4, else IPv6); UsageError if there is none."""
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
        "there is no default route to tell the interface to capture on: set [[vantage]] interface"
    )


def _add_record(folder: Path, record: CaptureRecord) -> None:
    kept = [entry for entry in records(folder) if entry.file != record.file]
    value: dict[str, Any] = {"captures": [asdict(entry) for entry in [*kept, record]]}
    files.write_json(folder / "capture.json", value)
