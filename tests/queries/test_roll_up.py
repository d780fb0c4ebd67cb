"""The roll-ups equal the query over the raw rows, also for rows loaded twice, replaced or partly loaded."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schemas import records
from store import open_store
from store.load import loader
from tests.queries.conftest import iack
from tests.store.rows import DAY_NS, RUN, probe, write

OUTCOMES = records.load("quic_probe").column("outcome").values

COUNTED = "coalesce(ack_us >= 0 AND sh_us >= 0 AND first_ack_range = 0, false)"
SIZED = "outcome = 'iack' AND NOT retried AND bytes_sent > 0 AND ack_datagram_bytes IS NOT NULL"
# Straight from the definitions, over the rows themselves.
BY_DAY = f"""
SELECT run, vantage, repetition, toDate(ifNull(sent_at, toDateTime('2026-11-20 06:00:00', 'UTC'))) AS d, cdn,
    if(position(ip, ':') > 0, 6, 4) AS family, coalesce(address_rank, 1) = 0 AS first_address,
    count() AS probes, countIf(attempts > 0) AS sent,
    {", ".join(f"countIf(outcome = '{o}') AS {o}" for o in OUTCOMES)},
    countIf({COUNTED}) AS counted, countIf({COUNTED} AND outcome != 'coalesced') AS instant,
    length(groupUniqArray(domain)) AS names,
    min(sent_at) AS first_at, max(sent_at) AS last_at,
    min(if(outcome = 'iack', sent_at, NULL)) AS first_iack_at,
    countIf(outcome = 'iack' AND attempts = 1) AS iack_delays,
    countIf(outcome = 'iack' AND attempts = 1 AND ack_to_sh_us >= 3 * ack_us) AS spurious,
    countIf(amplification IS NOT NULL) AS amplified,
    countIf(bytes_received > 3 * bytes_sent AND amplification IS NOT NULL) AS amplified_above_3,
    max(amplification) AS amplification_max,
    countIf({SIZED}) AS sized_iack, countIf({SIZED} AND ack_datagram_bytes >= 1200) AS padded_iack,
    sumIf(ifNull(ack_datagram_bytes, 0), {SIZED}) AS iack_ack_bytes,
    sumIf(3 * bytes_sent, {SIZED}) AS iack_budget_bytes,
    quantilesDDIf(0.005, 0.1, 0.5, 0.99)(ack_us, attempts = 1) AS ack,
    quantilesDDIf(0.005, 0.1, 0.5, 0.99)(ack_to_sh_us, attempts = 1 AND outcome = 'iack') AS delta,
    quantilesDDIf(0.005, 0.1, 0.5, 0.99)(sh_to_handshake_us, attempts = 1) AS handshake,
    quantilesDDIf(0.005, 0.1, 0.5, 0.99)(ack_delay_us, attempts = 1) AS delay
FROM quic_probe GROUP BY ALL ORDER BY ALL"""
_MERGE = "quantilesDDMerge(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)"
SKETCHES = {
    "ack": "ack_us",
    "delta": "iack_to_sh_us",
    "handshake": "sh_to_handshake_us",
    "delay": "ack_delay_us",
}
MERGED = [f"[({_MERGE}({c}) AS q_{n})[1], q_{n}[3], q_{n}[6]] AS {n}" for n, c in SKETCHES.items()]
ROLLED_UP = f"""
SELECT run, vantage, repetition, day AS d, cdn, family, first_address, probes, sent, {", ".join(OUTCOMES)},
    counted, instant, names, first_at, last_at, first_iack_at, iack_delays, spurious, amplified,
    amplified_above_3, amplification_max, sized_iack, padded_iack, iack_ack_bytes, iack_budget_bytes,
    {", ".join(MERGED)}
FROM probe_day GROUP BY ALL ORDER BY ALL"""
BY_UNIT = f"""
SELECT run, vantage, repetition, cdn, if(position(ip, ':') > 0, 6, 4) AS family,
    coalesce(address_rank, 1) = 0 AS first_address, min(sent_at) AS first_at,
    length(groupUniqArray(domain)) AS names,
    length(groupUniqArrayIf(domain, outcome IN ('iack', 'coalesced', 'sh_first'))) AS names_answered,
    length(groupUniqArrayIf(domain, {COUNTED})) AS names_counted,
    length(groupUniqArrayIf(domain, {COUNTED} AND outcome != 'coalesced')) AS names_instant
