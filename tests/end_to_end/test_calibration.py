"""`firstflight calibrate` over the lab: probes and full handshakes classify every name as declared."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.end_to_end.conftest import FinishedCampaign

FIRST = ("iack", "coalesced", "sh_first")
# A client's first probe timeout. A later answer may be the answer to a second Initial (RFC 9002 6.2.2).
TIMEOUT_US = 999_000
PAIR = "vantage, repetition, domain, ip, port"


@pytest.fixture(scope="module")
def parts(finished: FinishedCampaign) -> dict[str, list[dict[str, Any]]]:
    """Return the command's output, by part."""

    def part(name: str) -> list[dict[str, Any]]:
        argv = ("calibrate", "--run", finished.run, "--part", name, "--format", "JSONEachRow")
        return finished.site.lines(*argv)

    return {name: part(name) for name in ("agreement", "categories")}


def repeated(finished: FinishedCampaign) -> set[tuple[Any, ...]]:
    """Return the pairs with a late answer from a busy machine, so that a client sent twice.

    Such pairs are not compared.
    """
    sql = finished.site.sql
    probes = sql(f"SELECT {PAIR} FROM quic_probe WHERE run = '{finished.run}' AND attempts > 1")
    late = sql(
        f"SELECT {PAIR} FROM quic_handshake WHERE run = '{finished.run}' AND retransmissions > 0 "
        f"AND least(ifNull(ack_us, sh_us), ifNull(sh_us, ack_us)) >= {TIMEOUT_US}"
    )
    return {tuple(row.values()) for row in probes + late}


def test_compared_pairs_are_those_of_the_truth(
    finished: FinishedCampaign, parts: dict[str, list[dict[str, Any]]]
) -> None:
    """The number of pairs for each combination of classes, over vantage points and repetitions."""
    late = repeated(finished)
    declared: Counter[tuple[str, str]] = Counter()
    once: Counter[tuple[str, str]] = Counter()
    for row in finished.rows:
        line = finished.truth[row["vantage"], row["domain"], row["ip"]]
        classes = (line["outcome"], line["handshake"]["first_answer"])
        if set(classes) <= set(FIRST):
            declared[classes] += 1
            once[classes] += tuple(row[name] for name in PAIR.split(", ")) not in late
    # Even on a busy machine, most pairs are compared.
    assert once.total() > 0.9 * declared.total()
    for column, expected in {"pairs": declared, "compared": once}.items():
        found = {
            (row["probe"], row["handshake"]): int(row[column])
            for row in parts["categories"]
            if row["cdn"] is None and {row["probe"], row["handshake"]} <= set(FIRST)
        }
        assert found == expected, column


def test_agreement_is_complete(parts: dict[str, list[dict[str, Any]]]) -> None:
    for row in parts["agreement"]:
        assert row["source"] == "stages"
        assert int(row["compared"]) > 0
        assert (int(row["probe_only"]), int(row["handshake_only"]), row["agreement"]) == (0, 0, 1), row
    # Rows: all pairs together, seven CDNs, and pairs without a CDN.
    assert len(parts["agreement"]) == 9
