"""The registry of measures: a module and an experiment's file add a measure."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.lab.testbed import command
from deploy.docs import experiments as reference
from firstflight.errors import UsageError
from testbed import experiment_files, measures
from testbed.experiment.cell import Cell
from testbed.experiment.conditions import NAMES
from testbed.experiment.experiment import Experiment
from testbed.trials import block, trial_row

MODULE = '''
"""How long handshakes take."""

from dataclasses import asdict, dataclass

from pydantic import Field

from reports.numbers.compared import ComparisonPanel, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import OfPaper
from testbed.measures import Measure, Results
from testbed.summary import Check, number, page
from testbed.trials.cell_rows import by_cell, column, done, median_ms


class Handshake(OfPaper):
    """A client's published handshake."""

    client: str = Field(description="The client.")
    within_ms: float = Field(description="The longest median.")


class Handshakes(Experiment):
    """How long handshakes take."""

    handshake: tuple[Handshake, ...] = Field(default=(), description="Published values.")


@dataclass(frozen=True)
class Took:
    client: str
    done_ms: float | None

    def as_dict(self):
        return asdict(self)


def results(experiment, _folder, rows):
    found = [
        Took(cell.client, median_ms(done(own), column("handshake_done_us")))
        for cell, own in by_cell(experiment, rows)
    ]
    columns = [
        PrintedColumn("client", [one.client for one in found], right=False),
        PrintedColumn("handshake", [number(one.done_ms, 1) for one in found]),
    ]
    times = {one.client: one.done_ms for one in found}
    checks = [
        Check(one.client, f"within {one.within_ms:g} ms", f"{ours:g} ms", ours <= one.within_ms)
        for one in experiment.handshake
        if (ours := times[one.client]) is not None
    ]
    points = [(one.client, one.done_ms) for one in found]
    return Results(
        found,
        lambda: page(experiment, columns, "Medians in ms.\\n", checks, [], len(found)),
        lambda: [ComparisonPanel("Handshakes", "Time [ms]", series("handshake", points))],
    )


MEASURE = Measure(Handshakes, results)
'''
FILE = """
title = "Handshakes of two clients"
measure = "handshakes"
repetitions = 3
[held]
server = "quinn"
answering = "wfc"
[vary]
client = ["quinn", "quiche"]
[[handshake]]
edition = "own"
client = "quinn"
within_ms = 20
[[handshake]]
edition = "own"
client = "quiche"
within_ms = 20
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a further module of measures, and an experiment's file that names it."""
    (tmp_path / "measures").mkdir()
    (tmp_path / "measures" / "handshakes.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "own.toml").write_text(FILE, encoding="utf-8")
    monkeypatch.setattr(measures, "__path__", [*measures.__path__, str(tmp_path / "measures")])
    yield tmp_path
    measures.find.cache_clear()
    sys.modules.pop("testbed.measures.handshakes", None)


def test_a_module_and_a_file_add_a_measure(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It has a table with a verdict, lines, a page with a figure, and a section of the reference."""
    for cell, took_ms in zip(experiment_files.read(own / "own.toml").cells(), (18, 21), strict=True):
        place = own / "out" / "own" / cell.name / "0001-0003"
        place.mkdir(parents=True)
        rows = [
            {
                **trial_row.without_trial("own", cell, number, "done", None),
                "handshake_done_us": 1000 * took_ms + number - 2,
            }
            for number in (1, 2, 3)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (place / "testbed_trial.jsonl").write_text(lines, encoding="utf-8")

    def shown(*arguments: str) -> str:
        where = ["--scenario", str(own / "own.toml"), "--out", str(own / "out")]
        command(["show", *arguments, *where], standalone_mode=False)
        return capfd.readouterr().out

    text = shown()
    assert text.startswith("Handshakes of two clients.\n") and "Medians in ms.\n" in text
    assert "quinn: met: within 20 ms: 18 ms.\nquiche: not met: within 20 ms: 21 ms.\n" in text
    assert [json.loads(line) for line in shown("--format", "jsonl").splitlines()] == [
        {"client": "quinn", "done_ms": 18.0},
        {"client": "quiche", "done_ms": 21.0},
    ]
    page = shown("--page", str(own / "page.html")).strip()
    assert "<svg" in Path(page).read_text(encoding="utf-8")
    section = reference.markdown().partition("### handshakes\n")[2]
    assert section.startswith("\nHow long handshakes take.\n") and "### handshake\n" in section


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('measure = "handshakes"', 'measure = "handshake"', "own.toml: measure: 'handshake' is none of ack_"),
        ('measure = "handshakes"', "measure = [1]", r"own.toml: measure: \[1\] is none of ack_"),
        ('measure = "handshakes"', 'measure = "pacing"', "own.toml: handshake: no such setting"),
        ("within_ms = 20", "", r"own.toml: handshake\.0\.within_ms: missing"),
    ],
)
def test_a_table_is_of_its_measure(own: Path, before: str, after: str, message: str) -> None:
    (own / "own.toml").write_text(FILE.replace(before, after), encoding="utf-8")
    with pytest.raises(UsageError, match=message) as error:
        experiment_files.read(own / "own.toml")
    assert "\n" not in str(error.value)


def test_a_cell_has_words_and_a_place_in_seeds_for_each_field() -> None:
    fields = set(Cell.model_fields)
    assert set(block.SEEDING) == fields and len(block.SEEDING) == len(fields)
    assert set(NAMES) == fields - {"named"}


@pytest.mark.parametrize(
    ("name", "cell", "seed"),
    [
        ("ack-ratio", "quinn-quinn-wfc-95ms-10up-reno-ar2-25late", 1119783510889142711),
        ("iack-ttfb", "ngtcp2-aioquic-iack-9ms", 2863815071950984380),
        ("pacing", "quiche-quiche-wfc-40ms-1000up-bbr-at-fq-paced-gso", 8548787045287381850),
    ],
)
def test_seeds_never_change(name: str, cell: str, seed: int) -> None:
    """Stored trials and the digests of `testbed verify` depend on these seeds."""
    (found,) = (each_cell for each_cell in experiment_files.find(name).cells() if each_cell.name == cell)
    assert block.blocks(name, found, 3)[0].seed == seed


def test_the_reference_explains_each_key_of_each_measure() -> None:
    page = reference.markdown()
    for name in measures.names():
        model = measures.find(name).experiment
        section = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        measure_keys = [key for key in model.model_fields if key not in Experiment.model_fields]
        assert [key for key in measure_keys if f"| `{key}` |" not in section] == [], name
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 130
    assert [row[0] for row in rows if len(row) != 4 or len(row[3]) < 8] == []
