"""Acknowledgements of trials in the store, and in `show`."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports import query
from store import open_store
from store.load import loader
from testbed.experiment.cell import Cell
from testbed.measures.acknowledgements import cells
from tests.queries.testbed.test_gain import written
from tests.testbed.experiments import find
from tests.testbed.measures.test_acks import named, trial

pytestmark = pytest.mark.usefixtures("emptied_tables")

SAME = {
    "transfer_ms": "transfer_ms",
    "acks": "acks_p50",
    "eliciting_per_ack": "eliciting_per_ack_p50",
    "ack_bytes": "ack_bytes_p50",
}
PERCENT = {
    "timer_percent": "timer_share_p50",
    "bundled_percent": "bundled_share_p50",
    "client_percent": "client_share_p50",
}


def test_each_condition_of_a_scenario_makes_a_separate_row(tmp_path: Path) -> None:
    """Also where the cells' names do not show it."""
    given: list[dict[str, object]] = [
        {},
        {"delay_to_server_ms": 3.0},
        {"netem_loss_to_client_percent": 1.0},
        {"netem_loss_to_server_percent": 1.0},
        {"reorder_percent": 1.0},
        {"reorder_ms": 5.0},
    ]
    cell = named("ack-ratio", rtt_ms=30, ack_ratio=2)
    rows = [
        {**trial(cell, 1 + number), "experiment": "iack-ttfb", **more} for number, more in enumerate(given)
    ]
    loader.load_files([written(tmp_path, rows)])
    with open_store() as store:
        answers = query.rows(store, "testbed_acks", {"experiment": "iack-ttfb"})
    assert [row["trials"] for row in answers] == [1] * len(given)
    for more in given:
        assert [row for row in answers if all(row[name] == value for name, value in more.items())]


def test_show_prints_the_values_of_the_store(tmp_path: Path) -> None:
    some = [named("ack-ratio", rtt_ms=rtt_ms, ack_ratio=2) for rtt_ms in (30, 95)]
    rows = [trial(cell, number, acks_by_timer=number, queue_drops=1) for cell in some for number in (1, 2, 4)]
    rows.append({**trial(some[1], 5), "outcome": "timeout", "transfer_us": None})
    plain = Cell(client="quinn", server="quinn", answering="wfc")
    bare = [
        {**trial(plain, 1), "experiment": "iack-ttfb"},
        *({**row, "experiment": "iack-ttfb"} for row in rows),
    ]
    (loaded,) = loader.load_files([written(tmp_path, bare)])
    assert isinstance(loaded, loader.Loaded) and loaded.in_store == len(bare), loaded
    shown = [line.as_dict() for line in cells.cells(find("ack-ratio"), rows)]
    shown.sort(key=lambda columns: columns["rtt_ms"])
    with open_store() as store:
        answers = query.rows(store, "testbed_acks", {"experiment": "iack-ttfb"})
    # The cell without a body is missing.
    assert [(answer["trials"], answer["done"]) for answer in answers] == [(3, 3), (4, 3)]
    assert answers[0]["ack_policy"] == "ratio 2, delay 25 ms"
    assert answers[0]["queue_drops_p50"] == 1
    for ours, theirs in zip(answers, shown, strict=True):
        assert {name: ours[column] for name, column in SAME.items()} == {
            name: pytest.approx(theirs[name]) for name in SAME
        }
        assert {name: 100 * ours[column] for name, column in PERCENT.items()} == {
            name: pytest.approx(theirs[name]) for name in PERCENT
        }
