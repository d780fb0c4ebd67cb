"""Comparisons of two methods over two conditions: the data of maps, without drawing them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Map:
    """How much better the first method is, at places (down, across); a place may be missing.

    A value of at most `same` from zero means that neither is better.
    """

    title: str
    values: Mapping[tuple[float, float], float]
    same: float

    def better(self, down: float, across: float) -> int | None:
        """Return 0 or 1, the index of the better one; -1 if neither is better; `None` if it is unknown."""
        value = self.values.get((down, across))
        if value is None:
            return None
        return -1 if abs(value) <= self.same else int(value < 0)


@dataclass(frozen=True)
class Maps:
    """Maps with the same axes; their names have the unit. `names`: of the first, the second, neither."""

    down: str
    across: str
    names: tuple[str, str, str]
    maps: tuple[Map, ...]

    @property
    def places(self) -> tuple[list[float], list[float]]:
        """Return the places of the axes, in order."""
        at = {place for map_ in self.maps for place in map_.values}
        return sorted({down for down, _ in at}), sorted({across for _, across in at})


def described(maps: Maps) -> str:
    """Return the text alternative: for each map, the places where each of the two is better."""
    return " ".join(_map_text(maps, map_) for map_ in maps.maps)


def _map_text(maps: Maps, map_: Map) -> str:
    parts = []
    for which, name in ((0, maps.names[0]), (1, maps.names[1])):
        at = [place for place in sorted(map_.values) if map_.better(*place) == which]
        if at:
            shown = ", ".join(
                f"{down:g} and {across:g} ({map_.values[down, across]:.4g})" for down, across in at
            )
            parts.append(f"{name} at {maps.down} and {maps.across} {shown}")
    return f"{map_.title}: {'; '.join(parts) or maps.names[2]}."


def counts(maps: Sequence[Map]) -> dict[int, int]:
    """Return at how many places the first (0), the second (1) or neither (-1) is better."""
    found = dict.fromkeys((0, 1, -1), 0)
    for map_ in maps:
        for place in map_.values:
            which = map_.better(*place)
            if which is not None:
                found[which] += 1
    return found
