"""Computed figures: RFC 9002 by hand, the published values and the printed results."""

from __future__ import annotations

import json

import pytest

from cli.lab.testbed import command
from firstflight.errors import UsageError
from testbed import experiment_files
from testbed.computed import COMPUTED, numeric, numeric_page
from testbed.computed.ack_overhead import OVERHEAD


def test_timeouts_are_rfc_9002_s() -> None:
    """By hand: two samples of 10 give srtt 10 and rttvar 5, then 3.75; 10 + 20, then 10 + 15 + 25."""
    assert numeric.timeouts_ms(10, 10, 2) == [30, 50]
    # Sample 18, then 10: srtt 17, rttvar 9 * 3/4 + 8 * 1/4 = 8.75.
    assert numeric.timeouts_ms(18, 10, 2) == [54, 17 + 35 + 25]
    # 4 rttvar is 0.4 after the first sample: less than the granularity.
    assert numeric.timeouts_ms(0.2, 0.2, 1) == [pytest.approx(1.2)]
    assert numeric.timeouts_ms(0.2, 0.2, 1, 0) == [pytest.approx(0.6)]


def test_the_first_probe_is_spurious_from_three_rtts_of_delay() -> None:
    assert [numeric.is_spurious(rtt, 9) for rtt in (2.999, 3, 3.001)] == [True, True, False]


@pytest.mark.parametrize("name", numeric.NUMERIC)
def test_each_published_value_is_met(name: str) -> None:
    verdicts = numeric.NUMERIC[name].verdicts()
    assert len(verdicts) >= 3
    # The paper prints 34.8; its difference implies 34.748.
    known = [({"rtt_ms": 9.0, "sample": 30}, {"wfc_pto_ms": 34.8})] if name == "iack-pto" else []
    assert [(row.where, row.values) for row, met in verdicts if not met] == known


def test_a_value_that_no_row_is_about_is_not_met() -> None:
    figure = numeric.NUMERIC["iack-pto"]
    wrong = (
        numeric.PublishedValues({"sample": 31}, {"difference_ms": 0.7}, 9),
        numeric.PublishedValues({}, {"sample": 9}, 0),
    )
    other = numeric.Numeric(figure.title, figure.source, figure.rows, wrong)
    assert [met for _, met in other.verdicts()] == [False, False]


def test_the_smallest_acks_cost_what_the_paper_says() -> None:
    """Paper 003, Table 3. The tunnel at a ratio of 10 differs: 14 is no tenth of the table's 2 x 60."""
    verdicts = OVERHEAD.verdicts()
    assert [row.where for row, met in verdicts if not met] == [{"acks": "QUIC in a tunnel", "ratio": 10}]
    assert len(verdicts) == 18


@pytest.mark.parametrize("name", COMPUTED)
def test_show_computes_and_nothing_else_does(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    def printed(*arguments: str) -> str:
        command(arguments, standalone_mode=False)
        return capfd.readouterr().out

    assert name not in experiment_files.load()
    shown = printed("show", name)
    assert ": met: " in shown and shown.count("not met") == (name in ("ack-overhead", "iack-pto"))
    lines = printed("show", name, "--format", "jsonl").splitlines()
    assert [json.loads(line) for line in lines] == COMPUTED[name].rows()
    assert f"{name}: " in printed("list")
    for arguments in (["run", name], ["list", name], ["verify", name], ["show", name, "--part", "trials"]):
        with pytest.raises(UsageError, match="because it is computed"):
            command(arguments, standalone_mode=False)


@pytest.mark.parametrize("name", COMPUTED)
def test_published_values_can_be_hidden(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = COMPUTED[name]
    shown = numeric_page.summary(figure)
    assert len(shown.checks) == len(figure.published)
    assert list(shown.notes) == [*figure.published_notes, *figure.notes]
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "hide")
    hidden = numeric_page.summary(figure)
    assert (hidden.checks, hidden.notes, hidden.columns) == ((), figure.notes, shown.columns)
