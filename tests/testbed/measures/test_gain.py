"""The gain of an instant ACK: medians, ranges from the papers, pairs of cells and printed results."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.experiment.cell import Cell
from testbed.experiment.expected import Accept
from testbed.trials import block
from tests.testbed.experiments import find, lines
from tests.testbed.experiments import text as text_of


@pytest.mark.parametrize(
    "name", ["iack-ttfb", "iack-loss-server", "iack-loss-client", "iack-first-pto", "iack-first-pto-logs"]
)
def test_every_pair_here_has_a_range(name: str) -> None:
    """Every client that can run here has an expectation, also if it may not be met."""
    experiment = find(name)
    for cell in experiment.cells():
        if block.blocks(name, cell, 1)[0].unavailable() is None:
            accepted, _ = experiment.expected(cell.client, cell.server, cell.rtt_ms)
            assert accepted is not None and accepted.limits_ms(4) is not None, cell.name


@pytest.mark.parametrize(
    ("given", "value_ms", "g_ms", "verdict"),
    [
        ({"low_ms": -1, "high_ms": 1}, 1, None, "met"),
        ({"low_ms": -1, "high_ms": 1}, 1.1, 4, "not met"),
        ({"g": 3, "within_percent": 25}, 15.3, 4.1, "met"),
        ({"g": 3, "within_percent": 25}, 15, 3.9, "not met"),
        ({"g": 3, "within_ms": 1}, 13.2, 4.1, "met"),
        ({"g": 3, "within_ms": 1}, 13.2, 4, "not met"),
        ({"g": 3, "within_ms": 1}, 13.2, None, None),
        ({"g": 3, "within_ms": 1}, None, 4, None),
        ({"g": 3, "within_ms": 1, "g_low_ms": 3.9, "g_high_ms": 5.5}, 11.7, 3.9, "met"),
        ({"g": 3, "within_ms": 1, "g_low_ms": 3.9, "g_high_ms": 5.5}, 16.5, 5.5, "met"),
        ({"g": 3, "within_ms": 1, "g_low_ms": 3.9, "g_high_ms": 5.5}, 11.4, 3.8, "not met"),
        ({"g": 3, "within_ms": 1, "g_low_ms": 3.9, "g_high_ms": 5.5}, 16.8, 5.6, "not met"),
    ],
)
def test_a_range_may_be_of_what_was_measured(
    given: dict[str, float], value_ms: float | None, g_ms: float | None, verdict: str | None
) -> None:
    made = Accept.model_validate({"clients": ["quinn"], "why": "", **given})
    assert made.verdict(value_ms, g_ms) == verdict


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"low_ms": 1},
        {"low_ms": 1, "high_ms": 2, "g": 3},
        {"g": 3},
        {"g": 3, "within_ms": 1, "within_percent": 1},
        {"low_ms": 1, "high_ms": 2, "within_ms": 1},
        {"low_ms": 1, "high_ms": 2, "within_ms": 1, "within_percent": 1},
        {"g": 3, "within_ms": 1, "g_low_ms": 1},
        {"low_ms": 1, "high_ms": 2, "g_low_ms": 1, "g_high_ms": 2},
    ],
)
def test_a_range_is_of_one_kind(given: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"give `low_ms` and `high_ms`, or else `g`|`g` needs|other and `g`"):
        Accept.model_validate({"clients": ["quinn"], "why": "", **given})


def test_published_values_are_shown_for_servers_like_the_papers() -> None:
    """The server's default PTO repairs a loss of the server's flight."""
    experiment = find("iack-loss-server")
    for server, value in {"aioquic": 248.3, "quic-go": 248.3, "quiche": None, "s2n-quic": None}.items():
        rows = [{**trial(name, 30_000, client="aioquic"), "server": server} for name in ("wfc", "iack")]
        (found,) = lines(experiment, rows)
        assert found.published_iack_ms == value, server


_FIELDS = ("client", "rtt_ms", "qdisc", "gso", "named", "drop_to_server")


def trial(answering: str, first_stream_us: int | None, **more: object) -> dict[str, Any]:
    given = {"client": "ngtcp2", "server": "aioquic", "answering": answering}
    cell = Cell.model_validate(given | {name: more[name] for name in _FIELDS if name in more})
    measured = {
        "first_ack_us": 9000,
        "rtt_first_us": 9000,
        "pto_first_us": 27_000,
        "partial_ack_us": None,
        "outcome": "done",
    }
    conditions = cell.model_dump() | {"cell": cell.name, "ack_policy": None}
    return {**conditions, **measured, "first_stream_us": first_stream_us, **more}


def test_the_gain_is_the_difference_of_medians_of_what_was_done() -> None:
    rows = [
        *(trial("wfc", 1000 * value, first_ack_us=209_000) for value in (30, 31, 40)),
        *(trial("iack", 1000 * value) for value in (20, 21, 50)),
        trial("iack", None, outcome="timeout", rtt_first_us=None, first_ack_us=None),
    ]
    (found,) = lines(find("iack-ttfb"), rows)
    assert (found.wfc_first_stream_ms, found.iack_first_stream_ms, found.gain_ms) == (31, 21, 10)
    assert (found.iack_done, found.iack_trials, found.g_ms, found.rtt_first_ms) == (3, 4, 200, 9)
    assert (found.published_wfc_ms, found.published_iack_ms, found.published_gain_ms) == (249, 239, 10)
    assert found.verdict == "met"
    assert found.outcomes == "done 6, timeout 1"
    text = text_of(find("iack-ttfb"), rows)
    assert "ngtcp2 at 9 ms, server aioquic: met: 0.8 to 1.3 RTT" in text
    assert "    The captures show: a ClientHello of two datagrams lets the server send 7,200 bytes" in text
    other = lines(find("iack-ttfb"), [{**row, "rtt_ms": 20.0} for row in rows])
    assert (other[0].found, other[0].published_gain_ms) == (None, None)


def test_cells_that_differ_in_more_than_the_answer_are_no_pair() -> None:
    rows = [
        trial(answering, 1000 * ms, qdisc=qdisc)
        for qdisc, wfc_ms, iack_ms in (("none", 30, 20), ("fq", 50, 10))
        for answering, ms in (("wfc", wfc_ms), ("iack", iack_ms))
    ]
    found = lines(find("iack-ttfb"), rows)
    assert [(pair.more, pair.gain_ms, pair.wfc_trials) for pair in found] == [
        ("at-fq", 40, 1),
        ("at-none", 10, 1),
    ]
    text = text_of(find("iack-ttfb"), rows)
    assert "ngtcp2 at 9 ms, at-none, server aioquic: met" in text
    assert "ngtcp2 at 9 ms, at-fq, server aioquic: not met" in text


def test_pairs_that_lose_other_datagrams_are_separate_lines() -> None:
    rows = [
        trial(answering, 1000 * ms, named=("drop_to_server",), drop_to_server=(lost,))
        for lost, wfc_ms, iack_ms in ((10, 9, 8), (1, 30, 20), (2, 50, 10))
        for answering, ms in (("wfc", wfc_ms), ("iack", iack_ms))
    ]
    found = lines(find("iack-half-hello"), rows)
    assert [(pair.more, pair.gain_ms) for pair in found] == [
        ("up-1-lost", 10),
        ("up-2-lost", 40),
        ("up-10-lost", 1),
    ]


@pytest.mark.parametrize(
    ("gains", "sentence"),
    [
        (
            {20: -150, 100: 50, 200: 90},
            "costs time below an RTT of some 80 ms (-150.0 ms at 20, +50.0 ms at 100).",
        ),
        (
            {20: 5, 100: -50, 200: 50},
            "costs time between an RTT of 20 ms and one of some 150 ms (-50.0 ms at 100, +50.0 ms at 200).",
        ),
        (
            {100: -0.6, 200: -0.4},
            "costs time below an RTT of some 200 ms (-0.6 ms at 100, -0.4 ms at 200).",
        ),
        ({20: -5, 100: -50}, "costs time at an RTT of 100 ms, too (-50.0 ms)."),
        (
            {20: -5, 100: 50, 200: 0.6, 300: -1},
            "costs time at an RTT of 300 ms, too (-1.0 ms); before that below one of some 27 ms.",
        ),
        ({20: 0, 100: 50, 200: -0.1}, "costs no time at any of these RTTs."),
    ],
)
def test_the_crossing_is_where_an_instant_ack_starts_to_help(gains: dict[int, float], sentence: str) -> None:
    experiment = find("iack-crossing")
    rows = [
        trial(answering, 1_000_000 + (answering == "wfc") * round(1000 * ms), client="quinn", rtt_ms=rtt_ms)
        for rtt_ms, ms in gains.items()
        for answering in ("wfc", "iack")
    ]
    text = text_of(experiment, rows)
    assert f"quinn, server aioquic: an instant ACK {sentence}" in text
    silent = find("iack-loss-server")
    assert "an instant ACK costs" not in text_of(silent, rows)


def test_an_experiment_names_what_is_judged() -> None:
    """The first probe timeout of Figure 16 instead of the time to first byte."""
    measured = {"client": "quinn", "rtt_first_us": 9000}
    waits = {**measured, "first_ack_us": 13_000}
    rows = [
        *(trial("wfc", 50_000, pto_first_us=value, **waits) for value in (38_900, 39_100, 39_000)),
        *(trial("iack", 50_000, pto_first_us=27_000, **measured) for _ in range(3)),
    ]
    experiment = find("iack-first-pto")
    (found,) = lines(experiment, rows)
    assert (found.wfc_pto_first_ms, found.iack_pto_first_ms, found.pto_gain_ms) == (39, 27, 12)
    assert (found.gain_ms, found.verdict) == (0, "met")
    text = text_of(experiment, rows)
    assert "Medians in ms of RFC 9002's probe timeout after the client's first RTT sample" in text
    assert " 39.0  27.0  12.0 " in text
    (other,) = lines(find("iack-ttfb"), rows)
    assert other.verdict == "not met"
    # An instant ACK that arrives no earlier: the gain 0 equals 3 g with g = 0, but the verdict is not met.
    late = [{**row, "first_ack_us": 13_000, "pto_first_us": 39_000} for row in rows]
    assert lines(experiment, late)[0].verdict == "not met"


def test_a_server_that_acknowledges_half_a_client_hello_does_not_wait() -> None:
    rows = [trial("wfc", 30_000, partial_ack_us=9000), trial("iack", 30_000)]
    (found,) = lines(find("iack-ttfb"), rows)
    assert (found.partial_acks, found.verdict) == (1, None)
    text = text_of(find("iack-ttfb"), rows)
    assert "WFC is an instant ACK in effect with ngtcp2 (server aioquic)" in text


def test_trials_that_were_not_done_have_no_time() -> None:
    rows = [trial(name, None, outcome="unavailable", first_ack_us=None) for name in ("wfc", "iack")]
    (found,) = lines(find("iack-ttfb"), rows)
    assert (found.gain_ms, found.g_ms, found.verdict, found.wfc_done) == (None, None, None, 0)
    assert "Unavailable as clients here, 1 of 1: ngtcp2." in text_of(find("iack-ttfb"), rows)
