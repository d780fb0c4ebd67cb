"""Tables 1 and 2 of the ANRW 2023 paper from a run's downloads, with the published values.

Our values and the published ones have the same form: edition, table, row, column, value. Editions: `ours`,
`anrw` (the paper), `warmup` (its authors' later edition with warm-up downloads). Table 1 has counts, Table 2
has percentages.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from firstflight.errors import UsageError
from reports import published_values, query, question
from reports.numbers import bootstrap
from schemas import sql
from store import Store

PUBLISHED = Path(__file__).parents[1] / "published" / "anrw_tables.csv"
OURS = "ours"
EDITIONS = {OURS: "ours", "anrw": "ANRW 2023", "warmup": "with warm-ups"}
TABLES = {
    "1": "Table 1: names with a successful download in the first repetition (_Q: over QUIC).",
    "2": "Table 2: throughput of one set over that of another, percent of the pairs; + is faster.",
}
# Published column -> the columns of the view anrw_table2 that it sums.
BINS = {
    "<0.5": ("below_05",),
    "0.5-0.6": ("from_05",),
    "0.6-0.7": ("from_06",),
    "0.7-0.8": ("from_07",),
    "0.8-0.9": ("from_08",),
    "0.9-1.0": ("from_09",),
    "1.0-1.1": ("from_10",),
    "1.1-1.2": ("from_11",),
    ">1.2": ("from_12", "from_13", "from_15", "from_20"),
    "1.2-1.3": ("from_12",),
    "1.3-1.5": ("from_13",),
    "1.5-2": ("from_15",),
    ">2": ("from_20",),
}
_COUNTS = ("pairs", "names", "limited")
# Sets as the paper writes them; QUIC stacks are written as they are.
_NAMES = {name: name.upper() for name in ("bl", "ecn", "sack", "ws14", "all14", "all7", "warmup")}


# Sets that others are compared with, in this order, as in the papers' tables; QUIC stacks last.
_VERSUS = ("bl", "all14", *(name for name in _NAMES if name not in ("bl", "all14")))


@dataclass(frozen=True)
class Value:
    """A value in a table; `None`: nothing to count."""

    edition: str
    table: str
    row: str
    column: str
    value: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return names and values, for JSON lines and CSV."""
        return asdict(self)


def published() -> list[Value]:
    """Return the values of Tables 1 and 2 in the paper and in its later edition; none if they are hidden."""
    if not published_values.are_shown():
        return []
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return [
            Value(row["edition"], row["table"], row["row"], row["column"], float(row["value"]))
            for row in csv.DictReader(file)
            if row["table"] in TABLES
        ]


def collect(store: Store, run: str) -> list[Value]:
    """Return the values of the run with the id `run` in the store. UsageError if it has no download."""
    first, second = (query.rows(store, name, {"run": run}) for name in ("anrw_table1", "anrw_table2"))
    if not first and not second:
        raise UsageError(
            f"run {run} has no successful download in the store: its settings need [download] enabled, and "
            "it must be loaded (firstflight load RUN)"
        )
    return [*_table1(first), *_table2(second, intervals(store, run))]


def intervals(store: Store, run: str) -> dict[str, bootstrap.Interval | None]:
    """Return the interval over names of the share of faster downloads (0 to 1), by row of Table 2.

    Names are resampled, because a name's downloads are not independent.
    """
    answer = question.run_rendered(store, sql.query("download_patterns", store.dialect), {"run": run})
    of_row: dict[str, list[bootstrap.NamePattern]] = {}
    for row in answer.rows:
        cell = {("", 0): (row["faster"], row["pairs"])}
        of_row.setdefault(_pair(row), []).append(bootstrap.NamePattern(row["names"], cell))
    return {row: bootstrap.intervals(patterns).share_max for row, patterns in of_row.items()}


def _pair(row: dict[str, Any]) -> str:
    """Return a pair of sets as the paper writes it."""
    return "/".join(_NAMES.get(row[side], row[side]) for side in ("set", "versus"))


