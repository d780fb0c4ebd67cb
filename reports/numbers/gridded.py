"""Which of two is better over two conditions: what maps of them show, without drawing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Map:
    """How much better the first of two is, at places (down, across); a place may be missing.

    Values no more than `same` from zero say that neither is.
    """

    title: str
    values: Mapping[tuple[float, float], float]
    same: float

    def better(self, down: float, across: float) -> int | None:
        """Return 0 or 1, which of the two is better; -1 if neither is; None if it is not known."""
        value = self.values.get((down, across))
        if value is None:
            return None
        return -1 if abs(value) <= self.same else int(value < 0)


@dataclass(frozen=True)
class Maps:
    """Maps with the same axes, whose names have the unit. `names`: of the two, and what neither is called."""

    down: str
    across: str
    names: tuple[str, str, str]
    maps: tuple[Map, ...]

    @property
    def places(self) -> tuple[list[float], list[float]]:
        """Return the places of the axes, in order."""
        at = {place for one in self.maps for place in one.values}
        return sorted({down for down, _ in at}), sorted({across for _, across in at})


def described(maps: Maps) -> str:
    """Return the text alternative: for each map where which of the two is better."""
    return " ".join(_described(maps, one) for one in maps.maps)


def _described(maps: Maps, one: Map) -> str:
    parts = []
    for which, name in ((0, maps.names[0]), (1, maps.names[1])):
        at = [place for place in sorted(one.values) if one.better(*place) == which]
        if at:
            shown = ", ".join(
                f"{down:g} and {across:g} ({one.values[down, across]:.4g})" for down, across in at
            )
            parts.append(f"{name} at {maps.down} and {maps.across} {shown}")
    return f"{one.title}: {'; '.join(parts) or maps.names[2]}."


def counts(maps: Sequence[Map]) -> dict[int, int]:
    """Return at how many places the first (0), the second (1) or neither (-1) is better."""
    found = dict.fromkeys((0, 1, -1), 0)
    for one in maps:
        for place in one.values:
            which = one.better(*place)
            if which is not None:
                found[which] += 1
    return found
