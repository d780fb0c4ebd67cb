"""Captures in a folder: their names, their whole packets, and their entries in `capture.json`.

A capture is written as NAME.part, which its tcpdump has locked, and renamed when tcpdump has closed it; a
resumed run has several.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError, InputError
from firstflight.system import files, lock, path_names

MAX_SNAPLEN = 262_144
# Seconds to wait for the tcpdump of a killed process, which stops immediately unless it hangs.
_HANG_S = 60.0
# Bytes to read at once, because a capture can be larger than memory.
_BLOCK_BYTES = 1 << 20
# The length of a packet in a pcap file, 8 bytes into its header.
_LENGTH = struct.Struct("=I").unpack_from


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
    # Bytes that the file may have, and packets that it lacks because of that; null = no limit, or unknown.
    max_bytes: int | None = None
    cut: int | None = None
    # Packets that the dissect stage cut after their headers; null = the capture was not trimmed.
    trimmed: int | None = None
    # Packets without their padding, which `firstflight dissect --restore` puts back; null likewise.
    unpadded: int | None = None
    # Packets that were removed because they belong to no connection; null likewise.
    removed: int | None = None


def next_path(folder: Path, name: str = "probe") -> Path:
    """Return the next free name of a capture in a folder: NAME.pcap, then NAME-2.pcap, ...

    First gives a `.part` that a killed process left its final name (`keep_parts`).
    """
    keep_parts(folder, name)
    number = 1
    while (path := folder / (f"{name}.pcap" if number == 1 else f"{name}-{number}.pcap")).exists():
        number += 1
    return path


def keep_parts(folder: Path, name: str = "probe") -> None:
    """Rename each `.part` that a killed process left to its final name, without its last partial packet.

    `name`: of which capture; `*`: of all in the folder.
    Waits for its tcpdump to end; FirstflightError if it does not.
    """
    deadline = time.monotonic() + _HANG_S
    for part in {*folder.glob(f"{name}.pcap.part"), *folder.glob(f"{name}-[0-9]*.pcap.part")}:
        if not lock.wait_until_free(part, deadline - time.monotonic()):
            raise FirstflightError(
                f"the tcpdump of a killed stage still writes {part}: stop it, then try again"
            )
        with files.explain_os_errors(part):
            keep_whole_packets(part)
            part.replace(part.with_suffix(""))


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


def losses(folder: Path) -> list[str]:
    """Return warnings about packets that are missing from a folder's captures, also of earlier starts."""
    return [warning for record in records(folder) for warning in losses_of(record)]


def losses_of(record: CaptureRecord) -> list[str]:
    """Return warnings about packets that are missing from one capture; empty if none is."""
    dropped = (record.dropped_by_kernel or 0) + (record.dropped_by_interface or 0)
    if record.captured is None:
        return [f"tcpdump gave no statistics for {record.file}: losses unknown"]
    found = []
    if record.cut:
        found.append(
            f"{record.file} lacks its last {record.cut} packets: it reached its limit of {record.max_bytes} "
            "bytes, perhaps because strangers sent packets"
        )
    if dropped:
        found.append(f"the kernel dropped {dropped} packets of {record.file}: raise capture.buffer_kib")
    return found


def set_trimmed(path: Path, packets: int, unpadded: int, removed: int) -> None:
    """Write into capture.json how many packets of the capture at `path` were trimmed, unpadded, removed."""
    found = records(path.parent)
    for record in found:
        if record.file == path.name:
            record.trimmed, record.unpadded, record.removed = packets, unpadded, removed
    _write_records(path.parent, found)


def keep_whole_packets(path: Path) -> int:
    """Truncate a pcap file (native byte order) after its last whole packet; return the number of packets."""
    size = path.stat().st_size
    if size < 24:
        return 0
    packets, end, whole = 0, 24, True
    with path.open("r+b", buffering=0) as file:
        while whole and end + 16 <= size:
            file.seek(end)
            block, at = file.read(_BLOCK_BYTES), 0
            while at + 16 <= len(block):
                (length,) = _LENGTH(block, at + 8)
                whole = length <= MAX_SNAPLEN and end + at + 16 + length <= size
                if not whole:
                    break
                packets += 1
                at += 16 + length
            end += at
        if end < size:
            file.truncate(end)
    return packets


def add_record(folder: Path, record: CaptureRecord) -> None:
    """Write a capture's entry to capture.json; replace an earlier entry for the same file."""
    kept = [entry for entry in records(folder) if entry.file != record.file]
    _write_records(folder, [*kept, record])


def _write_records(folder: Path, found: Sequence[CaptureRecord]) -> None:
    value: dict[str, Any] = {"captures": [asdict(entry) for entry in found]}
    files.write_json(folder / "capture.json", value)
