"""Two ratios in one connection, compared with a single one: results from hand-made rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed import summary
from testbed.measures import ack_policy
from testbed.measures.acknowledgements import cells, checks, policies
from tests.testbed.experiments import find, text
from tests.testbed.measures.test_acks import acks_of, named, trial

NAME = "ack-policy"
TWO = {"ack_ratio": 2, "ack_ratio_later": None}
TEN = {"ack_ratio": 10, "ack_delay_ms": 25}
POLICY = {"ack_ratio": 2, "ack_ratio_later": 10}


def rows(
    rtt_ms: float, loss: int, *, policy_us: int, acks: int = 125, trials: int = 10
) -> list[dict[str, Any]]:
    """Return trials of ratio 2, ratio 10 (two delays) and the policy: of 1 s, 1.1 s, and `policy_us`."""
    found = []
    for given, more in (
        (TWO, {"transfer_us": 1_000_000}),
        (TEN, {"transfer_us": 1_100_000}),
        ({"ack_ratio": 10, "ack_delay_ms": rtt_ms / 4}, {"transfer_us": 1_100_000}),
        (POLICY, {"transfer_us": policy_us, "ack_packets": acks, "acks_by_count": acks}),
    ):
        cell = named(NAME, rtt_ms=rtt_ms, loss_percent=loss, **given)
        found += [trial(cell, number, **more) for number in range(1, trials + 1)]
    return found


def test_a_policy_has_its_difference_from_ratio_two() -> None:
    lines = policies.policies(find(NAME), rows(30, 1, policy_us=1_040_000))
    assert [line.words for line in lines] == [
        "ratio 2, 25 ms",
        "ratio 10, 25 ms",
        "ratio 10, 7.5 ms",
        "ratio 2, 10 after 100, 7.5 ms",
    ]
    assert [(line.later_ms, line.pairs) for line in lines] == [(None, 0), (100, 10), (100, 10), (40, 10)]
    assert [line.p for line in lines[1:]] == [pytest.approx(2 / 1024)] * 3
    assert lines[0].fewer is None and lines[3].fewer == pytest.approx(427 / 125)
    # Equation 4 is for transfers without loss.
    assert [line.model_acks for line in lines] == [None] * 4
    (clean,) = (
        line for line in policies.policies(find(NAME), rows(30, 0, policy_us=1)) if "," in line.ratios
    )
    assert clean.model_acks == 100 / 2 + 755 / 10


def test_a_policy_is_compared_only_on_its_path() -> None:
    """A cell that differs in the loss is no reference."""
    given = [*rows(30, 0, policy_us=1)[:10], *rows(30, 1, policy_us=1)[30:]]
    assert [line.later_ms for line in policies.policies(find(NAME), given)] == [None, None]
    assert [check.expected for check in policies.checks(find(NAME), given)] == []


@pytest.mark.parametrize(
    ("loss", "policy_us", "acks", "unmet"),
    [
        (0, 1_029_000, 125, []),
        (0, 1_031_000, 125, ["the transfer takes at most one RTT longer than with a ratio of 2 and 25 ms"]),
        (0, 1_000_000, 140, ["equation 4", "it sends 40 ACKs more than a ratio of 10"]),
        (0, 1_000_000, 114, ["equation 4", "it sends 40 ACKs more than a ratio of 10"]),
        (
            0,
            1_000_000,
            427,
            ["equation 4", "it sends fewer ACKs", "it sends 40 ACKs more than a ratio of 10"],
        ),
        (1, 1_000_000, 125, []),
        (1, 1_001_000, 125, ["takes no longer than with a ratio of 2 and 25 ms (sign test, 0.05)"]),
        (
            1,
            1_101_000,
            125,
            [
                f"takes no longer than with a ratio of {fixed} ms"
                for fixed in ("2 and 25", "10 and 25", "10 and 7.5")
            ],
        ),
        (1, 1_000_000, 427, ["it sends fewer ACKs"]),
    ],
)
def test_expectations_of_a_policy(loss: int, policy_us: int, acks: int, unmet: list[str]) -> None:
    found = policies.checks(find(NAME), rows(30, loss, policy_us=policy_us, acks=acks))
    assert len(found) == (4 if loss else 6)
    failed = [check.expected for check in found if not check.met]
    assert len(failed) == len(unmet)
    assert all(words in expected for words, expected in zip(unmet, failed, strict=True))


@pytest.mark.parametrize(("pairs", "count"), [(5, 0), (6, 3)])
def test_too_few_pairs_decide_nothing(pairs: int, count: int) -> None:
    """With five pairs, the sign test is above 0.05 even if all have the same sign."""
    found = policies.checks(find(NAME), rows(30, 1, policy_us=2_000_000, trials=pairs))
    tested = [check for check in found if "sign test" in check.expected]
    assert [check.met for check in tested] == [False] * count


def test_a_policy_is_compared_only_under_its_conditions() -> None:
    two_ratios = {"ack_ratio_later": 20, "ack_ratio_later_after": 100}
    given = acks_of(two_ratios, {"congestion_control": "cubic"}).model_dump(by_alias=True, exclude_unset=True)
    experiment = policies.AckPolicies.model_validate(given | {"measure": "ack_policy"})
    cell = {found.congestion_control: found for found in experiment.cells() if found.ack_ratio == 2}
    trials = [trial(found, transfer_us=1_000_000) for found in cell.values()]
    assert [line.later_ms for line in policies.policies(experiment, trials)] == [None, None]


def test_the_page_of_policies() -> None:
    given = rows(638, 0, policy_us=1_000_000, trials=1)
    shown = text(find(NAME), given)
    headings = summary.headings(ack_policy.results(find(NAME), Path(), given).summary().columns)
    assert len(set(headings)) == len(headings)
    assert " 2, 10 after 100 " in shown
    assert "RTT 638 ms, loss 0 %: met: it sends fewer ACKs than a ratio of 2: 125 and 427." in shown
    later, acks = ack_policy.panels(policies.policies(find(NAME), given))
    assert [series.label for series in later.series] == [
        "ratio 10, 25 ms",
        "ratio 10, RTT/4",
        "ratio 2, 10 after 100, RTT/4",
    ]
    assert [series.points for series in acks.series] == [((638, count),) for count in (427, 85, 85, 125)]


def test_two_ratios_are_no_single_ratio() -> None:
    """Among cells with one ratio, a cell with two has only the expectation of equation 4."""
    experiment = acks_of({}, {"ack_ratio_later": 20, "ack_ratio_later_after": 100})
    given = [trial(cell) for cell in experiment.cells()]
    lines = cells.cells(experiment, given)
    assert [line.ratios for line in lines] == ["2", "10", "2, 20 after 100", "10, 20 after 100"]
    twofold = [check for check in checks.checks(experiment, lines, given) if "then20" in check.about]
    assert ["equation 4" in check.expected for check in twofold] == [True, True]
    of_one_ratio = checks.checks(experiment, cells.cells(experiment, given[:2]), given[:2])
    assert len(checks.checks(experiment, lines, given)) == len(of_one_ratio) + 2
