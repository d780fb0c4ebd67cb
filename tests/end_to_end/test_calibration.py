"""`firstflight calibrate` over the lab: probes and full handshakes classify every name as declared."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.end_to_end.conftest import Finished

FIRST = ("iack", "coalesced", "sh_first")


@pytest.fixture(scope="module")
def parts(finished: Finished) -> dict[str, list[dict[str, Any]]]:
    """The command's answer, by part."""

    def part(name: str) -> list[dict[str, Any]]:
        argv = ("calibrate", "--run", finished.run, "--part", name, "--format", "JSONEachRow")
        return finished.site.lines(*argv)

    return {name: part(name) for name in ("agreement", "categories")}


def test_compared_pairs_are_those_of_the_truth(
    finished: Finished, parts: dict[str, list[dict[str, Any]]]
) -> None:
    """Each combination of classes, with its number of pairs over vantage points and repetitions."""
    lines = [finished.truth[row["vantage"], row["domain"], row["ip"]] for row in finished.rows]
    declared = Counter((line["outcome"], line["handshake"]["first_answer"]) for line in lines)
    found = {
        (row["probe"], row["handshake"]): int(row["compared"])
        for row in parts["categories"]
        if row["cdn"] is None and int(row["compared"])
    }
    assert found == {pair: count for pair, count in declared.items() if set(pair) <= set(FIRST)}


def test_agreement_is_complete(parts: dict[str, list[dict[str, Any]]]) -> None:
    for row in parts["agreement"]:
        assert row["source"] == "stages"
        assert int(row["compared"]) > 0
        assert (int(row["probe_only"]), int(row["handshake_only"]), row["agreement"]) == (0, 0, 1), row
    # All together, seven CDNs and what belongs to none.
    assert len(parts["agreement"]) == 9
