"""A paper's ranges of gains by RTT, compared with our gains."""

from __future__ import annotations

from typing import Any

import pytest

from testbed import experiment_files, summary
from testbed.experiment.expected import GainExperiment
from testbed.experiment.published import GainRange, range_of
from tests.testbed.experiments import find
from tests.testbed.experiments import text as text_of
from tests.testbed.measures.test_gain import trial


@pytest.mark.parametrize(
    ("name", "client", "server", "rtt_ms", "found"),
    [
        ("iack-first-pto", "aioquic", "aioquic", 100, (7.0, 24.65)),
        ("iack-first-pto", "aioquic", "aioquic", 190, (-19, -19)),
        ("iack-first-pto", "quic-go", "aioquic", 190, (-15, -15)),
        ("iack-first-pto-logs", "quic-go", "aioquic", 200, (-1, 1)),
        ("iack-first-pto-logs", "ngtcp2", "aioquic", 200, (7.0, 24.65)),
        # The paper has no quinn.
        ("iack-first-pto", "quinn", "aioquic", 100, (None, None)),
        ("iack-loss-server", "aioquic", "quic-go", 20, (-171, -159)),
        ("iack-loss-server", "aioquic", "quic-go", 300, (402, 514)),
        ("iack-loss-server", "quiche", "quic-go", 300, (2, 2)),
        ("iack-loss-server", "quiche", "quic-go", 20, (None, None)),
        # Its default PTO is five times the paper's.
        ("iack-loss-server", "aioquic", "quiche", 20, (None, None)),
    ],
)
def test_ranges_are_of_the_papers_clients_servers_and_rtts(
    name: str, client: str, server: str, rtt_ms: float, found: tuple[float | None, float | None]
) -> None:
    assert range_of(find(name).gained, client, server, rtt_ms) == found


def test_ranges_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "hide")
    for name in ("iack-first-pto", "iack-first-pto-logs", "iack-loss-server"):
        experiment = experiment_files.read(experiment_files.FOLDER / f"{name}.toml")
        assert isinstance(experiment, GainExperiment)
        assert (experiment.gained, bool(experiment.accept)) == ((), True)


def test_a_range_has_its_ends_in_order() -> None:
    with pytest.raises(ValueError, match="`low_ms` is above `high_ms`"):
        GainRange(edition="imc2024", low_ms=2, high_ms=1)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(7.0, 24.65, "7 to 24.65"), (-19, -19, "-19"), (None, None, "-"), (0, 0, "0")],
)
def test_a_range_is_printed_as_one_value_where_it_is(
    low: float | None, high: float | None, text: str
) -> None:
    assert summary.range_text(low, high) == text


def printed(rtts: tuple[float, ...], *qdiscs: str, **more: Any) -> str:
    experiment = find("iack-first-pto")
    rows = [
        trial(answering, 50_000, client="aioquic", rtt_ms=rtt_ms, qdisc=qdisc, pto_first_us=pto_us, **more)
        for qdisc in qdiscs or ("pfifo",)
        for rtt_ms in rtts
        for answering, pto_us in (("wfc", 39_000), ("iack", 27_000))
    ]
    return text_of(experiment, rows)


def test_ranges_are_printed_with_ours_and_pairs_without_a_verdict_have_no_trend() -> None:
    rtts = (1.0, 9.0, 20.0, 50.0, 100.0)
    text = printed(rtts)
    assert "7 to 24.65" in text
    assert "aioquic at 5 RTTs from 1 to 100 ms, server aioquic: met: no trend over the RTT" in text
    text = printed(rtts, "fq", "none")
    for more in ("at-fq", "at-none"):
        assert f"aioquic at 5 RTTs from 1 to 100 ms, {more}, server aioquic: met: no trend" in text
    # WFC is an instant ACK in effect there.
    assert "no trend" not in printed(rtts, partial_ack_us=9000)


@pytest.mark.parametrize(
    "name", ["iack-ttfb", "iack-loss-server", "iack-loss-client", "iack-first-pto", "iack-first-pto-logs"]
)
def test_each_client_of_the_paper_has_a_range_by_rtt_once_it_is_built(name: str) -> None:
    """The user can build mvfst from source; neqo is available only in Firefox."""
    experiment = find(name)
    clients = {"mvfst", "neqo", "picoquic"} - ({"mvfst"} if name == "iack-ttfb" else set())
    for cell in experiment.cells():
        if cell.client in clients:
            accepted, _ = experiment.expected(cell.client, cell.server, cell.rtt_ms)
            assert accepted is not None, cell.name
