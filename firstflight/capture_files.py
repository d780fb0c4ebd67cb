"""Captures in a folder: their names, their whole packets, and their entries in `capture.json`.

tcpdump writes a capture as NAME.part and holds the lock. When tcpdump has closed it, the file is renamed. A
resumed run has several captures.
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
# Seconds to wait for a killed process's tcpdump. It stops immediately unless it hangs.
_HANG_S = 60.0
# Number of bytes to read at a time, because a capture can be larger than memory.
_BLOCK_BYTES = 1 << 20
# A packet's length in a pcap file, 8 bytes into the header.
_LENGTH = struct.Struct("=I").unpack_from


@dataclass
class CaptureRecord:
    """One entry of capture.json. Counts are from tcpdump; null: not reported (tcpdump was killed)."""

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
    # The size limit of the file, and the packets missing because of it; null: no limit, or unknown.
    max_bytes: int | None = None
    cut: int | None = None
    # Packets that the dissect stage truncated after their headers; null: the capture was not trimmed.
    trimmed: int | None = None
    # Packets without their padding, which `firstflight dissect --restore` adds again; null: not trimmed.
    unpadded: int | None = None
    # Packets removed because they belong to no connection; null: not trimmed.
    removed: int | None = None


def next_path(folder: Path, name: str = "probe") -> Path:
    """Return the next unused name for a capture in a folder: NAME.pcap, then NAME-2.pcap, ...

    First renames the `.part` files of killed processes (`keep_parts`).
    """
    keep_parts(folder, name)
    number = 1
    while (path := folder / (f"{name}.pcap" if number == 1 else f"{name}-{number}.pcap")).exists():
        number += 1
    return path


def keep_parts(folder: Path, name: str = "probe") -> None:
    """Rename each `.part` from a killed process to the final name. Removes a partial last packet.

    `name`: the capture; `*`: all captures in the folder. Waits until the tcpdump has exited. Raise
    FirstflightError if it does not exit.
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
    """Return a capture's path while it is being written. The file stays there if the writer is killed."""
    return path.with_name(path.name + ".part")


def records(folder: Path) -> list[CaptureRecord]:
    """Read the entries in a folder's capture.json, oldest first. Raise InputError if it is invalid.

    `file` is a plain name, because a capture is in the same folder.
    """
    path = folder / "capture.json"
    if not path.is_file():
        return []
    try:
        entries = [CaptureRecord(**entry) for entry in files.read_json(path)["captures"]]
        for record in entries:
            path_names.component(record.file)
    except (AttributeError, KeyError, TypeError, path_names.UnsafeName) as error:
        raise InputError(f"{path} is not a list of captures ({error}): restore the file") from error
    return entries


def losses(folder: Path) -> list[str]:
    """Return warnings about packets that are missing from a folder's captures, including earlier starts."""
    return [warning for record in records(folder) for warning in losses_of(record)]


def losses_of(record: CaptureRecord) -> list[str]:
    """Return warnings about packets that are missing from one capture; empty if the capture is complete."""
    dropped = (record.dropped_by_kernel or 0) + (record.dropped_by_interface or 0)
    if record.captured is None:
        return [f"tcpdump gave no statistics for {record.file}: losses unknown"]
    losses = []
    if record.cut:
        losses.append(
            f"{record.file} lacks its last {record.cut} packets: it reached its limit of {record.max_bytes} "
            "bytes, perhaps because strangers sent packets"
        )
    if dropped:
        losses.append(f"the kernel dropped {dropped} packets of {record.file}: raise capture.buffer_kib")
    return losses


def set_trimmed(path: Path, packets: int, unpadded: int, removed: int) -> None:
    """Write to capture.json how many packets of the capture at `path` were trimmed, unpadded and removed."""
    entries = records(path.parent)
    for record in entries:
        if record.file == path.name:
            record.trimmed, record.unpadded, record.removed = packets, unpadded, removed
    _write_records(path.parent, entries)


def keep_whole_packets(path: Path) -> int:
    """Truncate a pcap file (native byte order) after the last whole packet. Return the number of packets."""
    size = path.stat().st_size
    if size < 24:
        return 0
    packets, end, is_whole = 0, 24, True
    with path.open("r+b", buffering=0) as file:
        while is_whole and end + 16 <= size:
            file.seek(end)
            block, offset = file.read(_BLOCK_BYTES), 0
            while offset + 16 <= len(block):
                (length,) = _LENGTH(block, offset + 8)
                is_whole = length <= MAX_SNAPLEN and end + offset + 16 + length <= size
                if not is_whole:
                    break
                packets += 1
                offset += 16 + length
            end += offset
        if end < size:
            file.truncate(end)
    return packets


def add_record(folder: Path, record: CaptureRecord) -> None:
    """Write a capture's entry to capture.json. Replaces an earlier entry for the same file."""
    others = [entry for entry in records(folder) if entry.file != record.file]
    _write_records(folder, [*others, record])


def _write_records(folder: Path, entries: Sequence[CaptureRecord]) -> None:
    value: dict[str, Any] = {"captures": [asdict(entry) for entry in entries]}
    files.write_json(folder / "capture.json", value)
