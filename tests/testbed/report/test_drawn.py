"""The contents of an experiment's figure, and the number of series that readers can distinguish."""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

import pytest

from reports.figures import compared as figures
from reports.figures import gridded as map_figures
from reports.figures import style, svg
from reports.numbers import compared, gridded
from reports.numbers.compared import ComparisonPanel, ComparisonSeries
from reports.numbers.gridded import Maps
from testbed.measures import Results, ack_asymmetry, acks, first_stream
from testbed.measures.ack_asymmetry import Asymmetric
from testbed.measures.acknowledgements.cells import Acked
from testbed.measures.default_pto import ClientPto
from testbed.measures.gains import panels
from testbed.measures.gains.gain import Gain, Gains
from testbed.measures.pto_logged import OwnPto
from testbed.measures.rtt_updates import Logged
from testbed.summary import SummaryPage
from tests.testbed.experiments import find


def made(kind: type[Any], **known: object) -> Any:
    """Return a line with the given fields; all other fields are null."""
    return kind(**{field.name: known.get(field.name) for field in dataclasses.fields(kind)})


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        (
            "iack-rtt-updates",
            made(Logged, client="quic-go", updates=224, samples=225, published_updates=213),
            {("updates", False): ("quic-go", 224), ("updates", True): ("quic-go", 213)}
            | {("new ACKs", False): ("quic-go", 225)},
        ),
        (
            "iack-first-pto-logs",
            made(OwnPto, client="ngtcp2", rtt_ms=9, pto_gain_ms=12),
            {("ngtcp2", False): (9, 12)},
        ),
        (
            "iack-default-pto",
            made(ClientPto, client="aioquic", default_pto_ms=200.2, published_default_pto_ms=200),
            {("default PTO", False): ("aioquic", 200.2), ("default PTO", True): ("aioquic", 200)},
        ),
        (
            "ack-asymmetry",
            made(Asymmetric, asymmetry=50, ack_ratio=2, up_queue_packets=10, mbit=7.5, expected_mbit=6.5),
            {("found", False): ("50:1, ratio 2, 10", 7.5), ("expected", False): ("50:1, ratio 2, 10", 6.5)},
        ),
    ],
)
def test_the_figure_has_what_is_known(name: str, line: Any, expected: dict[Any, Any]) -> None:
    """Our value and the published value share a label; null values are not plotted."""
    measure = importlib.import_module(f"testbed.measures.{find(name).measure}")
    (panel,) = (each_panel for each_panel in measure.panels([line]) if each_panel.series)
    assert {(series.label, series.published): series.points[0] for series in panel.series} == expected
    description = compared.described([panel])
    assert all(f"{value:.4g}" in description for _, value in expected.values())
    for size in style.SIZES:
        assert "<svg" in svg.inline(figures.draw([panel], size), "figure", "A title", description)


def test_pairs_that_differ_in_more_have_separate_panels() -> None:
    """With several RTTs each pair has a panel; with one RTT all pairs share a panel."""
    known = {"client": "quinn", "server": "quic-go", "wfc_done": 1, "iack_done": 1, "gain_ms": 5}
    pairs = [
        made(Gain, **known, rtt_ms=rtt, more=more) for more in ("0waiting", "9waiting") for rtt in (9, 20)
    ]
    found = panels.panels(pairs, first_stream.JUDGED)
    assert [each_panel.title for each_panel in found] == [
        "server quic-go, 0waiting",
        "server quic-go, 9waiting",
    ]
    assert [each_panel.series[0].points for each_panel in found] == [((9, 5), (20, 5))] * 2
    single = [dataclasses.replace(pair, rtt_ms=9, wfc_first_stream_ms=7) for pair in pairs[::2]]
    (panel,) = panels.panels(single, first_stream.JUDGED)
    assert panel.title == "server quic-go"
    assert [place for place, _ in panel.series[0].points] == ["quinn, 0waiting", "quinn, 9waiting"]


def pair(client: str, rtt: float, delay: float, gain: float | None, partial: int = 0) -> Gain:
    known = {"rtt_ms": rtt, "certificate_delay_ms": delay, "gain_ms": gain, "partial_acks": partial}
    line: Gain = made(Gain, client=client, server="quic-go", **known)
    return line


def mapped(name: str, values: dict[tuple[str, float, float], float | None]) -> Maps | None:
    experiment: Gains = find(name)
    return panels.maps(experiment, [pair(*place, gain) for place, gain in values.items()])


