"""The units in a record file: their rows in the store, and their entries in the load log (`load_file`).

A shard's file has a part of each unit, which is loaded and replaced separately. Derived tables are computed
from all rows in a unit, so loaders lease whole units.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from firstflight.errors import FirstflightError, InputError
from schemas.records import Kind
from store import Store
from store.lease import Lease
from store.load import derived, load_log
from store.load.load_log import may_have_rows, unit_text
from store.load.record_file import FileContent, RecordFile, Unit
from store.sql import literal


class Entries(NamedTuple):
    """Entries of the load log for the units in a record file.

    `own`: of the file's part of each unit. `whole`: if the file is a shard's, of units that were loaded
    whole, from outside the run's folder.
    """

    own: dict[Unit, dict[str, Any]]
    whole: dict[Unit, dict[str, Any]]


def read_entries(store: Store, opened: RecordFile, content: FileContent) -> Entries:
    """Return the entries for a record file; InputError if the store has its units by shards."""
    # Only the entries for this file and its units: the load log grows with every loaded file.
    units = " OR ".join(f"startsWith(unit, {literal(unit_text(unit)[:-1])})" for unit in content.rows)
    rows = store.rows(
        f"SELECT * FROM {load_log.table(store)} FINAL WHERE kind = {{kind:String}} "
        f"AND ({units or 'false'} OR source_file = {{source:String}})",
        {"kind": opened.kind.name, "source": opened.name},
    )
    length = len(opened.kind.unit)
    found = Entries({}, {})
    for row in rows:
        words = tuple(json.loads(row["unit"]))
        unit, part = words[:length], words[length:]
        if part == opened.part.name:
            found.own[unit] = row
        elif not part and may_have_rows(row):
            found.whole[unit] = row
        elif not opened.part.name and row["rows"]:
            raise InputError(
                f"{opened.path}: {_unit_text(opened.kind, unit)} is in the store by shards, such as "
                f"{row['source_file']}: load the folder of its run"
            )
    return found


class Units:
    """The units in a record file, in the store and in the load log.

    `replace`: allow replacing rows of other origins.
    """

    @classmethod
    def read(cls, store: Store, opened: RecordFile, content: FileContent, *, replace: bool = False) -> Units:
        """Return the units with their current entries in the load log; InputError as `read_entries`."""
        for table in ("load_file", opened.kind.name):
            store.catch_up(table)
        return cls(store, opened, content, read_entries(store, opened, content), replace=replace)

    def __init__(
        self, store: Store, opened: RecordFile, content: FileContent, entries: Entries, *, replace: bool
    ) -> None:
        self._replace = replace
        self._store = store
        self._file = opened
        self._content = content
        self._table = f"{store.dialect.database}.{opened.kind.name}"
        self._rows = store.dialect.rows_of(opened.kind.name)
        self._logged, self._whole = entries
        # Units of an earlier version of this file are removed as well, even if loading it was interrupted.
        removed = {
            u for u, row in self._logged.items() if row["source_file"] == opened.name and may_have_rows(row)
        }
        self._units: list[Unit] = sorted(set(content.rows) | removed)

    def all_there(self) -> bool:
        """Return whether each unit was completely loaded from this content and its rows still exist."""
        return not self._whole and all(
            unit in self._logged
            and self._logged[unit]["state"] == "loaded"
            and self._logged[unit]["sha256"] == self._file.sha256
            and self._in_store(unit) == self._content.rows[unit]
            and self._is_derived(unit)
            for unit in self._units
        )

    def has_origin(self) -> bool:
        """Return whether the load log already has the right origin for all units."""
        return all(row["origin"] == self._origin(unit) for unit, row in self._logged.items())

    def check_origin(self) -> None:
        """Raise InputError if rows in the store have an origin that this file may not replace.

        Also, a file from elsewhere adds no rows to a run of this site, because they would change the run's
        results.
        """
        if self._replace:
            return
        origin, sha256 = self._file.origin, self._file.sha256
        for unit in [*self._units, *self._whole]:
            row = self._whole.get(unit) or self._logged.get(unit)
            if row is None or not may_have_rows(row) or row["sha256"] == sha256:
                continue
            if not origin.may_replace(row["origin"], row["source_file"]):
                raise self._other_origin(_unit_text(self._file.kind, unit), row["source_file"])
        known = [self._logged[unit] for unit in self._content.rows if unit in self._logged]
        is_copy = len(known) == len(self._content.rows) and all(row["sha256"] == sha256 for row in known)
        if "run" in self._file.kind.unit and not is_copy:
            at = self._file.kind.unit.index("run")
            runs = sorted({unit[at] for unit in self._content.rows})
            for row in load_log.of_site(self._store, runs, origin.text):
                raise self._other_origin(f"run {row['run']}", row["source_file"])

    def _other_origin(self, subject: str, source_file: str) -> InputError:
        return InputError(
            f"{self._file.path}: {subject} is in the store from another origin ({source_file}): give "
            "--replace to replace it with this file"
        )

    def take_over(self) -> None:
        """Log this file's origin for units that are completely in the store."""
        self._log("loaded")

    def subjects(self) -> list[str]:
        """Return the subjects that a loader of this file must lease."""
        kind = self._file.kind.name
        subjects = [f"{kind} {unit_text(unit)}" for unit in self._units]
        return [*subjects, f"tables derived from {kind}"] if kind in derived.WHOLE else subjects

    def token(self, number: int) -> str:
        """Return the token of batch `number`: equal only for the same file, part and load log entries.

        Two shards may have files with the same content, for example the same certificate.
        """
        versions = [(unit, self._logged[unit]["version"]) for unit in self._units]
        file = (self._file.kind.name, self._file.sha256, self._file.part.name)
        return sha256(repr((*file, versions, number)).encode()).hexdigest()

    def begin(self) -> None:
        """Log that the units are changing: until `end`, any load repeats them."""
        self._log("loading")

    def remove(self) -> bool:
        """Delete the rows of the units from the store; return whether there were any."""
        conditions = [self._part_condition(unit) for unit in self._units]
        conditions += [
            f"{self._unit_condition(unit)} AND {self._file.part.of_no_shard}" for unit in self._whole
        ]
        conditions = [condition for condition in conditions if self._count(condition)]
        for condition in conditions:
            self._store.execute(f"ALTER TABLE {self._rows} DELETE WHERE {condition}")
        return bool(conditions)

    def end(self, leases: Sequence[Lease]) -> int:
        """Check that the store has as many rows of the units as the file, and log them as loaded."""
        for held in leases:
            held.confirm()
        self._store.catch_up(self._file.kind.name)
        in_store = sum(self._in_store(unit) for unit in self._units)
        if in_store != self._file.rows:
            raise FirstflightError(
                f"{self._file.path}: {self._file.rows} rows in the file, {in_store} in the store afterwards: "
                "load it again"
            )
        derived.renew(self._store, self._file.kind.name, [self._unit_condition(unit) for unit in self._units])
        for held in leases:
            held.confirm()
        self._log("loaded")
        for row in self._whole.values():
            empty = {"rows": 0, "first_at": None, "last_at": None, "state": "loaded"}
            load_log.enter(self._store, row | empty | {"version": int(row["version"]) + 1})
        return in_store

    def _in_store(self, unit: Unit) -> int:
        return self._count(self._part_condition(unit))

    def _is_derived(self, unit: Unit) -> bool:
        """Return whether the derived tables cover the unit, with the rows of other parts."""
        rows = (
            self._content.rows[unit] if not self._file.part.name else self._count(self._unit_condition(unit))
        )
        return derived.complete(self._store, self._file.kind.name, self._unit_condition(unit), rows)

    def _count(self, condition: str) -> int:
        found = self._store.rows(f"SELECT count() AS n FROM {self._table} WHERE {condition}")
        return int(found[0]["n"])

    def _part_condition(self, unit: Unit) -> str:
        """Return the SQL condition for the file's part of a unit's rows."""
        part = self._file.part
        return self._unit_condition(unit) + ("" if part.shard.is_whole else f" AND {part.condition}")

    def _named(self, unit: Unit) -> str:
        """Return the name of the file's part of a unit in the load log."""
        return unit_text((*unit, *self._file.part.name))

    def _unit_condition(self, unit: Unit) -> str:
        """Return the SQL condition for a unit's rows. It has literals, because a mutation stores its text."""
        pairs = zip(self._file.kind.unit, unit, strict=True)
        return " AND ".join(f"{name} = {literal(value)}" for name, value in pairs)

    def _log(self, state: str) -> None:
        kind = self._file.kind
        for unit in self._units:
            version = int(self._logged.get(unit, {"version": 0})["version"]) + 1
            values = {
                "kind": kind.name,
                "unit": self._named(unit),
                "run": unit[kind.unit.index("run")] if "run" in kind.unit else "",
                "source_file": self._file.name,
                "sha256": self._file.sha256,
                "origin": self._origin(unit),
                "rows": self._content.rows[unit],
                "first_at": self._content.first.get(unit),
                "last_at": self._content.last.get(unit),
                "state": state,
                "version": version,
            }
            load_log.enter(self._store, values)
            self._logged[unit] = values

    def _origin(self, unit: Unit) -> str:
        """Return the unit's new origin; loading a copy of the same content does not change the origin."""
        before, file_origin = self._logged.get(unit), self._file.origin
        if self._replace or before is None or not may_have_rows(before):
            return file_origin.text
        if file_origin.may_replace(before["origin"], before["source_file"]):
            return file_origin.text
        return str(before["origin"])


def _unit_text(kind: Kind, unit: Unit) -> str:
    return ", ".join(f"{name} {value}" for name, value in zip(kind.unit, unit, strict=True))
