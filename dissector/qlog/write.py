"""Writes the connections of captures as qlog files."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from dissector.qlog import trace
from firstflight.errors import UsageError
from firstflight.system import binaries, children, files

KINDS = ("quic_connection", "quic_packet")
# Maximum number of files that are open at the same time.
_MOST_OPEN = 256
# Identifies a connection: its capture, addresses and ports, and the first packet's connection IDs.
_KEY = ("source_file", "client_ip", "client_port", "server_ip", "server_port", "odcid", "client_scid")


def write(captures: Sequence[Path], keys: Sequence[Path], out: Path) -> tuple[list[Path], list[str]]:
    """Write a file for each QUIC connection to the folder `out`, which is created if it is missing.

    Returns the paths in the order of the connections, and a message for each capture that could not be
    completely read. UsageError if a file exists already; FirstflightError if the dissector fails.
    """
    with files.explain_os_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out, prefix="native.") as name:
            folder = Path(name)
            damaged = _dissect(captures, keys, folder)
            return _write(folder, out), damaged


def _dissect(captures: Sequence[Path], keys: Sequence[Path], folder: Path) -> list[str]:
    argv = [str(binaries.find("firstflight-dissect")), *map(str, captures)]
    argv += [word for path in keys for word in ("--keys", str(path))]
    argv += ["--kind", ",".join(KINDS), "--out", str(folder)]
    process = children.start(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, stderr = children.wait_for_exit(process)
    return binaries.unreadable(process.returncode, stderr, folder / f"{KINDS[0]}.jsonl")


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[column] for column in _KEY)


def _write(folder: Path, out: Path) -> list[Path]:
    """Write a file for each connection. `folder` holds the rows, with the packets of all connections mixed.

    First sorts the packets into a file per connection, so that few packets are in memory.
    """
    connections = list(_rows(folder / "quic_connection.jsonl"))
    paths = _paths(out, connections)
    numbers = {_key(row): number for number, row in enumerate(connections)}
    packet_folder = folder / "packets"
    packet_folder.mkdir()
    opened: dict[int, TextIO] = {}
    try:
        for packet in _rows(folder / "quic_packet.jsonl"):
            number = numbers.get(_key(packet))
            if number is None:
                continue
            if number not in opened:
                if len(opened) >= _MOST_OPEN:
                    opened.pop(next(iter(opened))).close()
                opened[number] = (packet_folder / str(number)).open("a", encoding="utf-8")
            opened[number].write(json.dumps(packet) + "\n")
    finally:
        for file in opened.values():
            file.close()
    return [
        _write_one(row, packet_folder / str(number), path)
        for number, (row, path) in enumerate(zip(connections, paths, strict=True))
    ]


def _paths(out: Path, connections: Sequence[trace.ConnectionRow]) -> list[Path]:
    """Return a path for each connection. If several have the same name, the second gets the suffix `-2`, etc.

    UsageError if a path exists already, before any file is written.
    """
    paths = []
    counts: Counter[str] = Counter()
    for connection in connections:
        path = out / trace.file_name(connection)
        counts[path.name] += 1
        if (count := counts[path.name]) > 1:
            path = path.with_stem(f"{path.stem}-{count}")
        if path.exists():
            raise UsageError(f"{path} exists already: choose another folder with --out, or remove the file")
        paths.append(path)
    return paths


def _write_one(connection: trace.ConnectionRow, packets: Path, path: Path) -> Path:
    rows = _rows(packets) if packets.is_file() else iter(())
    with files.replacing(path) as part, part.open("w", encoding="utf-8") as file:
        file.writelines(trace.records(connection, rows))
    return path
