"""Measure the reader of routing tables: `python -m bench routing_table`.

Makes a table dump (RFC 6396) of artificial IPv4 prefixes with ten routes each, with paths of two to six ASes,
and compresses it with bzip2 and gzip. `firstflight-rib` reads each of the three files, in turn with
`bzip2 -dc`, which only decompresses. CPU time is the time (user + system) that the kernel charges each
process. The goal is for a day's table of 1.2 million prefixes; the limit is its share for the measured number
of prefixes.
"""

from __future__ import annotations

import argparse
import random
import statistics
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import process, results
from bench.campaigns.campaign_world import table_record
from firstflight.system import binaries

RESULT = "routing-table"
PREFIXES, ROUTES, ROUNDS = 300_000, 10, 3
# CPU seconds for a day's table from RouteViews, which is compressed with bzip2.
DAY_PREFIXES, DAY_GOAL_S = 1_200_000, 25.0
_SEED = 1


def main() -> int:
    """Measure and print; return 1 if the goal is missed."""
    parser = argparse.ArgumentParser(prog="bench routing_table")
    parser.add_argument("--prefixes", type=int, default=PREFIXES)
    results.add_option(parser)
    options = parser.parse_args()
    file = results.begin(parser, options.result, RESULT)
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as name:
        folder = Path(name)
        plain = folder / "rib.mrt"
        with plain.open("wb") as table:
            table.writelines(records(options.prefixes))
        process.run(["bzip2", "--keep", plain])
        process.run(["gzip", "--keep", plain])
        packed, gzipped = folder / "rib.mrt.bz2", folder / "rib.mrt.gz"
        rib = str(binaries.find("firstflight-rib"))
        commands: dict[str, list[str | Path]] = {
            "bzip2": [rib, packed, "--out", folder / "out"],
            "gzip": [rib, gzipped, "--out", folder / "out"],
            "not compressed": [rib, plain, "--out", folder / "out"],
            "`bzip2 -dc`": ["bzip2", "-dc", packed],
        }
        used = {
            what: [process.run(argv, quiet=True) for _ in range(ROUNDS)] for what, argv in commands.items()
        }
        megabytes = packed.stat().st_size / 1e6
    limit = DAY_GOAL_S * options.prefixes / DAY_PREFIXES
    values, goals_met = results.Values(), []
    print(
        f"{options.prefixes:,} prefixes with {ROUTES} routes, {megabytes:.1f} MB as bzip2; {process.load()}"
    )
    for what, rounds in used.items():
        cpu_s = [each.cpu_s for each in rounds]
        most = limit if what == "bzip2" else None
        text = f"{options.prefixes:,} prefixes with {ROUTES} routes, {what}"
        goals_met.append(values.add(text, statistics.median(cpu_s), "CPU s", most=most, of=cpu_s))
        peak_mb = max(each.peak_mb for each in rounds)
        print(f"  {what}: {statistics.median(cpu_s):.2f} CPU s, {peak_mb:.0f} MB")
        if what == "bzip2":
            values.add("resident memory, bzip2", peak_mb, "MB")
    print(f"  limit {limit:.2f} CPU s for bzip2")
    file.write(values.lines, results.packages())
    return int(not all(goals_met))


def records(prefixes: int) -> Iterator[bytes]:
    """Yield the records of the table; every call yields the same."""
    draw = random.Random(_SEED)
    peers = b"".join(
        struct.pack("!B4s4sI", 2, bytes(4), bytes([192, 0, 2, n]), 64496 + n) for n in range(ROUTES)
    )
    yield table_record(1, struct.pack("!4sHH", bytes(4), 0, ROUTES) + peers)
    for number in range(prefixes):
        origin = draw.randrange(1, 60_000)
        entries = []
        for peer in range(ROUTES):
            path = [64496 + peer, *(draw.randrange(1, 60_000) for _ in range(draw.randrange(5))), origin]
            words = struct.pack(f"!BB{len(path)}I", 2, len(path), *path)
            attributes = b"\x40\x01\x01\x00" + struct.pack("!BBB", 0x40, 2, len(words)) + words
            age = draw.randrange(1 << 20)
            entries.append(struct.pack("!HIH", peer, 1_722_988_800 - age, len(attributes)) + attributes)
        head = struct.pack("!IB", number, 24) + ((20 << 16) + number).to_bytes(3) + struct.pack("!H", ROUTES)
        yield table_record(2, head + b"".join(entries))


if __name__ == "__main__":
    sys.exit(main())
