"""Trials of the testbed as a record file, in the store, and the gain of instant ACK there and in `show`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firstflight.errors import InputError
from reports import query
from schemas import records
from store import open_store
from store.load import loader
from testbed.experiment.cell import Cell
from testbed.trials import record_file, trial_row
from testbed.trials.captures import block_files
from tests.testbed.experiments import find, lines

pytestmark = pytest.mark.usefixtures("emptied_tables")

OTHERS = ("failed", "not_captured", "guest_failed", "unavailable")


def trial(cell: Cell, repetition: int, first_stream_us: int | None, **more: object) -> dict[str, Any]:
    """Return the row for a trial with a response after `first_stream_us`, or without any response."""
    bare = trial_row.without_trial("iack-ttfb", cell, repetition, "guest_failed", None)
    if first_stream_us is None:
        return bare
    done = {
        "begun_ns": 1000,
        "ended_ns": 2000,
        "end": "complete",
        "detail": None,
        "dropped": 0,
        "reordered": 0,
        "queue_drops": 0,
        "queue_to_server_drops": 0,
        "drop_to_server": [3],
        "transfer_us": first_stream_us + 5,
        "body_received": 0,
        "client_version": f"{cell.client}/1.2",
    }
    captured = {
        **dict.fromkeys(trial_row.MEASURES),
        "start_time_ns": 1500,
        "first_stream_us": first_stream_us,
        "first_ack_us": first_stream_us - 11,
        "first_answer": "iack",
        "rtt_series_us": "[9001, 9002]",
        "pto_series_us": "[27003, 1]",
    }
    return {**trial_row.of_trial(bare, done, trial_row.CaptureContent([captured])), "seed": 2**64 - 1, **more}


def cells() -> list[Cell]:
    both = [Cell(client="quinn", server="aioquic", answering=name) for name in ("wfc", "iack")]
    without_pair = Cell(
        client="go-x-net", server="aioquic", answering="wfc", rtt_ms=0.5, drop_to_client=(2, 3)
    )
    return [*both, without_pair]


def written(out: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as blocks do, and then the record file."""
    for number, row in enumerate(rows):
        folder = out / "iack-ttfb" / row["cell"] / f"{number:04d}"
        folder.mkdir(parents=True)
        (folder / block_files.ROWS).write_text(json.dumps(row) + "\n", encoding="utf-8")
    return record_file.write(out, "iack-ttfb")


def some_rows() -> list[dict[str, Any]]:
    wfc, iack, single = cells()
    return [
        *(trial(wfc, number, 200_000 + number) for number in (1, 2, 4)),
        trial(wfc, 5, None),
        *(trial(iack, number, 190_000 + number) for number in (1, 3)),
        trial(single, 1, 40_000, partial_ack_us=7),
    ]


def test_a_row_has_the_columns_of_its_kind() -> None:
    kind = records.load(record_file.KIND)
    row = some_rows()[0]
    assert set(row) == set(kind.arrow_schema().names)
    assert (row["rtt_first_us"], row["pto_first_us"]) == (9001, 27003)
    assert (row["client_version"], row["client_build"], row["server_build"]) == ("1.2", "release", "python")
    assert set(kind.column("outcome").values) == {*trial_row._OUTCOMES.values(), *OTHERS}


def test_show_prints_the_values_of_the_store(tmp_path: Path) -> None:
    rows = some_rows()
    file = written(tmp_path, rows)
    assert file == tmp_path / "iack-ttfb" / "testbed_trial.parquet"
    (loaded,) = loader.load_files([file])
    assert isinstance(loaded, loader.Loaded) and loaded.in_store == len(rows), loaded
    shown = [line.as_dict() for line in lines(find("iack-ttfb"), rows)]
    with open_store() as store:
        answers = query.rows(store, "testbed_gain", {"experiment": "iack-ttfb"})
        assert query.rows(store, "testbed_gain", {"experiment": "another"}) == []
        stored = store.rows("SELECT seed, drop_to_client, toString(outcome) AS o FROM testbed_trial")
    assert len(answers) == len(shown) == 2
    for ours, theirs in zip(answers, shown, strict=True):
        common = {name: ours[name] for name in theirs if name in ours}
        assert len(common) >= 12
        assert common == {name: pytest.approx(theirs[name]) for name in common}
    assert answers[1]["gain_ms"] == pytest.approx(200.002 - 190.002)
    assert answers[0]["gain_ms"] is None and answers[0]["partial_acks"] == 1
    assert {row["seed"] for row in stored} == {2**64 - 1, None}
    assert Counter(row["o"] for row in stored) == {"done": 6, "guest_failed": 1}
    assert [2, 3] in [row["drop_to_client"] for row in stored]


def test_cells_that_differ_in_the_qdisc_are_two_rows(tmp_path: Path) -> None:
    both = [
        original.model_copy(update={"qdisc": name}) for name in ("fq", "none") for original in cells()[:2]
    ]
    rows = [trial(cell, 1, 1000 * (10 + number)) for number, cell in enumerate(both)]
    loader.load_files([written(tmp_path, rows)])
    with open_store() as store:
        answers = query.rows(store, "testbed_gain", {"experiment": "iack-ttfb"})
    found = [(row["qdisc"], row["wfc_first_stream_ms"], row["wfc_trials"]) for row in answers]
    assert found == [("fq", 10, 1), ("none", 12, 1)]


def test_each_condition_of_a_scenario_makes_a_separate_row(tmp_path: Path) -> None:
    """Also where the cells' names do not show it: they may not have all conditions."""
    given: list[dict[str, object]] = [
        {},
        {"delay_to_server_ms": 3.0},
        {"certificate_key": "rsa_2048"},
        {"netem_loss_to_client_percent": 1.0},
        {"netem_loss_to_server_percent": 1.0},
        {"reorder_percent": 1.0},
        {"reorder_ms": 5.0},
    ]
    rows = [
        trial(cell, 1 + number, 1000, **more) for number, more in enumerate(given) for cell in cells()[:2]
    ]
    loader.load_files([written(tmp_path, rows)])
    with open_store() as store:
        answers = query.rows(store, "testbed_gain", {"experiment": "iack-ttfb"})
    assert [(row["wfc_trials"], row["iack_trials"]) for row in answers] == [(1, 1)] * len(given)
    for more in given:
        assert [row for row in answers if all(row[name] == value for name, value in more.items())]
    assert len(lines(find("iack-ttfb"), rows)) == len(given)


def test_loading_again_replaces_the_rows_of_the_experiment(tmp_path: Path) -> None:
    loader.load_files([written(tmp_path / "a", some_rows())])
    file = written(tmp_path / "b", some_rows()[:2])
    (refused,) = loader.load_files([file])
    assert isinstance(refused, loader.RefusedFile) and "give --replace" in str(refused.error)
    (loaded,) = loader.load_files([file], replace=True)
    assert isinstance(loaded, loader.Loaded)
    assert (loaded.action, loaded.in_store) == ("replaced", 2)


def test_trials_of_another_version_are_refused(tmp_path: Path) -> None:
    row = some_rows()[0]
    del row["seed"]
    with pytest.raises(InputError, match=r"has trials of another version of firstflight \(cell quinn-"):
        written(tmp_path, [row])
    assert not list(tmp_path.rglob("*.parquet*"))
    assert pq.read_table(written(tmp_path / "whole", some_rows())).num_rows == len(some_rows())
