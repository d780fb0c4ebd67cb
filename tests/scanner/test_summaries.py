"""Summaries of a stage's engines: the summary of an earlier start does not count for the last start."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstflight.errors import InputError
from firstflight.system import files
from scanner.driver import summaries


def test_an_engine_that_was_killed_has_no_summary(tmp_path: Path) -> None:
    assert not summaries.exist(tmp_path)
    with pytest.raises(InputError):
        summaries.read(tmp_path)
    summaries.set_aside(tmp_path)
    files.write_json(tmp_path / "summary.json", {"sent": 6})
    assert summaries.read(tmp_path) == {"sent": 6}
    summaries.set_aside(tmp_path)
    # The next engine is stopped before it writes a summary, so the stage starts it once more.
    assert summaries.exist(tmp_path) and not (tmp_path / "summary.json").exists()
    assert summaries.read(tmp_path) == {"sent": 6}


def test_summaries_of_all_starts_are_merged(tmp_path: Path) -> None:
    for number, (missing, greatest) in enumerate([(3, 40), (0, 90), (1, 50)]):
        summaries.set_aside(tmp_path)
        summary = {"missing_tx_stamps": missing, "max_new_per_second": greatest, "sent": number}
        files.write_json(tmp_path / "summary.json", summary)
    expected = {"missing_tx_stamps": 4, "max_new_per_second": 90, "sent": 2}
    assert summaries.read(tmp_path) == expected
    # If there are many summaries, the last one counts.
    for number in range(3, 12):
        summaries.set_aside(tmp_path)
        files.write_json(tmp_path / "summary.json", {"sent": number})
    summaries.set_aside(tmp_path)
    assert summaries.read(tmp_path) == {"sent": 11}
    assert len(list(tmp_path.iterdir())) == 12


def test_a_summary_without_such_counts_stays_as_it_is(tmp_path: Path) -> None:
    files.write_json(tmp_path / "summary.json", {"missing_rx_stamps": 2})
    summaries.set_aside(tmp_path)
    files.write_json(tmp_path / "summary.json", {"rejected": 1})
    assert summaries.read(tmp_path) == {"rejected": 1}
