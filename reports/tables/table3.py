"""Table 3 of the IMC 2024 paper: ACK delay that servers report in Initial and Handshake packets.

One capture per server, named after it, is one repetition. The first ACK frame of the server in each packet
number space counts (docs/definitions.md, 'From a capture').
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from firstflight.errors import InputError
from firstflight.system import binaries

SUFFIXES = (".pcap", ".pcapng", ".pcap.gz", ".pcapng.gz", ".pcap.zst", ".pcapng.zst")

EXPONENT_ZERO = frozenset({"s2n-quic"})
"""Servers that write ACK Delay in Initial and Handshake packets in microseconds (exponent 0)."""


@dataclass(frozen=True)
class Row:
    """A server; None = no ACK frame in that space, or none that could be opened."""

    server: str
    initial_ack_delay_raw: int | None
    initial_ack_delay_ms: float | None
    handshake_ack_delay_raw: int | None
    handshake_ack_delay_ms: float | None
    handshake_is_open: bool
    """False: packets of the capture could not be opened, so that a missing Handshake ACK says nothing."""
    initial_meant_ms: float | None
    """Delay as the server means it, where that differs from the paper's reading (raw x 8 us)."""

    def as_dict(self) -> dict[str, Any]:
        """Name and value of each column, for JSON lines."""
        return asdict(self)


def collect(folder: Path) -> tuple[list[Row], list[str]]:
    """One row per capture in `folder` that can be read, by name, and a sentence about each of the others.

    InputError if there is none that can be read.
    """
    captures = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIXES))
    if not captures:
        raise InputError(f"there is no capture in {folder}: expected NAME.pcap with NAME.keys beside it")
    rows, said = _dissect(captures)
    # What a capture held before it broke off counts.
    readable = [
        path for path in captures if str(path) in rows or not any(f"{path}: " in line for line in said)
    ]
    if not readable:
        raise InputError("; ".join(said))
    return [_row(_server(path), rows.get(str(path), [])) for path in readable], said


def _dissect(captures: Sequence[Path]) -> tuple[Mapping[str, list[dict[str, Any]]], list[str]]:
    """Rows of quic_connection by capture, and a sentence about each that cannot be read to its end."""
    argv = [str(binaries.find("firstflight-dissect")), "--kind", "quic_connection", *map(str, captures)]
    done = subprocess.run(argv, capture_output=True, check=False)
    said = binaries.unreadable(done.returncode, done.stderr)
    found: dict[str, list[dict[str, Any]]] = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        found.setdefault(row["source_file"], []).append(row)
    return found, said


def _server(path: Path) -> str:
    return path.name.removesuffix(next(s for s in SUFFIXES if path.name.endswith(s)))


def _row(server: str, connections: Sequence[Mapping[str, Any]]) -> Row:
    first: Mapping[str, Any] = min(connections, key=lambda row: row["start_time_ns"], default={})
    raw = first.get("initial_ack_delay_raw")
    return Row(
        server=server,
        initial_ack_delay_raw=raw,
        initial_ack_delay_ms=_ms(first.get("initial_ack_delay_us")),
        handshake_ack_delay_raw=first.get("handshake_ack_delay_raw"),
        handshake_ack_delay_ms=_ms(first.get("handshake_ack_delay_us")),
        handshake_is_open=first.get("undecrypted_packets") == 0,
        initial_meant_ms=_ms(raw) if server in EXPONENT_ZERO else None,
    )


def _ms(us: int | None) -> float | None:
    return None if us is None else us / 1000
