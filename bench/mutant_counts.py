"""The lines of a result file of `python -m bench.mutants`: counts of mutants, by package and in total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.results import Line

ALL = "both"


def lines(by_verdict: Mapping[str, Mapping[str, int]], counted: Mapping[str, int]) -> list[Line]:
    """Return the lines of a first run.

    `by_verdict`: by package, the number of mutants with each verdict (caught, missed, timeout, unviable);
    `counted`: the number of all mutants of each package, tested or not.
    """
    found = [_line(package, counts, counted[package]) for package, counts in by_verdict.items()]
    return [*found, _line(ALL, _sum(by_verdict.values()), sum(counted.values()))]


def still_alive(
    earlier: Sequence[Mapping[str, Any]], by_verdict: Mapping[str, Mapping[str, int]]
) -> list[Line]:
    """Return the lines of the first run with the mutants that survive the tests of now.

    `by_verdict`: the verdicts on the mutants that the first run did not catch.
    """
    found = []
    for line in earlier:
        package = line["package"]
        counts = _sum(by_verdict.values()) if package == ALL else by_verdict.get(package, {})
        survive = counts.get("missed", 0)
        found.append(
            {**line, "survive_now": survive, "survive_now_percent": _percent(survive, _judged(line))}
        )
    return found


def _line(package: str, counts: Mapping[str, int], of: int) -> Line:
    line: Line = {
        "package": package,
        "mutants": sum(counts.values()),
        "of": of,
        "caught": counts.get("caught", 0),
        "hangs": counts.get("timeout", 0),
        "unviable": counts.get("unviable", 0),
        "survived": counts.get("missed", 0),
    }
    percent = _percent(line["survived"], _judged(line))
    return line | {"survived_percent": percent, "survive_now": None, "survive_now_percent": None}


def _judged(line: Mapping[str, Any]) -> int:
    """Return the number of mutants that compile; a mutant that hangs counts as caught."""
    return int(line["caught"] + line["hangs"] + line["survived"])


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return total
