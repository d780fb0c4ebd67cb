"""The composition of a client's bytes: parts, shares and verdicts from hand-made rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed import experiment_files, measures
from testbed.experiment.cell import Cell
from testbed.measures import ack_bytes
from testbed.trials import trial_row
from tests.testbed.experiments import find

OWN = find("ack-bytes")
LONG = max(cell.body_bytes for cell in OWN.cells())


def named(client: str, body_bytes: int) -> Cell:
    found: Cell
    (found,) = (cell for cell in OWN.cells() if (cell.client, cell.body_bytes) == (client, body_bytes))
    return found


def trial(cell: Cell, **more: object) -> dict[str, Any]:
    """Return a row with 10 datagrams of 600 bytes in all for 100,000 of the server."""
    made = {
        **trial_row.without_trial("x", cell, 1, "done", None),
        **{f"bytes_{kind}": 10 for kind in ack_bytes.KINDS[1:-1]},
        "bytes_headers": 50,
        "bytes_tags": 160,
        "bytes_crypto": 40,
        "bytes_other": 40,
        "datagrams_client": 10,
        "ip_bytes_client": 600,
        "ip_bytes_server": 100_000,
        "ack_only_ip_bytes": 400,
        "ack_packets": 8,
        "bundled_packets": 2,
    }
    return {**made, **more}


def test_parts_are_all_of_a_clients_bytes() -> None:
    row = trial(named("quinn", LONG))
    found = ack_bytes.parts(row)
    assert found == {
        "udp_ip": 280,
        "headers": 50,
        "tags": 160,
        "ack": 10,
        "crypto": 40,
        "stream": 10,
        "padding": 10,
        "other": 40,
        "outside": 0,
    }
    assert sum(value or 0 for value in found.values()) == row["ip_bytes_client"]
    assert ack_bytes.parts({**row, "ip_bytes_client": 650})["outside"] == 50
    nothing = trial_row.without_trial("x", named("quinn", LONG), 1, "timeout", None)
    assert set(ack_bytes.parts(nothing).values()) == {None}


def test_shares_are_of_the_servers_bytes() -> None:
    (found,) = ack_bytes.cells(OWN, [trial(named("quinn", LONG))])
    shares = [found.client_percent, found.udp_ip, found.tags, found.ack_only_percent, found.all_headers]
    assert shares == pytest.approx([0.6, 0.28, 0.16, 0.4, 0.33])
    assert (found.tags_percent, found.bundled_percent) == (80, 25)
    assert found.published is None
    (empty,) = ack_bytes.cells(OWN, [trial(named("quinn", LONG), ip_bytes_server=None, bytes_tags=None)])
    assert (empty.client_percent, empty.tags, empty.tags_percent, empty.all_headers) == (None,) * 4


@pytest.mark.parametrize(
    ("client", "more", "expected"),
    [
        ("chromium", {}, [True, False, False]),
        ("chromium", {"bundled_packets": 1, "bytes_crypto": 20}, [True, True, True]),
        ("chromium", {"ack_only_ip_bytes": 1001}, [False, False, False]),
        # Published of Firefox are both bounds, and nothing of long streams' bundling.
        ("firefox", {}, [False, False]),
        ("firefox", {"ack_only_ip_bytes": 2500, "bytes_tags": 360}, [True, True]),
    ],
)
def test_verdicts_of_the_papers_browsers(client: str, more: dict[str, int], expected: list[bool]) -> None:
    rows = [trial(named(client, LONG), **more), trial(named(client, 10_000))]
    page = measures.results(OWN, Path(), rows).summary()
    assert [check.met for check in page.checks] == expected
    text = page.text(terminal=False)
    assert "<= 100" in text
    assert ("2-3" in text) is (client == "firefox")


def test_a_video_has_connections() -> None:
    """The paper counted 14 for Chromium, with a player that contacts several hosts."""
    video = find("ack-video")
    cells = {cell.client: cell for cell in video.cells() if cell.think_ms == 3000}
    rows = [trial(cells["chromium"], connections=number) for number in (1, 3, 3)]
    rows.append(trial(cells["firefox"], connections=2, bytes_tags=None, ip_bytes_client=None))
    chromium, firefox = ack_bytes.cells(video, rows)
    assert (chromium.responses, chromium.connections, firefox.connections) == (85, 3, 2)
    assert chromium.published is not None and chromium.published.connections == 14
    text = measures.results(video, Path(), rows).summary().text(terminal=False)
    (line,) = (line.split() for line in text.splitlines() if line.startswith("chromium "))
    assert line[1:6] == ["500", "85", "3", "3", "14"]
    single = measures.results(OWN, Path(), [trial(named("quinn", LONG))]).summary().text(terminal=False)
    assert "conn-" in text and "conn-" not in single


def test_published_values_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [trial(named("firefox", LONG))]
    shown = measures.results(OWN, Path(), rows).summary()
    assert shown.legend.endswith("Published of TCP, an ACK for two packets: 1.33 %.\n")
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "hide")
    experiment = experiment_files.read(experiment_files.FOLDER / "ack-bytes.toml")
    hidden = measures.results(experiment, Path(), rows).summary()
    assert hidden.checks == [] and "publ" not in hidden.text(terminal=False).lower().partition("\n\n")[2]


def test_a_figure_has_the_parts_of_each_length_and_what_is_bundled() -> None:
    rows = [trial(named("firefox", 10_000)), trial(named("chromium", 10_000)), trial(named("quinn", LONG))]
    panels = ack_bytes.panels(ack_bytes.cells(OWN, rows))
    assert [panel.title for panel in panels] == ["Body of 10 kB"] * 2 + [f"Body of {LONG / 1000:g} kB"] * 2
    assert [series.label for series in panels[0].series] == [
        "headers",
        "tags",
        "ack",
        "crypto",
        "stream",
        "padding",
    ]
    assert [(series.published, series.points) for series in panels[1].series] == [
        (False, (("chromium", 25), ("firefox", 25))),
        (True, (("chromium", 100), ("firefox", 100))),
    ]