def _sort_key(name: str) -> tuple[int, str]:
    """Return a set's sort key. In a pair, the set with the lower key is the denominator."""
    return (_VERSUS.index(name), "") if name in _VERSUS else (len(_VERSUS), name)


def _table1(rows: Iterable[dict[str, Any]]) -> Iterator[Value]:
    for row in rows:
        name = row["vantage"] + ("_Q" if row["target_set"] == "quic" else "")
        yield Value(OURS, "1", name, row["cdn"], float(row["domains"]))


def _table2(
    rows: Iterable[dict[str, Any]], of_names: Mapping[str, bootstrap.Interval | None]
) -> Iterator[Value]:
    for row in sorted(rows, key=lambda row: (_sort_key(row["versus"]), _sort_key(row["set"]))):
        if _sort_key(row["set"]) < _sort_key(row["versus"]):
            continue  # the same pair in the other direction
        name = _pair(row)
        faster = row["faster"]
        low, high = of_names.get(name) or (None, None)
        yield Value(OURS, "2", name, "pairs", float(row["pairs"]))
        yield Value(OURS, "2", name, "names", float(row["domains"]))
        yield Value(OURS, "2", name, "limited", float(row["limited"]))
        yield Value(OURS, "2", name, "+", _percent(faster))
        yield Value(OURS, "2", name, "+low", _percent(low))
        yield Value(OURS, "2", name, "+high", _percent(high))
        yield Value(OURS, "2", name, "-", _percent(None if faster is None else 1 - faster))
        for column, parts in BINS.items():
            shares = [row[part] for part in parts]
            share = None if None in shares else sum(shares)
            yield Value(OURS, "2", name, column, _percent(share))


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)


def text(values: Sequence[Value]) -> str:
    """Return the tables as text: our rows, then the published ones; Table 2 by pair."""
    return "\n".join(aligned(title, grid(table, values)) for table, title in TABLES.items())


def grid(table: str, values: Sequence[Value]) -> list[list[str]]:
    """Return one of TABLES as lines of cells, the head first: row, edition, then a cell for each column."""
    values = [value for value in values if value.table == table]
    columns = _columns(table, values)
    lines: dict[tuple[str, str], dict[str, float | None]] = {}
    for value in values:
        lines.setdefault((value.row, value.edition), {})[value.column] = value.value
    if table == "2":  # published pairs that we do not have come last
        ours = [row for row, edition in lines if edition == OURS]
        order = {row: place for place, row in enumerate(dict.fromkeys([*ours, *(row for row, _ in lines)]))}
        keys = sorted(lines, key=lambda key: (order[key[0]], list(EDITIONS).index(key[1])))
    else:
        keys = sorted(lines, key=lambda key: list(EDITIONS).index(key[1]))
    body = [
        [row, EDITIONS[edition], *(_value_text(table, column, lines[row, edition]) for column in columns)]
        for row, edition in keys
    ]
    return [["", "", *columns], *body]


def aligned(title: str, lines: Sequence[Sequence[str]]) -> str:
    """Return lines of cells as text below a title, the first two columns aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = (
        "  ".join(
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
    return "\n".join([title, "", *(line.rstrip() for line in shown)]) + "\n"


def _columns(table: str, values: Sequence[Value]) -> list[str]:
    columns = list(dict.fromkeys(value.column for value in values))
    if table == "1":
        named = [column for column in columns if column not in ("Total", "Others")]
        return [column for column in ("Total", *sorted(named), "Others") if column in columns]
    return [column for column in (*_COUNTS, "+", "+low", "+high", "-", *BINS) if column in columns]


def _value_text(table: str, column: str, line: dict[str, float | None]) -> str:
    """Return a value as text: empty if the edition does not give it, `-` without anything to count."""
    if column not in line:
        return ""
    value = line[column]
    if value is None:
        return "-"
    return f"{value:.0f}" if table == "1" or column in _COUNTS else f"{value:.1f}"
