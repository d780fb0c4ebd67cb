"""Line fits of times over the RTT: our lines, the published lines, and their crossing points."""

from __future__ import annotations

import pytest

from testbed.measures.gains import rtt_lines
from testbed.measures.gains.rtt_lines import RttLine
from tests.testbed.experiments import find, lines
from tests.testbed.experiments import text as text_of
from tests.testbed.measures.test_gain import trial

LOSS = find("iack-loss-server")


@pytest.mark.parametrize(
    ("points", "line"),
    [
        ([(1, 26.55), (9, 62.95), (20, 113), (100, 477)], (22, 4.55)),
        ([(1, 0), (1, 2), (3, 4), (3, 6)], (-1, 2)),
        ([(9, 60), (9, 66)], None),
        ([], None),
    ],
)
def test_a_line_is_that_of_least_squares(
    points: list[tuple[float, float]], line: tuple[float, float] | None
) -> None:
    found = rtt_lines.fit_line(points)
    assert line is None if found is None else (found.at_zero_ms, found.per_rtt) == pytest.approx(line)


def test_two_lines_cross_where_their_times_are_the_same() -> None:
    """The published ones: near 136 ms."""
    assert RttLine(22, 4.55).crosses_at_ms(RttLine(219, 3.1)) == pytest.approx(135.86, abs=0.01)
    assert RttLine(22, 3).crosses_at_ms(RttLine(219, 3)) is None


def test_our_lines_are_printed_with_the_published_ones_at_the_papers_default_pto() -> None:
    def printed(server: str, clients: tuple[str, ...] = ("quinn",)) -> str:
        rows = []
        for client, late in zip(clients, (0, 20), strict=False):
            for rtt_ms in (1, 9, 20, 100, 300):
                # The published lines exclude 300 ms, so our fit excludes it, too.
                slope = 3 if rtt_ms < 300 else 9
                times_ms = {"wfc": 2 + late + 4.5 * rtt_ms, "iack": 200 + late + slope * rtt_ms}
                rows += [
                    {**trial(name, round(1000 * ms), client=client, rtt_ms=rtt_ms), "server": server}
                    for name, ms in times_ms.items()
                ]
        return text_of(LOSS, rows)

    text = printed("quic-go")
    assert (
        "Server quic-go, lines of least squares through the medians of 1 clients at 1, 9, 20, 100 ms: "
        "WFC 2 + 4.50 RTT (published 22 + 4.55 RTT), IACK 200 + 3.00 RTT (published 219 + 3.10 RTT); "
        "they cross at 132 ms (published 136 ms).\n"
    ) in text
    assert "WFC 2 + 4.50 RTT, IACK 200 + 3.00 RTT; they cross at 132 ms.\n" in printed("quiche")
    both = printed("quic-go", ("quinn", "tquic"))
    assert "WFC 12 + 4.50 RTT (published" in both
    assert "those of each client at quinn 132 ms, tquic 132 ms.\n" in both


def test_without_published_lines_ours_are_not_printed() -> None:
    experiment = find("iack-ttfb")
    assert rtt_lines.sentences(experiment, lines(experiment, [trial("wfc", 1000), trial("iack", 1000)])) == []
