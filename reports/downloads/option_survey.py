"""The survey of TCP options in a run, and the percentages of the ANRW 2023 paper (section 6.1).

Values have the form of the paper's tables (`tables`): table `6.1`; row: names or addresses, in our rows after
the vantage point; column: the option, in percent, or a count.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence

from reports import published_values, query
from reports.downloads.tables import EDITIONS, OURS, PUBLISHED, Value, aligned
from store import Store

TABLE = "6.1"
TITLE = "TCP options (section 6.1): percent of the names, and of the addresses, that answered."
NO_SURVEY = "The run has no survey in the store: its settings need [tcp_options] enabled."
_NAMES = "names"
# Columns of the query -> the published column, or ours, and its printed title.
_COUNTS = {"asked": "asked", "answered": "answered"}
_SHARES = {
    "none_share": ("none", "none"),
    "all_three_share": ("all_three", "all three"),
    "ecn_share": ("ecn", "ECN"),
    "sack_share": ("sack", "SACK"),
    "window_scaling_share": ("ws", "WS"),
    "timestamps_share": ("timestamps", "TS"),
    "mss_below_1220": ("mss_below_1220", "MSS <1220"),
    "mss_from_1220": ("mss_from_1220", "1220-"),
    "mss_from_1400": ("mss_from_1400", "1400-"),
    "mss_from_1440": ("mss_from_1440", "1440-"),
    "mss_from_1460": ("mss_from_1460", ">=1460"),
}


def published() -> list[Value]:
    """Return the paper's percentages; none if they are hidden.

    The paper does not define the whole; its text is about domains.
    """
    if not published_values.are_shown():
        return []
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        return [
            Value(row["edition"], TABLE, _NAMES, row["row"], float(row["value"]))
            for row in csv.DictReader(file)
            if row["table"] == TABLE
        ]


def collect(store: Store, run: str) -> list[Value]:
    """Return the values of the run with the id `run` in the store; empty without rows of tcp_option."""
    values = []
    for row in query.rows(store, "tcp_option_shares", {"run": run}):
        name = f"{row['vantage']} {row['counted_by']}"
        values += [Value(OURS, TABLE, name, column, float(row[column])) for column in _COUNTS]
        for column, (public, _) in _SHARES.items():
            share = row[column]
            values.append(Value(OURS, TABLE, name, public, None if share is None else round(100 * share, 1)))
    return values


def text(values: Sequence[Value]) -> str:
    """Return the table as text."""
    table = aligned(TITLE, grid(values))
    return table if any(value.edition == OURS for value in values) else f"{table}\n{NO_SURVEY}\n"


def grid(values: Sequence[Value]) -> list[list[str]]:
    """Return the table as lines of cells, head first: our names, published percentages, our addresses."""
    lines: dict[tuple[str, str], dict[str, float | None]] = {}
    for value in values:
        lines.setdefault((value.row, value.edition), {})[value.column] = value.value
    titles = _COUNTS | dict(_SHARES.values())
    body = [["", "", *titles.values()]]
    for row, edition in sorted(lines, key=lambda key: (not key[0].endswith(_NAMES), key[1] != OURS, key[0])):
        cells = [_value_text(column, lines[row, edition]) for column in titles]
        body.append([row, EDITIONS[edition], *cells])
    return body


def _value_text(column: str, line: dict[str, float | None]) -> str:
    """Return a value as text: empty if the edition does not give it, `-` without anything to count."""
    if column not in line:
        return ""
    value = line[column]
    if value is None:
        return "-"
    return f"{value:.0f}" if column in _COUNTS else f"{value:.1f}"