def test_the_better_answer_is_a_map_for_each_client() -> None:
    values = {
        ("quinn", 9.0, 100.0): 5.8,
        ("quinn", 9.0, 0.0): 0.5,
        ("quinn", 100.0, 0.0): None,
        ("aioquic", 9.0, 0.0): -0.5,
        ("aioquic", 100.0, 200.0): -96.9,
        ("aioquic", 9.0, 100.0): 0.51,
    }
    found = mapped("iack-map", values)
    assert found is not None
    assert [each_map.title for each_map in found.maps] == ["aioquic", "quinn"]
    assert found.places == ([9, 100], [0, 100, 200])
    aioquic, quinn = found.maps
    answers = [quinn.better(9, 100), quinn.better(9, 0), quinn.better(100, 0), quinn.better(100, 200)]
    assert answers == [0, -1, None, None]
    assert [aioquic.better(9, 0), aioquic.better(100, 200), aioquic.better(9, 100)] == [-1, 1, 0]
    assert gridded.counts(found.maps) == {0: 2, 1: 1, -1: 2}
    text = gridded.described(found)
    assert "quinn: IACK is better at RTT [ms] and Delay of the certificate [ms] 9 and 100 (5.8)." in text
    assert (
        "aioquic: IACK is better at" in text and "WFC is better at" in text and "100 and 200 (-96.9)" in text
    )
    for size in style.SIZES:
        shown = svg.inline(map_figures.draw(found, size), "figure", "A title", text)
        # Each answer has its fill, in the cells and in the legend.
        assert {fill: shown.count(fill) for fill in map_figures.FILLS.values()} == {
            map_figures.FILLS[0]: 3,
            map_figures.FILLS[1]: 2,
            map_figures.FILLS[-1]: 3,
        }
        assert all(label in shown for label in (">5.8<", ">0.5<", ">−97<", "neither, within 0.5 ms"))


@pytest.mark.parametrize(("value", "text"), [(5.8, "5.8"), (-9.94, "−9.9"), (9.96, "10"), (-100, "−100")])
def test_a_value_in_a_map_is_short(value: float, text: str) -> None:
    assert map_figures.short_number(value) == text


def test_only_what_varies_both_has_maps() -> None:
    gains: dict[tuple[str, float, float], float | None] = {("quinn", 9, 0): 5}
    assert mapped("iack-map", gains) is not None
    assert mapped("iack-ttfb", gains) is mapped("iack-first-pto", gains) is mapped("iack-map", {}) is None
    assert mapped("iack-map", {("quinn", 9, 0): None}) is None
    # A further cell at the same place; a server that acknowledges half a ClientHello.
    twice = [pair("quinn", 9, 0, 5), pair("quinn", 9, 0, 6)]
    assert panels.maps(find("iack-map"), twice) is None
    assert panels.maps(find("iack-map"), [pair("quinn", 9, 0, 5, partial=1)]) is None


def test_cells_with_loss_or_delay_have_a_separate_curve() -> None:
    known = {"done": 1, "rtt_ms": 30, "loss_percent": 0, "ack_delay_ms": 25, "acks": 85}
    lines = [
        made(Acked, **known, ack_ratio=ratio, more=more) for more in ("", "1netem-up") for ratio in (2, 10)
    ]
    (panel,) = (each_panel for each_panel in acks.panels(lines) if each_panel.series)
    assert [series.label for series in panel.series] == ["30 ms", "30 ms, 1netem-up"]


def test_without_values_there_is_no_figure() -> None:
    lines = [made(Asymmetric, asymmetry=50)]
    found = Results(lines, lambda: SummaryPage("", "", ()), lambda: ack_asymmetry.panels(lines))
    assert [len(panel.series) for panel in found.figure()] == [0] and found.panels() == []
    assert panels.panels([], first_stream.JUDGED) == []


def test_more_lines_than_colours_are_not_plotted() -> None:
    many = tuple(ComparisonSeries(f"client{number}", ((1.0, number),)) for number in range(9))
    looks = figures.looks([ComparisonPanel("all", "ms", many, "RTT [ms]")])
    assert list(looks) == [f"client{number}" for number in range(7)]


def test_panels_that_share_too_many_lines_have_a_legend_each() -> None:
    """Two panels of five lines: each panel can draw its own, and a common legend could not."""
    groups = [range(5), range(5, 10)]
    made_panels = [
        ComparisonPanel("all", "ms", tuple(ComparisonSeries(f"x{n}", ((1.0, n),)) for n in group), "RTT [ms]")
        for group in groups
    ]
    assert figures.undrawn(made_panels) == []
    drawn = figures.draw(made_panels, style.WIDE)
    legends = [legend for axes in drawn.axes if (legend := axes.get_legend()) is not None]
    shown = [[text.get_text() for text in legend.get_texts()] for legend in legends]
    assert shown == [[f"x{n}" for n in group] for group in groups]
    assert {text.get_fontsize() for legend in legends for text in legend.get_texts()} == {11}
    assert drawn.legends == []
    # With a panel that has too many, they share what can be drawn.
    many = tuple(ComparisonSeries(f"x{n}", ((1.0, n),)) for n in range(8))
    with_many = [*made_panels, ComparisonPanel("all", "ms", many, "RTT [ms]")]
    assert figures.undrawn(with_many) == ["x7", "x8", "x9"]
    (common,) = figures.draw(with_many, style.WIDE).legends
    assert [text.get_text() for text in common.get_texts()] == [f"x{n}" for n in range(7)]


@pytest.mark.parametrize(("points", "marked"), [(30, None), (201, 25)])
def test_markers_of_a_long_curve_are_apart(points: int, marked: int | None) -> None:
    curve = ComparisonSeries("x", tuple((float(n), float(n)) for n in range(points)))
    (axes,) = figures.draw([ComparisonPanel("all", "ms", (curve,), "RTT [ms]")], style.WIDE).axes
    assert axes.lines[0].get_markevery() == marked
