"""The survey of TCP options on hand-made rows, with shares computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports import query
from reports.downloads import option_survey
from store import open_store
from store.load import loader
from tests.store.rows import DAY_NS, RUN, tcp_option, write

pytestmark = pytest.mark.usefixtures("emptied_tables")

MSS = ["mss_below_1220", "mss_from_1220", "mss_from_1400", "mss_from_1440", "mss_from_1460"]
NO_ANSWER = {"outcome": "timeout", "ecn": None, "sack": None, "window_scaling": None, "timestamps": None}
# Of 1,000 names, how many agree to (ECN, SACK, window scaling), with the sums that the paper published.
PUBLISHED = {
    (True, True, True): 810,
    (True, True, False): 25,
    (True, False, True): 22,
    (False, True, True): 69,
    (True, False, False): 1,
    (False, True, False): 10,
    (False, False, True): 10,
    (False, False, False): 53,
}


def load(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    units = {(row["vantage"], row["repetition"]) for row in rows}
    paths = []
    for vantage, repetition in sorted(units):
        of_unit = [row for row in rows if (row["vantage"], row["repetition"]) == (vantage, repetition)]
        path = tmp_path / vantage / str(repetition) / "tcp_option.parquet"
        paths.append(write(path, of_unit, "tcp_option"))
    loader.load_files(paths)


def ask(columns: str, **given: str) -> list[list[Any]]:
    with open_store() as store:
        rows = query.rows(store, "tcp_option_shares", given)
    return [[row[column] for column in columns.split()] for row in rows]


def options(name: str, ecn: bool | None, sack: bool, ws: bool, **changes: Any) -> dict[str, Any]:
    return tcp_option(domain=f"{name}.example", ecn=ecn, sack=sack, window_scaling=ws, **changes)


def survey() -> list[dict[str, Any]]:
    """Return 1,000 answers from different addresses with the paper's shares."""
    agreed = [three for three, count in PUBLISHED.items() for _ in range(count)]
    return [options(f"name{n}", *three, ip=f"198.18.{n // 250}.{n % 250}") for n, three in enumerate(agreed)]


def test_the_published_shares_are_counted_as_published(tmp_path: Path) -> None:
    load(tmp_path, survey())
    with open_store() as store:
        ours = option_survey.collect(store, RUN)
    found = {(value.row, value.column): value.value for value in ours}
    published = {value.column: value.value for value in option_survey.published()}
    assert published == {"none": 5.3, "all_three": 81.0, "ecn": 85.8, "sack": 91.4, "ws": 91.1}
    for row in ("hamburg names", "hamburg addresses"):
        assert found[row, "answered"] == 1000
        assert {column: found[row, column] for column in published} == published
    lines = option_survey.text([*ours, *option_survey.published()]).splitlines()
    shares = ["5.3", "81.0", "85.8", "91.4", "91.1"]
    assert lines[3].split() == [
        "hamburg",
        "names",
        "ours",
        "1000",
        "1000",
        *shares,
        "100.0",
        *["0.0"] * 4,
        "100.0",
    ]
    assert lines[4].split() == ["names", "ANRW", "2023", *shares]
    assert lines[5].split()[:3] == ["hamburg", "addresses", "ours"]
    assert len(lines) == 6


def test_each_name_and_each_address_counts_once(tmp_path: Path) -> None:
    later = {"sent_at": DAY_NS + 1}
    rows = [
        # Two names at the same address; the second is measured later.
        options("a", True, True, True),
        options("b", False, True, False, **later),
        # A name at two addresses and in two repetitions: the first answer counts.
        options("c", False, False, False, ip="198.18.48.2"),
        options("c", True, True, True, ip="198.18.48.3", **later),
        options("c", True, True, True, ip="198.18.48.2", repetition=2),
        # A lost SYN hides ECN; a later answer shows it.
        options("d", None, True, True, ip="198.18.48.4"),
        options("d", False, True, True, ip="198.18.48.4", repetition=2),
        # No answer shows ECN.
        options("e", None, True, False, ip="198.18.48.5", timestamps=None),
        tcp_option(domain="f.example", ip="198.18.48.6", mss=None, **NO_ANSWER),
        # An answer, of two attempts.
        tcp_option(domain="g.example", ip="198.18.48.7", mss=None, **NO_ANSWER),
        options("g", True, False, True, ip="198.18.48.7", repetition=2, timestamps=False),
        tcp_option(domain="h.example", ip="198.18.48.8", mss=None, **NO_ANSWER | {"outcome": "blocked"}),
        tcp_option(domain="i.example", ip="198.18.48.9", mss=None, **NO_ANSWER | {"outcome": "send_failed"}),
        options("a", False, False, True, vantage="hong_kong"),
    ]
    load(tmp_path, rows)
    counts = "vantage counted_by asked answered three_known"
    assert ask(counts) == [
        ["hamburg", "names", 7, 6, 5],
        ["hamburg", "addresses", 7, 6, 5],
        ["hong_kong", "names", 1, 1, 1],
        ["hong_kong", "addresses", 1, 1, 1],
    ]
    assert ask(counts, vantage="hong_kong") == ask(counts)[2:]
    assert ask(counts, run="another") == []
    shares = "none_share all_three_share ecn_share sack_share window_scaling_share timestamps_share"
    names, addresses = ask(shares, vantage="hamburg")
    # Of a, b, c, d, g, and e where only ECN is not known.
    assert names == pytest.approx([1 / 5, 1 / 5, 2 / 5, 4 / 6, 3 / 6, 4 / 5])
    # Of .1 (as a), .2 (c), .3 (c), .4 (d), .5 (e), .7 (g).
    assert addresses == pytest.approx([1 / 5, 2 / 5, 3 / 5, 4 / 6, 4 / 6, 4 / 5])


def test_without_answers_there_are_no_shares(tmp_path: Path) -> None:
    load(tmp_path, [tcp_option(mss=None, **NO_ANSWER)])
    assert ask(f"asked answered none_share ecn_share timestamps_share {MSS[0]}") == [[1, 0, *[None] * 4]] * 2
    with open_store() as store:
        shown = option_survey.text(option_survey.collect(store, RUN)).splitlines()
    assert shown[-1].split() == ["hamburg", "addresses", "ours", "1", "0", *["-"] * 11]


@pytest.mark.parametrize(
    ("mss", "at"),
    [
        (536, 0),
        (1219, 0),
        (1220, 1),
        (1399, 1),
        (1400, 2),
        (1439, 2),
        (1440, 3),
        (1459, 3),
        (1460, 4),
        (65495, 4),
    ],
)
def test_classes_of_the_largest_segment_are_half_open(tmp_path: Path, mss: int, at: int) -> None:
    load(tmp_path, [tcp_option(mss=mss)])
    assert ask(" ".join(MSS)) == [[float(n == at) for n in range(5)]] * 2


def test_a_run_without_survey_differs_from_one_without_answers() -> None:
    with open_store() as store:
        assert option_survey.collect(store, RUN) == []
    shown = option_survey.text(option_survey.published())
    assert "81.0" in shown
    assert shown.endswith("The run has no survey in the store: its settings need [tcp_options] enabled.\n")
