"""Finds the packets for a row of quic_probe in the capture, decrypted by the dissector."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dissector import connections
from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.run.run import Run
from firstflight.settings import Settings
from firstflight.shard import WHOLE, all_of
from firstflight.system import binaries, path_names
from firstflight.system.terminal import visible
from schemas import records

ProbeRow = dict[str, Any]
"""A row of quic_probe or watch_probe."""
PacketRow = dict[str, Any]
"""A row of quic_packet."""

# The columns of a row to print besides its outcome; null ones are omitted.
SHOWN = (
    "ack_us",
    "sh_us",
    "ack_to_sh_us",
    "sh_to_handshake_us",
    "retry_us",
    "ack_delay_us",
    "ack_datagram_bytes",
    "attempts",
    "discarded",
    "after_close",
    "close_code",
    "icmp_type",
    "icmp_code",
    "detail",
)


@dataclass(frozen=True)
class Trace:
    """A row, its record file, and its packets in the order of the capture."""

    row: ProbeRow
    record_file: Path
    capture: Path | None
    packets: list[PacketRow]

    def origin_ns(self) -> int | None:
        """Return the capture time of the Initial that the row's times refer to: the nearest to sent_at."""
        times = [packet["time_ns"] for packet in self.packets if packet["from_client"]]
        sent_at = self.row["sent_at"]
        if not times or sent_at is None:
            return None
        return int(min(times, key=lambda time_ns: abs(time_ns - sent_at)))


def trace(
    run: Run, vantage: str, domain: str, ip: str, repetition: int | None = None, slot: int | None = None
) -> list[Trace]:
    """Return rows of `domain` at `ip` from `vantage` with their packets.

    By default of all repetitions and slots. UsageError if there is no such row; InputError if a record file
    or capture cannot be read.
    """
    declared = run.settings.vantage_named(vantage)
    repetitions = [repetition] if repetition is not None else range(1, int(run.manifest["repetitions"]) + 1)
    traces = []
    for number in repetitions:
        for shard in sorted({WHOLE, *all_of(declared.shards)}):
            key = run.key(vantage, number, shard)
            for path in filter(Path.is_file, (run.layout.quic_probe(key), run.layout.watch_probe(key))):
                rows = [row for row in _rows(path, domain, ip) if slot is None or row["slot"] == slot]
                traces += [_with_packets(run, row, path) for row in rows]
    if not traces:
        scope = f"repetition {repetition}" if repetition is not None else "any repetition"
        raise UsageError(f"run {run.id} has no probe of {domain} at {ip} from {vantage} in {scope}")
    return traces


def _rows(path: Path, domain: str, ip: str) -> Iterator[ProbeRow]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        table = records.with_numbers(pq.ParquetFile(path).read())
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    for row in table.filter(pc.equal(table["domain"], domain.lower().rstrip("."))).to_pylist():
        if _same_address(row["ip"], ip):
            yield row


def _same_address(first: str, second: str) -> bool:
    try:
        return ipaddress.ip_address(first) == ipaddress.ip_address(second)
    except ValueError as error:
        raise UsageError(f"{second} is not an address") from error


def _with_packets(run: Run, row: ProbeRow, record_file: Path) -> Trace:
    if row["capture_file"] is None or row["client_cid"] is None:
        return Trace(row, record_file, None, [])
    # capture_file is RUN/...; the run's folder may have been moved or renamed.
    capture = path_names.inside(run.path, row["capture_file"].partition("/")[2])
    return Trace(row, record_file, capture, packets_of(capture, row["client_cid"], run.settings))


def packets_of(capture: Path, client_cid: str, settings: Settings) -> list[PacketRow]:
    """Return the packets of connections with that client connection ID (hex), oldest first.

    The run's settings limit the connections that the dissector keeps, as they did when the rows were made.
    """
    if not capture.is_file():
        raise InputError(f"the capture {capture} does not exist; the row's packets cannot be shown")
    argv = [
        str(binaries.find("firstflight-dissect")),
        str(capture),
        "--kind",
        "quic_packet",
        "--cid",
        client_cid,
        *(str(word) for option in connections.kept(settings) for word in option),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    # 1 and 3: part of the capture could not be read; the rest is shown.
    if done.returncode not in (0, 1, 3):
        errors = done.stderr.strip().splitlines()
        raise FirstflightError(
            f"the dissector failed on {capture}: {errors[-1] if errors else done.returncode}"
        )
    packets = [json.loads(line) for line in done.stdout.splitlines()]
    return sorted(packets, key=lambda packet: (packet["time_ns"], packet["frame_number"]))


def describe(found: Trace) -> Iterator[str]:
    """Yield lines to print: the row, then one line per packet with its time since the Initial."""
    return map(visible, _lines(found))


def _lines(traced: Trace) -> Iterator[str]:
    row = traced.row
    origin_as = f"AS{row['asn']} {row['cdn']}" if row["asn"] is not None else "no origin AS"
    yield f"{row['domain']} at {row['ip']}, port {row['port']} ({origin_as}): {row['outcome']}"
    yield f"  {row['vantage']}, repetition {row['repetition']}, run {row['run']}"
    yield "  " + ", ".join(f"{name} {row[name]}" for name in SHOWN if row[name] not in (None, ""))
    yield f"  row: {traced.record_file}"
    if traced.capture is None:
        yield "  nothing was sent, so there is no packet" if row["sent_at"] is None else "  no capture ran"
        return
    yield f"  packets: {traced.capture}"
    origin = traced.origin_ns()
    if origin is None:
        yield "  the capture holds no packet of this probe"
        return
    yield f"  {'us':>12}  {'':2}  {'type':<20} {'number':>6} {'bytes':>6} {'datagram':>8}  frames"
    for packet in traced.packets:
        since = (packet["time_ns"] - origin) / 1000
        number = "" if packet["packet_number"] is None else packet["packet_number"]
        yield (
            f"  {since:>12.1f}  {'->' if packet['from_client'] else '<-'}  {packet['type']:<20} {number:>6} "
            f"{packet['size']:>6} {packet['datagram_size']:>8}  {packet['frames'] or 'not decrypted'}"
        )
    if (row["attempts"] or 0) > 1:
        # Each attempt has a separate connection ID; the row has the ID of a single attempt.
        yield f"  of {row['attempts']} attempts, this is the one that was answered, or the last"
