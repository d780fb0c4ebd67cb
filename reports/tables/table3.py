"""Table 3 of the IMC 2024 paper: the ACK Delay that servers report in Initial and Handshake packets.

Each capture is named after a server and is one repetition. In each packet number space, only the server's
first ACK frame counts (docs/definitions.md, 'From a capture').
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
from reports import published_values

SUFFIXES = (".pcap", ".pcapng", ".pcap.gz", ".pcapng.gz", ".pcap.zst", ".pcapng.zst")

PUBLISHED = tuple(f"{space}_ms_{number}" for space in ("initial", "handshake") for number in (1, 2, 3))
"""Columns of the paper's Table 3 (reports/published/imc2024.csv), one for each repetition."""

EXPONENT_ZERO = frozenset({"s2n-quic"})
"""Servers that write ACK Delay in Initial and Handshake packets in microseconds (exponent 0)."""


@dataclass(frozen=True)
class Table3Row:
    """A server. `None`: no ACK frame in that space, or only in packets that could not be decrypted."""

    server: str
    initial_ack_delay_raw: int | None
    initial_ack_delay_ms: float | None
    handshake_ack_delay_raw: int | None
    handshake_ack_delay_ms: float | None
    handshake_is_open: bool
    """False: packets could not be decrypted, so a missing Handshake ACK has no meaning."""
    initial_meant_ms: float | None
    """The server's intended delay, where it differs from the paper's reading (raw x 8 us)."""

    def as_dict(self) -> dict[str, Any]:
        """Return name and value of each column, for JSON lines, and published_* unless they are hidden."""
        row = asdict(self)
        for name in PUBLISHED if published_values.are_shown() else ():
            row[f"published_{name}"] = published_values.imc2024("table3", name).get(self.server)
        return row


def collect(folder: Path) -> tuple[list[Table3Row], list[str]]:
    """Return one row per readable capture in `folder`, sorted by server, and one message per other capture.

    InputError if no capture is readable.
    """
    captures = sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIXES))
    if not captures:
        raise InputError(f"there is no capture in {folder}: expected NAME.pcap with NAME.keys next to it")
    rows, faults = _dissect(captures)
    # A truncated capture counts if it has rows.
    readable = [
        path for path in captures if str(path) in rows or not any(f"{path}: " in line for line in faults)
    ]
    if not readable:
        raise InputError("; ".join(faults))
    return [_row(_server(path), rows.get(str(path), [])) for path in readable], faults


def _dissect(captures: Sequence[Path]) -> tuple[Mapping[str, list[dict[str, Any]]], list[str]]:
    """Return rows of quic_connection by capture, and one message per capture that is partly unreadable."""
    argv = [str(binaries.find("firstflight-dissect")), "--kind", "quic_connection", *map(str, captures)]
    done = subprocess.run(argv, capture_output=True, check=False)
    faults = binaries.unreadable(done.returncode, done.stderr)
    rows_of_servers: dict[str, list[dict[str, Any]]] = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        rows_of_servers.setdefault(row["source_file"], []).append(row)
    return rows_of_servers, faults


def _server(path: Path) -> str:
    return path.name.removesuffix(next(s for s in SUFFIXES if path.name.endswith(s)))


def _row(server: str, connections: Sequence[Mapping[str, Any]]) -> Table3Row:
    first: Mapping[str, Any] = min(connections, key=lambda row: row["start_time_ns"], default={})
    raw = first.get("initial_ack_delay_raw")
    return Table3Row(
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
