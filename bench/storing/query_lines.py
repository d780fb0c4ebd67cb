"""The lines of a result file of `python -m bench database`: the times of named queries and views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.results import Line

Times = Mapping[str, Mapping[str, Any]]
"""Times of queries by name, as bench/storing/queries.py prints them."""
VIEW = "view "
TEN_MILLION = 10_000_000
# Titles of the columns of the result file, and the times that queries.py prints.
_TEN = {"cold_s": "cold_s", "warm_s": "wall_s", "cpu_s": "cpu_s"}
_HUNDRED = {"hundred_million_cpu_s": "cpu_s"}


def lines(ten: Times, hundred: Times | None) -> list[Line]:
    """Return a line per query with rows, and two lines with the smallest and largest times of the others.

    One of the two lines is for all views, and one for all queries without rows: the store of the bench has no
    handshakes, downloads or watches.

    `ten`, `hundred`: times over ten and a hundred million probes; `None` if not measured. The times of a
    refused query are null.
    """
    views = [name for name in ten if name.startswith(VIEW)]
    queries = [name for name in ten if name not in views]
    empty = [name for name in queries if not ten[name]["rows"] and not ten[name]["refused"]]
    return [
        *(_line(name, [name], ten, hundred) for name in queries if name not in empty),
        _line(f"{len(empty)} queries without rows", empty, ten, hundred),
        _line(f"views {', '.join(name.removeprefix(VIEW) for name in views)}", views, ten, hundred),
    ]


def right_size(probes: int, *, times: int = 1) -> bool:
    """Return whether a store has the number of probes that the columns name, within a hundredth.

    `times`: the factor by which the bench will copy the runs.
    """
    return abs(probes - TEN_MILLION) <= TEN_MILLION // 100 and times in (1, 10)


def _line(label: str, names: Sequence[str], ten: Times, hundred: Times | None) -> Line:
    found = {title: _known(ten, names, key) for title, key in _TEN.items()}
    found |= {title: _known(hundred or {}, names, key) for title, key in _HUNDRED.items()}
    line: Line = {"query": label}
    for title, known in found.items():
        several = len(names) > 1 and known
        line[title] = known[0] if len(names) == 1 and known else None
        line[f"{title}_low"], line[f"{title}_high"] = (min(known), max(known)) if several else (None, None)
    before, after = line["cpu_s"], line["hundred_million_cpu_s"]
    line["growth"] = round(after / before, 2) if before and after is not None else None
    return line


def _known(times: Times, names: Sequence[str], key: str) -> list[float]:
    """Return the known times of some queries, in seconds."""
    measured = [times[name] for name in names if name in times and not times[name]["refused"]]
    return [round(query[key], 3) for query in measured if query[key] is not None]
