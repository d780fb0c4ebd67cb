"""Removes opted-out hosts and addresses from rows and settings before publication."""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstflight.egress import lists
from firstflight.egress.current import FOLLOWED, machine_list
from schemas import records
from store.export.identity import Holds, of

if TYPE_CHECKING:
    import pyarrow as pa

# A name with at least two labels, or an address, in a text.
HOST = re.compile(r"(?<![\w.-])(?:[A-Za-z0-9_-]{1,63}\.)+[A-Za-z][A-Za-z0-9-]{1,62}(?![\w-])")
_ADDRESS = re.compile(
    r"(?<![\w.])(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7})(?![\w:])"
)


def list_files(given: Sequence[Path]) -> list[Path]:
    """Return the current opt-out lists: the given ones, and the machine's (FIRSTFLIGHT_OPTOUT)."""
    machine = machine_list()
    return [*given, *([Path(machine.removeprefix(FOLLOWED))] if machine else [])]


class OptedOut:
    """The entries of opt-out lists. A listed name covers the names below it, as it does for probes."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Read the lists; InputError for an invalid line, or a file that cannot be read."""
        self._names: set[str] = set()
        spans: dict[int, list[tuple[int, int]]] = {4: [], 6: []}
        for path in paths:
            for entry in lists.checked(path, names_too=True):
                if isinstance(entry, str):
                    self._names.add(entry)
                else:
                    spans[entry[0].version].append((int(entry[0]), int(entry[1])))
        self._spans = {version: _disjoint(networks) for version, networks in spans.items()}

    def __bool__(self) -> bool:
        return bool(self._names or any(self._spans.values()))

    def has_name(self, name: str) -> bool:
        """Return whether a host name, or one above it, is listed."""
        labels = name.lower().strip(".").split(".")
        return any(".".join(labels[place:]) in self._names for place in range(len(labels)))

    def has_address(self, text: str) -> bool:
        """Return whether an address is listed; False for text that is not an address."""
        try:
            ip = ipaddress.ip_address(text)
        except ValueError:
            return False
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        spans = self._spans[ip.version]
        place = bisect_right(spans, (int(ip), 1 << 128)) - 1
        return place >= 0 and int(ip) <= spans[place][1]

    def is_mentioned(self, text: str) -> bool:
        """Return whether a listed name or address occurs in a text."""
        return any(self.has_name(name) for name in HOST.findall(text)) or any(
            self.has_address(address) for address in _ADDRESS.findall(text)
        )

    def without_opted_out(self, table: pa.Table, kind: records.Kind) -> pa.Table:
        """Return the rows in a record file that name no listed host or address."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self:
            return table
        is_listed = pa.array([False] * table.num_rows, pa.bool_())
        for name in table.column_names:
            check = self._check(of(kind.column(name)))
            if check is not None:
                is_listed = pc.or_(is_listed, _any_holds(table[name].combine_chunks(), check))
        return table.filter(pc.invert(is_listed))

    def _check(self, holds: Holds) -> Callable[[str], bool] | None:
        if holds is Holds.NAME:
            return self.has_name
        if holds is Holds.SERVER:
            return self.has_address
        return self.is_mentioned if holds in (Holds.URL, Holds.TEXT) else None


def _any_holds(column: pa.Array, check: Callable[[str], bool]) -> pa.Array:
    """Return for each row whether `check` holds for the text, or for any text in the list."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_list(column.type):
        return pc.fill_null(_checked_texts(column, check), False)
    opted = [False] * len(column)
    rows = pc.list_parent_indices(column).to_pylist()
    for row, is_listed in zip(rows, _checked_texts(column.flatten(), check).to_pylist(), strict=True):
        opted[row] = opted[row] or bool(is_listed)
    return pa.array(opted, pa.bool_())


def _checked_texts(texts: pa.Array, check: Callable[[str], Any]) -> pa.Array:
    """Return the result of `check` for each text; it is called once for equal texts."""
    import pyarrow as pa

    coded = texts.dictionary_encode()
    return pa.array([check(text) for text in coded.dictionary.to_pylist()], pa.bool_()).take(coded.indices)


def _disjoint(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined
