"""Pacing of servers: lines and verdicts from hand-made rows, and lateness from hand-made captures."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports.figures import compared as figures
from testbed import experiment_files, measures
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import UnmetReason
from testbed.measures.sending import pacing_cells, pacing_panels
from testbed.measures.sending.distributions import SendingDistribution
from testbed.trials import trial_row
from testbed.trials.captures.lateness import Lateness
from testbed.trials.network import path
from tests.dissect import build
from tests.testbed.experiments import find
from tests.testbed.experiments import text as text_of

TRAINS = "Train up to [packets]"


def named(**values: object) -> Cell:
    found: Cell
    (found,) = (
        cell
        for cell in find("pacing").cells()
        if all(getattr(cell, field) == value for field, value in values.items())
    )
    return found


def trial(cell: Cell, repetition: int = 1, **more: object) -> dict[str, Any]:
    made = {
        **trial_row.without_trial("pacing", cell, repetition, "done", None),
        "transfer_us": 2_097_152,
        "queue_drops": 100,
        "gap_p50_ns": 218_000,
        "gaps_up_to_100us_share": 0.1,
        "share_in_trains_1": 0.8,
        "share_in_trains_le5": 0.99,
        "longest_train": 7,
    }
    return {**made, **more}


def test_a_line_has_the_means_and_medians_of_the_paper() -> None:
    cell = named(server="quiche", congestion_control="cubic", qdisc="etf", gso=True, gso_paced=False)
    rows = [
        trial(cell, 1, queue_drops=90, transfer_us=2_097_152),
        trial(cell, 2, queue_drops=110, transfer_us=4_194_304),
        trial(cell, 3, outcome="timeout", queue_drops=9, transfer_us=None),
    ]
    (found,) = pacing_cells.cells(find("pacing"), Path(), rows)
    assert (found.done, found.trials, found.dropped, found.dropped_sd) == (2, 3, 100, 10)
    # 10 MiB in 2.1 and 4.2 s.
    assert found.goodput_mbit == pytest.approx(30)
    assert found.goodput_sd_mbit == pytest.approx(10)
    assert found.below_percent == pytest.approx(10)
    assert (found.gap_p50_us, found.longest_train) == (218, 7)
    assert found.published is not None and found.published.dropped == 104.95
    assert found.as_dict()["published"]["alone_percent"] == 90.7


def test_verdicts_are_about_cells_that_differ_in_one_thing() -> None:
    picoquic = {"server": "picoquic", "gso": False}
    rows = [
        trial(named(server="quic-go", gso=False), share_in_trains_1=0.9, queue_drops=160),
        trial(named(server="quic-go", gso=True), share_in_trains_1=0.1, queue_drops=6),
        trial(named(server="quiche", congestion_control="cubic", qdisc="none", gso=False), queue_drops=687),
        trial(named(server="quiche", congestion_control="cubic", qdisc="fq", gso=False), queue_drops=600),
        trial(named(server="quiche", congestion_control="reno", qdisc="fq"), queue_drops=1),
        trial(named(**picoquic, congestion_control="bbr"), share_in_trains_1=0.996, gap_p50_ns=303_000),
        trial_row.without_trial("x", named(**picoquic, congestion_control="reno"), 1, "unavailable", ""),
    ]
    shown = text_of(find("pacing"), rows)
    alone = "met: without GSO at least 70 points more of the packets are alone: +80.0 points."
    assert f"quic-go, qdisc none: {alone}" in shown
    assert (
        "quic-go, qdisc none: met: with GSO fewer packets are dropped than without GSO: 6 and 160." in shown
    )
    assert "quiche, cubic: not met: fq drops more than no qdisc: 600 and 687." in shown
    paced = "99 % of its packets are alone, with a median gap within 2 % of 303 us: 99.6 %, 303 us."
    assert f"picoquic, bbr: met: {paced}" in shown
    assert shown.count(": met: ") + shown.count(": not met: ") == 4
    assert "Not done here, 1 of 7: picoquic-picoquic-wfc-40ms-1000up-reno-at-none." in shown


def test_distributions_are_of_the_captures_of_trials_that_were_done(tmp_path: Path) -> None:
    """Figures 2 to 6: each of two trials has 16 packets in one burst and 4 packets 1.005 ms apart."""
    cell = named(server="picoquic", congestion_control="cubic", gso=False)
    block = tmp_path / cell.name / "0001-0002"
    block.mkdir(parents=True)
    second = 10**9
    datagrams, trials = [], []
    for repetition in (0, 1, 2):
        sent = build.udp((path.SERVER_IP, 443), (path.CLIENT_IP, 5000 + repetition), bytes(100))
        at = (10 * repetition + 1) * second
        trials.append({"repetition": repetition, "begun_ns": at, "ended_ns": at + second})
        for train in (16, *[1] * (4 if repetition else 40)):
            datagrams += [(at + 12_000 * place, sent) for place in range(train)]
            at += 12_000 * (train - 1) + 1_005_000
    capture(block / "sender.pcap", datagrams, bytes(12) + b"\x08\0")
    (block / "trials.jsonl").write_text(
        "".join(json.dumps(window) + "\n" for window in trials), encoding="utf-8"
    )
    rows = [trial(cell, repetition, capture_file=f"{cell.name}/0001-0002/path.pcap") for repetition in (1, 2)]
    experiment = find("pacing")
    (found,) = pacing_cells.cells(experiment, tmp_path, rows)
    assert found.distribution is not None
    assert found.distribution.trains == pytest.approx({1: 20, 16: 80})
    gaps = dict(found.distribution.gaps_drawn())
    short = 100 * 15 / 19
    assert [gaps[at] for at in (0.01, 0.02, 1.0, 1.01)] == pytest.approx([0, short, short, 100])
    assert found.as_dict()["trains_percent"][15:17] == [100, 100]
    found_panels = measures.results(experiment, tmp_path, rows).panels()
    made = {(panel.title, panel.across): panel for panel in found_panels}
    # Too few cells to compare: only the group of the server and its qdisc.
    assert len(made) == 4 + 2
    trains = made["picoquic, no qdisc", TRAINS]
    assert [(series.label, series.published) for series in trains.series] == [
        ("cubic", False),
        ("cubic", True),
    ]
    assert trains.series[1].points == ((1.0, 59.8), (5.0, 60.1))
    assert made["picoquic, no qdisc", "Gap up to [ms]"].series[1].points == ((0.1, 37.7),)
    text = text_of(experiment, rows, tmp_path)
    bursts = "40 % of its packets are in trains of 16 or 17, within 10 points"
    assert f"picoquic, cubic: not met: {bursts}: 80.0 %." in text
    (block / "sender.pcap").unlink()
    assert "in trains of 16" not in text_of(experiment, rows, tmp_path)


def test_distributions_are_grouped_as_in_the_figures_of_the_paper() -> None:
    """Servers (2, 3), controls and GSO (4, 6), qdiscs (5). The page draws every distribution."""
    experiment = find("pacing")
    rows = [trial(cell) for cell in experiment.cells()]
    sent = SendingDistribution((50.0,) * 200 + (100.0,), {1: 60.0, 16: 40.0})
    found = [replace(line, distribution=sent) for line in pacing_cells.cells(experiment, Path(), rows)]
    made = pacing_panels.panels(found)
    assert figures.undrawn(made) == []
    labels = {
        panel.title: [series.label for series in panel.series] for panel in made if panel.across == TRAINS
    }
    ours = {title: list(dict.fromkeys(group)) for title, group in labels.items()}
    assert set(ours["CUBIC, no qdisc"]) == {"ngtcp2-gnutls", "picoquic", "quiche", "quinn", "tcp-nginx"}
    assert ours["quiche, etf"] == ["bbr", "bbr paced GSO", "cubic", "cubic GSO", "cubic paced GSO"]
    assert ours["tcp-nginx cubic GSO"] == ["none", "fq", "fq_codel"]
    # The server's cell with published values represents it.
    (servers,) = (panel for panel in made if (panel.title, panel.across) == ("CUBIC, no qdisc", TRAINS))
    quiche = [
        series.points for series in servers.series if (series.label, series.published) == ("quiche", True)
    ]
    assert quiche == [((1.0, 9.3), (5.0, 89.3))]
    # Each cell is drawn at least once, also without the others.
    for line in found:
        assert len(pacing_panels.panels([line])) == 4 + 2, line.cell


def test_tcp_drops_fewer_packets_than_quic() -> None:
    """Table 1, and trains of up to five. fq with TCP is not in the paper."""
    cubic = {"congestion_control": "cubic", "qdisc": "none", "gso": True}
    tcp = named(server="tcp-nginx", **cubic)
    rows = [
        trial(tcp, share_in_trains_le5=0.9991, queue_drops=16),
        trial(named(**{**cubic, "server": "tcp-nginx", "qdisc": "fq"}), queue_drops=17),
        trial(named(server="quiche", **cubic), queue_drops=17),
        trial(named(server="ngtcp2-gnutls", **cubic), queue_drops=503),
        # Without published values for these conditions.
        trial(named(**{**cubic, "server": "quiche", "gso": False}), queue_drops=1),
    ]
    shown = text_of(find("pacing"), rows)
    fewer = "fewer packets are dropped than of each QUIC server: 16; quiche 17, ngtcp2-gnutls 503."
    assert f"tcp-nginx, cubic: met: {fewer}" in shown
    short = "99.9 % of its packets are in trains of at most five"
    assert f"tcp-nginx, cubic: met: {short}: 99.91 %." in shown
    assert "tcp-nginx, cubic: met: fq" not in shown and "tcp-nginx, cubic: not met: fq" not in shown
    rows[0] = trial(tcp, share_in_trains_le5=0.9989, queue_drops=17)
    shown = text_of(find("pacing"), rows)
    assert f"tcp-nginx, cubic: not met: {short}: 99.89 %." in shown
    assert "tcp-nginx, cubic: not met: fewer packets are dropped" in shown


def test_without_rollbacks_fewer_packets_are_dropped() -> None:
    """Section 4.2, Tables 1 and 2. Both changed servers have the published values."""
    cubic = {"congestion_control": "cubic", "gso": True, "gso_paced": False}
    drops = {
        ("quiche", "none"): 687,
        ("quiche", "fq"): 1022,
        ("quiche-sf", "none"): 40,
        ("quiche-sf", "fq"): 1023,
    }
    drops |= {("quiche-sf-paced", "none"): 39, ("quiche-sf-paced", "fq"): 6}
    rows = [
        trial(named(**cubic, server=server, qdisc=qdisc), queue_drops=dropped, transfer_us=2_600_000)
        for (server, qdisc), dropped in drops.items()
    ]
    found = pacing_cells.cells(find("pacing"), Path(), rows)
    published = [line.published and line.published.dropped for line in found]
    assert published == [687.15, 1022.55, 39.45, 6.35, 39.45, 6.35]
    shown = text_of(find("pacing"), rows)
    fewer, fq = "fewer packets are dropped than of quiche", "fq drops fewer than no qdisc"
    for verdict in (
        f"quiche-sf, cubic, qdisc none, GSO on: met: {fewer}: 40 and 687.",
        f"quiche-sf, cubic, qdisc fq, GSO on: not met: {fewer}: 1023 and 1022.",
        f"quiche-sf, cubic, qdisc fq, GSO on: not met: {fq}: 1023 and 40.",
        f"quiche-sf-paced, cubic, qdisc fq, GSO on: met: {fq}: 6 and 39.",
    ):
        assert verdict in shown
    assert shown.count(fewer) == 4 and shown.count(fq) == 2


def test_larger_buffers_have_more_bursts() -> None:
    experiment = find("gso-buffers")
    cells = {(cell.gso_segments, cell.gso_paced, cell.gso): cell for cell in experiment.cells()}
    shares = {2: 0.5, 4: 0.75, 8: 0.88, 16: 0.94}
    rows = [trial(cells[size, False, True], gaps_up_to_100us_share=share) for size, share in shares.items()]
    rows += [trial(cells[None, False, False], gaps_up_to_100us_share=0.01), trial(cells[16, True, True])]
    expected = "the more datagrams fill a buffer, the more gaps are at most 0.1 ms"
    shown = text_of(experiment, rows)
    assert f"quiche, bbr, qdisc fq: met: {expected}: 2: 50.0 %, 4: 75.0 %, 8: 88.0 %, 16: 94.0 %." in shown
    rows[1] = trial(cells[4, False, True], gaps_up_to_100us_share=0.5)
    assert f"not met: {expected}" in text_of(experiment, rows)
    sent = SendingDistribution((50.0,) * 200 + (100.0,), {1: 60.0, 16: 40.0})
    lines = pacing_cells.cells(experiment, Path(), [trial(cell) for cell in experiment.cells()])
    made = pacing_panels.panels([replace(line, distribution=sent) for line in lines])
    assert figures.undrawn(made) == []
    labels = {series.label for panel in made if panel.across == TRAINS for series in panel.series}
    assert {"bbr", "bbr GSO", "bbr GSO 2", "bbr paced GSO 16"} < labels


def test_paced_buffers_are_compared_with_others_and_with_none() -> None:
    bbr = {"server": "quiche", "congestion_control": "bbr", "qdisc": "fq"}
    rows = [
        trial(named(**bbr, gso=False), share_in_trains_1=0.85, queue_drops=160),
        trial(named(**bbr, gso=True, gso_paced=False), share_in_trains_1=0.1, queue_drops=6),
        trial(named(**bbr, gso_paced=True), share_in_trains_1=0.81, queue_drops=5),
        trial(named(**{**bbr, "qdisc": "none"}, gso=True), queue_drops=7),
    ]
    experiment = find("pacing")
    assert sorted(cell.buffers for cell in pacing_cells.cells(experiment, Path(), rows)) == [
        "off",
        "on",
        "on",
        "paced",
    ]
    shown = text_of(experiment, rows)
    for verdict in (
        "met: without GSO at least 70 points more of the packets are alone: +75.0 points.",
        "met: with GSO fewer packets are dropped than without GSO: 6 and 160.",
        "met: with paced GSO at least 70 points more of the packets are alone: +71.0 points.",
        "not met: with GSO fewer packets are dropped than with paced GSO: 6 and 5.",
        "not met: paced GSO leaves as many packets alone as without GSO, within 3 points: -4.0 points.",
        "not met: paced GSO drops as many packets as without GSO, within 10 %: 5 and 160.",
    ):
        assert f"quiche, bbr, qdisc fq: {verdict}" in shown
    assert "quiche, bbr, with GSO: not met: fq drops more than no qdisc: 6 and 7." in shown
    assert shown.count(": met: ") + shown.count(": not met: ") == 7


def test_published_values_are_shown_for_cells_of_their_conditions() -> None:
    """The paper's quiche had GSO."""
    cubic = {"server": "quiche", "congestion_control": "cubic"}
    wanted = {
        ("none", True, False): 687.15,
        ("none", False, False): None,
        ("fq", True, False): 1022.55,
        ("fq", False, False): None,
        ("etf", True, False): 104.95,
        ("etf", True, True): 90.35,
    }
    experiment = find("pacing")
    rows = [
        trial(named(**cubic, qdisc=qdisc, gso=gso, gso_paced=spread), transfer_us=2_000_000 + 1000 * number)
        for number, (qdisc, gso, spread) in enumerate(wanted)
    ]
    found = pacing_cells.cells(experiment, Path(), rows)
    assert {
        (cell.qdisc, cell.gso, cell.gso_paced): cell.published and cell.published.dropped for cell in found
    } == wanted
    shown = text_of(experiment, rows)
    assert "Published, without a cell here" not in shown
    others = tuple(cell for cell in experiment.cell if not cell["server"].startswith("quiche-sf"))
    without = text_of(experiment.model_copy(update={"cell": others}), rows)
    sf = "quiche-sf, cubic, qdisc fq, with paced GSO"
    assert f"Published, without a cell here: {sf}: 166 dropped, 31.71 Mbit/s, 9.8 % of gaps" in without
    assert without.count("Published, without a cell here") == 4
    order = "cubic none GSO > cubic fq GSO > cubic etf GSO > cubic etf paced GSO"
    assert f"quiche: met: goodput in the published order: {order}: cubic none GSO 41.94, " in shown


def test_published_values_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "hide")
    experiment = experiment_files.read(experiment_files.FOLDER / "pacing.toml")
    cell = named(server="ngtcp2-gnutls", congestion_control="reno")
    text = text_of(experiment, [trial(cell)])
    assert "publ" not in text.partition("\n\n")[2] and "goodput" in text
    (line,) = measures.results(experiment, Path(), [trial(cell)]).lines
    assert line.as_dict()["published"] is None


def test_a_reason_is_printed_with_each_unmet_check() -> None:
    experiment = find("pacing")
    made = experiment.model_copy(
        update={"reason": (UnmetReason(of=("quiche, cubic", "fq drops"), reason="a reason"),)}
    )
    cubic = {"server": "quiche", "congestion_control": "cubic", "gso": False}
    for fewer, text in ((600, "    The captures show: a reason.\n"), (700, "")):
        rows = [
            trial(named(**cubic, qdisc="none"), queue_drops=687),
            trial(named(**cubic, qdisc="fq"), queue_drops=fewer),
        ]
        shown = text_of(made, rows)
        assert ("a reason" in shown) == bool(text) and text in shown


def test_the_row_has_the_values_of_the_senders_capture() -> None:
    bare = trial_row.without_trial(
        "x", named(server="quiche", congestion_control="bbr", qdisc="fq", gso=False), 1, "", None
    )
    of_trial = {
        **dict.fromkeys(
            (
                "end",
                "detail",
                "dropped",
                "reordered",
                "queue_drops",
                "queue_to_server_drops",
                "drop_to_server",
            )
        ),
        "begun_ns": 10,
        "ended_ns": 20,
        "client_version": "quiche/1",
        "transfer_us": 1,
        "body_received": 0,
    }
    sent = {
        "start_time_ns": 15,
        "src_ip": path.SERVER_IP,
        "packets": 201,
        "gaps_up_to": str([0] * 10 + [50] + [200] * 190),
        "gap_p50_ns": 7,
        "share_in_trains_1": 0.5,
        "share_in_trains_le5": 1.0,
        "longest_train": 3,
    }
    others = [{**sent, "start_time_ns": 25}, {**sent, "src_ip": path.CLIENT_IP}]
    late = trial_row.CaptureContent(pacing=[sent, *others], late_p99_us=lambda begun, ended: begun + ended)
    row = trial_row.of_trial(bare, of_trial, late)
    assert (row["gaps_up_to_100us_share"], row["gap_p50_ns"], row["longest_train"]) == (0.25, 7, 3)
    assert row["link_late_p99_us"] == 30
    twice = trial_row.of_trial(bare, of_trial, trial_row.CaptureContent(pacing=[sent, sent]))
    assert (twice["gaps_up_to_100us_share"], twice["gap_p50_ns"], twice["link_late_p99_us"]) == (None,) * 3


def capture(file: Path, datagrams: list[tuple[int, bytes]], headers: bytes = bytes(42)) -> Path:
    """Write a capture with nanosecond times; each datagram's payload follows `headers`."""
    content = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)
    for time_ns, payload in datagrams:
        frame = headers + payload
        content += struct.pack("=IIII", *divmod(time_ns, 10**9), len(frame), len(frame)) + frame
    file.write_bytes(content)
    return file


def test_lateness_is_what_exceeds_the_delay(tmp_path: Path) -> None:
    second = 10**9
    came_in = [(second + number * 1000, bytes([number]) * 70) for number in range(100)]
    # 5 ms of delay; the last but one 70 us late, the last lost; the first a second time.
    came_out = [
        (time + 5_000_000 + (70_000 if payload[0] == 98 else 3000), payload) for time, payload in came_in[:99]
    ]
    link = Lateness(
        capture(tmp_path / "in", [*came_in, (3 * second, came_in[0][1])]),
        capture(tmp_path / "out", came_out),
        5,
    )
    assert link.p99_us(second, 2 * second) == 3
    assert link.p99_us(second + 97_000, 2 * second) == 3
    assert link.p99_us(second + 98_000, 2 * second) == 70
    assert link.p99_us(0, 1) is None
    cut = tmp_path / "cut"
    cut.write_bytes((tmp_path / "in").read_bytes()[:200])
    assert Lateness(cut, tmp_path / "out", 5).p99_us(0, 2 * second) == 3
    cut.write_bytes(b"")
    assert Lateness(cut, tmp_path / "out", 5).p99_us(0, 2 * second) is None
