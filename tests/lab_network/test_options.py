"""Probe options in the lab against `lab truth`: paths that drop large datagrams or change ECN marks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab_network.running import FIRSTFLIGHT, Lab

Row = dict[str, Any]
PER_STACK = 6


@pytest.fixture(scope="module")
def truth(lab: Lab) -> Iterator[dict[tuple[str, str], Row]]:
    """(Name, address) to the line of `lab truth` about hamburg."""
    lines = map(json.loads, lab.run("truth", "--format", "jsonl").splitlines())
    yield {
        (line["domain"], line["ip"]): line for line in lines if line["vantage"] == "hamburg" and line["ip"]
    }


def probe(lab: Lab, folder: Path, names: list[tuple[str, str]], *options: str) -> list[Row]:
    """Run `firstflight probe` on hamburg."""
    targets = folder / "targets.csv"
    targets.write_text("ip,domain,port\n" + "".join(f"{ip},{domain},\n" for domain, ip in names))
    limits = ("--per-prefix-rate", "0", "--allow-net", "198.18.0.0/15", "--allow-net", "2001:db8::/32")
    command = (FIRSTFLIGHT, "probe", "--targets", str(targets), *limits, *options)
    return [json.loads(line) for line in lab.run("exec", "hamburg", *command).splitlines()]


def test_ecn_marks(lab: Lab, truth: dict[tuple[str, str], Row], tmp_path: Path) -> None:
    """Probes some names of each stack, and all names with a path or server that treats marks specially."""
    chosen, counts = [], dict.fromkeys(("quiche", "aioquic", "quic-go", "rogue"), 0)
    for key, line in truth.items():
        special = "ecn" in line["domain"]
        if special or (line["outcome"] != "blocked" and counts.get(line["stack"], PER_STACK) < PER_STACK):
            chosen.append(key)
            counts[line["stack"]] += not special
    rows = probe(lab, tmp_path, chosen, "--ecn", "ect0")
    found = {(row["domain"], row["ip"]): row for row in rows}
    assert found.keys() == set(chosen) and len(chosen) > 4 * PER_STACK
    differing = {
        key: (row["outcome"], row["ecn_verdict"], truth[key]["ecn_verdict"])
        for key, row in found.items()
        if row["ecn_verdict"] != truth[key]["ecn_verdict"]
    }
    assert differing == {}
    ((_, congested),) = [pair for pair in found.items() if pair[0][0] == "ecn-congested.odd.test"]
    assert [congested[f"ack_{each}"] for each in ("ect0", "ect1", "ce")] == [0, 0, 1]


def test_a_path_that_drops_large_datagrams(
    lab: Lab, truth: dict[tuple[str, str], Row], tmp_path: Path
) -> None:
    key = next(key for key in truth if key[0] == "size-filter.odd.test")
    quicgo = (
        key for key, line in truth.items() if line["stack"] == "quic-go" and line["outcome"] == "coalesced"
    )
    other = next(key for key in quicgo if ":" not in key[1])
    sizes = "1200,1252,1322,1323,1472"
    rows = probe(lab, tmp_path, [key, other], "--initial-size", sizes, "--attempts", "1", "--timeout", "10")
    assert len(rows) == 10
    for row in rows:
        name_and_ip = row["domain"], row["ip"]
        fits = row["initial_size"] <= truth[name_and_ip]["largest_initial"]
        assert (row["outcome"] == "timeout") != fits, (row["initial_size"], row["outcome"])
    assert truth[key]["largest_initial"] == 1322 and truth[other]["largest_initial"] == 1452
