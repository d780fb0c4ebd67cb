"""The targets of a list in little memory: a list of a million has no Python object per name."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

# Stands for None; ranks and buckets begin at 1.
_NONE = 0


class Target(NamedTuple):
    """One name of the list. `rank` is None if the list gives a bucket only, `rank_bucket` if it has none."""

    rank: int | None
    domain: str
    rank_bucket: int | None = None


class HeldTargets(Sequence[Target]):
    """Targets in the order in which they were added; equal to any sequence of the same targets.

    A name takes its UTF-8 bytes and 16 bytes more. Ranks and buckets are from 1 to 2^32 - 1, or None.
    """

    def __init__(self, targets: Iterable[Target] = ()) -> None:
        self._names = bytearray()
        self._ends = array("Q", [0])
        self._ranks = array("I")
        self._buckets = array("I")
        self.extend(targets)

    def append(self, target: Target) -> None:
        """Add one target at the end."""
        self._names += target.domain.encode()
        self._ends.append(len(self._names))
        self._ranks.append(_NONE if target.rank is None else target.rank)
        self._buckets.append(_NONE if target.rank_bucket is None else target.rank_bucket)

    def extend(self, targets: Iterable[Target]) -> None:
        """Add targets at the end, in their order."""
        for target in targets:
            self.append(target)

    def __len__(self) -> int:
        return len(self._ranks)

    @overload
    def __getitem__(self, index: int) -> Target: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Target]: ...
    def __getitem__(self, index: int | slice) -> Target | Sequence[Target]:
        if isinstance(index, slice):
            return [self._at(place) for place in range(*index.indices(len(self)))]
        return self._at(range(len(self))[index])

    def __iter__(self) -> Iterator[Target]:
        return map(self._at, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"HeldTargets({list(self)!r})"

    def _at(self, place: int) -> Target:
        name = self._names[self._ends[place] : self._ends[place + 1]].decode()
        return Target(self._ranks[place] or None, name, self._buckets[place] or None)
