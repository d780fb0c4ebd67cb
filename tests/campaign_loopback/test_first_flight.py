"""A campaign that sweeps sizes of Initials and listens for retransmissions: its rows and query results."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from .test_campaign import run_of
from .world import ANSWERING, FIRSTFLIGHT, OPTED_OUT, SILENT, CampaignWorld, addresses

SIZES = (1200, 1400)
LISTEN_S = 2.0
# aioquic's first probe timeout (RFC 9002 6.2.4). No timer of aioquic is shorter.
PTO_US = 200_000
VANTAGE = '[[vantage]]\nname = "east"\ninterface = "lo"\nports = "61000-61031"\n'


@pytest.fixture(scope="module")
def run(world: CampaignWorld) -> Path:
    """A repetition for each size."""
    path = world.settings("first_flight.toml", rate=20, vantages=VANTAGE)
    sets = {
        "probe.initial_sizes": list(SIZES),
        "probe.listen_s": LISTEN_S,
        "probe.per_address_rate": 0,
        "capture.enabled": "false",
    }
    options = [f"--set={key}={value}" for key, value in sets.items()]
    done = world.campaign("--config", str(path), "--repetitions", str(len(SIZES)), *options)
    assert done.returncode == 0, done.stderr
    return run_of(world, done)


def asked(world: CampaignWorld, run: Path, name: str) -> list[dict[str, Any]]:
    """Return the rows from a named query about the run."""
    argv = [*FIRSTFLIGHT, "query", name, "--param", f"run={run.name}", "--format", "JSONEachRow"]
    done = subprocess.run(argv, capture_output=True, text=True, env=world.environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_repetition_has_its_size_and_listens(world: CampaignWorld, run: Path) -> None:
    firsts = []
    for repetition, size in enumerate(SIZES, start=1):
        rows = world.rows(run, "east", repetition)
        assert {row["domain"] for row in rows} == set(addresses())
        for row in map(dict[str, Any], rows):
            if row["domain"] == OPTED_OUT:
                assert (row["outcome"], row["listened_s"]) == ("blocked", None)
                continue
            assert row["initial_size"] == size
            if not row["domain"].startswith("edge"):
                assert (row["outcome"], row["listened_s"], row["retransmissions"]) == ("refused", None, None)
                continue
            assert row["attempts"] == 1 and row["listened_s"] >= LISTEN_S
            times = row["retransmission_us"]
            assert len(times) == row["retransmissions"] and times == sorted(times)
            firsts += times[:1]
    # Times count from the Initial; no timer starts earlier. A busy machine may delay a retransmission.
    assert firsts, "no server sent its first flight again"
    assert min(firsts) >= PTO_US
    # A timer of half that length.
    assert min(firsts) - PTO_US // 2 < PTO_US, firsts


def test_the_queries_tell_sizes_and_schedule(world: CampaignWorld, run: Path) -> None:
    found = {(row["cdn"], row["size"]): row for row in asked(world, run, "initial_sizes")}
    assert found.keys() == {(cdn, size) for cdn in ("Cloudflare", "Others") for size in SIZES}
    for (cdn, _), row in found.items():
        expected = (ANSWERING, ANSWERING) if cdn == "Cloudflare" else (SILENT, 0)
        assert (int(row["probes"]), int(row["answered"])) == expected
    (schedule,) = asked(world, run, "retransmission_schedule")
    assert (schedule["cdn"], int(schedule["listened"])) == ("Cloudflare", ANSWERING * len(SIZES))
    assert 0 < int(schedule["retransmitting"]) <= ANSWERING * len(SIZES)
    # Computed from the rows: the time from the ServerHello to the first datagram more than 5 ms later.
    heard = [row for n in (1, 2) for row in world.rows(run, "east", n) if row["retransmission_us"]]
    since = sorted(first_wait(row) for row in map(dict[str, Any], heard))
    assert schedule["first_p50_us"] == since[len(since) // 2]
    assert schedule["first_p10_us"] == since[len(since) // 10]


def first_wait(row: dict[str, Any]) -> int:
    """Return the time (us) from the ServerHello to the first expiry, as the query defines it."""
    times: list[int] = [row["sh_us"], *row["retransmission_us"]]
    return next(at for before, at in pairwise(times) if at - before > 5000) - times[0]