FROM quic_probe GROUP BY ALL ORDER BY ALL"""


def check() -> int:
    """Compare both roll-ups with the raw rows; return how many rows they count."""
    with open_store() as store:
        raw, rolled = store.rows(BY_DAY), store.rows(ROLLED_UP)
        assert rolled == raw
        named = store.rows("SELECT * FROM probe_unit ORDER BY ALL")
        assert named == store.rows(BY_UNIT)
    return sum(row["probes"] for row in rolled)


def mixed(seed: int, count: int, **changes: Any) -> list[dict[str, Any]]:
    """Return probes of every kind: midnight, both families, later addresses, null CDNs, 2nd attempts."""
    rng = random.Random(seed)
    rows = []
    for n in range(count):
        outcome = rng.choice(OUTCOMES)
        columns: dict[str, Any] = {
            "domain": f"{n % (count * 2 // 3)}.example",
            "ip": rng.choice(["198.18.48.1", "2001:db8:48::1"]),
            "port": 443 + n,
            "cdn": rng.choice(["Cloudflare", "Others", None]),
            "address_rank": rng.choice([0, 0, 1, None]),
            **changes,
        }
        if outcome not in ("blocked", "send_failed"):
            columns |= {
                "sent_at": DAY_NS + rng.randrange(36 * 3600) * 10**9,
                "attempts": rng.choice([1, 1, 2]),
            }
            columns |= {
                "retried": rng.random() < 0.1,
                "bytes_received": rng.choice([0, 1_200, 3_756, 3_757, 9_000]),
                "ack_datagram_bytes": rng.choice([None, 60, 1_199, 1_200, 1_472]),
            }
        if outcome == "iack":
            rows.append(
                iack(rng.randrange(1, 50_000), rng.randrange(0, 90_000), **columns, sh_to_handshake_us=n)
            )
        else:
            rows.append(probe(outcome, **columns))
    return rows


def files(folder: Path, seed: int, count: int = 150) -> list[Path]:
    return [
        write(folder / vantage / "quic_probe.parquet", mixed(seed + n, count, vantage=vantage))
        for n, vantage in enumerate(("hamburg", "hong_kong"))
    ]


@pytest.mark.usefixtures("tables")
def test_equal_to_the_raw_rows_after_each_kind_of_load(tmp_path: Path) -> None:
    paths = files(tmp_path, seed=1)
    loader.load_files(paths)
    assert check() == 300
    loader.load_files(paths)
    assert check() == 300
    # The same unit with other, fewer rows; and the other vantage point unchanged.
    write(paths[0], mixed(7, 90, vantage="hamburg"))
    assert [r.action for r in loader.load_files(paths) if isinstance(r, loader.Loaded)] == [
        "replaced",
        "unchanged",
    ]
    assert check() == 240
    # Another repetition in addition.
    loader.load_files([write(tmp_path / "2" / "quic_probe.parquet", mixed(9, 60, repetition=2))])
    assert check() == 300


# Kills the process during a load, at the $1th statement that derives or deletes.
KILLED = """
import os, sys
from pathlib import Path
from store.load import derived, loader
left, statements = int(sys.argv[1]), derived.sql.derived
def counted(*args, **kwargs):
    global left
    for statement in statements(*args, **kwargs):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        yield statement
derived.sql.derived = counted
loader.load_files([Path(path) for path in sys.argv[2:]])
"""


@pytest.mark.usefixtures("tables")
def test_killed_between_rows_and_roll_up_the_next_load_puts_it_right(tmp_path: Path) -> None:
    # Kill before a file's first roll-up, between its two roll-ups, and before the second file's.
    for turn in range(3):
        paths = files(tmp_path, seed=3 + 10 * turn, count=150 - 40 * turn)
        argv = [sys.executable, "-c", KILLED, str(turn), *map(str, paths)]
        assert subprocess.run(argv, check=False).returncode == -9
        results = loader.load_files(paths)
        assert all(isinstance(result, loader.Loaded) for result in results)
        assert check() == 2 * (150 - 40 * turn)


def test_blocked_probes_have_the_day_of_their_run(tmp_path: Path, tables: Path) -> None:
    assert tables.is_dir()
    odd = probe("blocked", run="my run", domain="b.example")
    loader.load_files(
        [
            write(tmp_path / "quic_probe.parquet", [probe("blocked")]),
            write(tmp_path / "o" / "quic_probe.parquet", [odd]),
        ]
    )
    with open_store() as store:
        assert store.rows("SELECT run, day FROM quic_probe ORDER BY day") == [
            {"run": "my run", "day": "1970-01-01"},
            {"run": RUN, "day": "2026-11-20"},
        ]
