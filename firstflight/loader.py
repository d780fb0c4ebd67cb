"""Record files into the store; loading a file twice, or after a crash in the middle, changes nothing.

Rows are loaded and replaced by the unit of their kind (for probes: run, vantage point, repetition). The
books (`load_file`) say `loading` before a unit is touched, `loaded` when its rows are counted in the store.
A unit that is not `loaded` from the same content, with all its rows there, is deleted and loaded anew, so a
file that a stage made again replaces what it was before.

This needs one loader at a time per unit. An embedded store's lock ensures it; on a server a loader holds a
lease on the units of its file. And every batch carries a token made of the file's content and the versions
in the books: sent again after a broken connection, it is added once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from firstflight import accounting, derived, load_run, record_file
from firstflight.errors import FirstflightError, InputError
from firstflight.record_file import Content, Contradiction, RecordFile, Unit
from firstflight.runs import Run
from firstflight.stage_report import Rejected
from firstflight.store import Store, lease, migrate, open_store
from firstflight.store.errors import StoreError, StoreHeld
from firstflight.store.lease import Lease

if TYPE_CHECKING:
    import pyarrow as pa

Action = Literal["loaded", "replaced", "unchanged"]


@dataclass(frozen=True)
class Loaded:
    """What became of one record file. `in_store` = rows of its units in the store afterwards."""

    path: Path
    kind: str
    in_file: int
    in_store: int
    action: Action


@dataclass(frozen=True)
class Refused:
    """A file that was not loaded, and the sentence that says why."""

    path: Path
    error: InputError | StoreError | StoreHeld


Result = Loaded | Refused


def stage(run: Run, vantage: str | None = None, repetition: int | None = None) -> None:
    """The load stage: all record files of a run, or those of one vantage point and repetition, into its
    store.

    The report counts rows in files (rows_in) and in the store (rows_out). Raises the first refusal at the end
    if a file was refused; the others are loaded then.
    """
    with run.stage("load", vantage, repetition) as report:
        results = load_run_folder(run, run.settings.store.url, place=_place(vantage, repetition))
        done = [result for result in results if isinstance(result, Loaded)]
        report.rows_in = sum(result.in_file for result in done)
        report.rows_out = sum(result.in_store for result in done)
        for result in done:
            report.counts[result.kind] = report.counts.get(result.kind, 0) + result.in_store
        refused = [result for result in results if isinstance(result, Refused)]
        report.rejected = [Rejected(line=n, reason=str(r.error)) for n, r in enumerate(refused, start=1)]
        if refused:
            raise refused[0].error


def load_run_folder(
    run: Run,
    url: str | None = None,
    told: Callable[[Result], None] = lambda _: None,
    place: tuple[str, int] | None = None,
) -> list[Result]:
    """Load all record files of `run` and the run's own row; `told` hears of each file as it is done.

    `url` names the store (None: FIRSTFLIGHT_STORE, else the default). `place`: of a vantage point and
    repetition alone, and not the run's row, which belongs to the centre. FirstflightError if the sums of
    docs/definitions.md do not hold for what was loaded.
    """
    folder = run.path if place is None else run.path / place[0] / str(place[1])
    paths = sorted(path for path in folder.rglob("*.parquet") if path.stem in record_file.STEMS)
    written = {run.path / name: sha for report in run.reports() for name, sha in report.outputs.items()}
    with open_store(url, write=True) as store:
        migrate.migrate(store)
        results = list(_load_each(store, paths, told, written))
        if place is None:
            with lease.held(store, [f"run {run.id}"]):
                load_run.load(store, run)
        for result in results:
            if isinstance(result, Loaded) and result.kind == "quic_probe":
                _check_sums(store, run, result.path)
    return results


def _place(vantage: str | None, repetition: int | None) -> tuple[str, int] | None:
    if vantage is None or repetition is None:
        return None
    return vantage, repetition


def load_files(
    paths: Sequence[Path], url: str | None = None, told: Callable[[Result], None] = lambda _: None
) -> list[Result]:
    """Load single record files; those below a run's folder are named after it."""
    with open_store(url, write=True) as store:
        migrate.migrate(store)
        return list(_load_each(store, paths, told, {}))


def load_one(store: Store, opened: RecordFile) -> Loaded:
    """Load one record file into an open store. Nothing of it is in the store if it raises InputError."""
    content = opened.content(lambda batch: _check_derived(store, opened, batch))
    kind = opened.kind.name
    units = _Units(store, opened, content)
    if units.all_there():
        return Loaded(opened.path, kind, opened.rows, opened.rows, "unchanged")
    with lease.held(store, units.subjects()) as leases:
        if leases:  # another loader may have been at work until now
            units = _Units(store, opened, content)
            if units.all_there():
                return Loaded(opened.path, kind, opened.rows, opened.rows, "unchanged")
        return _load_units(store, opened, units, leases)


def _load_units(store: Store, opened: RecordFile, units: _Units, leases: Sequence[Lease]) -> Loaded:
    kind = opened.kind.name
    units.begin()
    removed = units.remove()
    for number, batch in enumerate(opened.batches()):
        for held in leases:
            held.keep()
        store.insert(kind, opened.stored(batch), token=units.token(number))
    in_store = units.end(leases)
    return Loaded(opened.path, kind, opened.rows, in_store, "replaced" if removed else "loaded")


class _Units:
    """The units of one file, in the store and in the loader's books."""

    def __init__(self, store: Store, opened: RecordFile, content: Content) -> None:
        self._store = store
        self._file = opened
        self._content = content
        self._table = f"{store.dialect.database}.{opened.kind.name}"
        self._books = f"{store.dialect.database}.load_file"
        for table in ("load_file", opened.kind.name):
            store.catch_up(table)
        # Of the books only what concerns this file: they grow with every file that was ever loaded.
        units = ", ".join(_literal(_named(unit)) for unit in content.rows) or "''"
        rows = store.rows(
            f"SELECT * FROM {self._books} FINAL WHERE kind = {{kind:String}} "
            f"AND (unit IN ({units}) OR source_file = {{source:String}})",
            {"kind": opened.kind.name, "source": opened.name},
        )
        self._booked: dict[Unit, dict[str, Any]] = {tuple(json.loads(row["unit"])): row for row in rows}
        # What this very file held before and holds no more goes as well.
        gone = {u for u, row in self._booked.items() if row["source_file"] == opened.name and row["rows"]}
        self._units: list[Unit] = sorted(set(content.rows) | gone)

    def all_there(self) -> bool:
        """Whether each unit was loaded from this content to the end, and its rows are still there."""
        return all(
            unit in self._booked
            and self._booked[unit]["state"] == "loaded"
            and self._booked[unit]["sha256"] == self._file.sha256
            and self._in_store(unit) == self._content.rows[unit]
            and derived.complete(self._store, self._file.kind.name, self._is(unit), self._content.rows[unit])
            for unit in self._units
        )

    def subjects(self) -> list[str]:
        """What a loader of this file must hold alone."""
        kind = self._file.kind.name
        subjects = [f"{kind} {_named(unit)}" for unit in self._units]
        return [*subjects, f"tables derived from {kind}"] if kind in derived.WHOLE else subjects

    def token(self, number: int) -> str:
        """By which the store knows batch `number` of this load: the same for the same file and books only."""
        versions = [(unit, self._booked[unit]["version"]) for unit in self._units]
        return sha256(repr((self._file.kind.name, self._file.sha256, versions, number)).encode()).hexdigest()

    def begin(self) -> None:
        """Note that the units are being changed: until `end`, a load that finds them does them again."""
        self._book("loading")

    def remove(self) -> bool:
        """Delete the rows that the units have in the store; whether there were any."""
        full = [unit for unit in self._units if self._in_store(unit)]
        for unit in full:
            self._store.execute(f"ALTER TABLE {self._table} DELETE WHERE {self._is(unit)}")
        return bool(full)

    def end(self, leases: Sequence[Lease]) -> int:
        """Count the units' rows, which must be as many as in the file, and note that they are loaded."""
        for held in leases:
            held.confirm()
        in_store = sum(self._in_store(unit) for unit in self._units)
        if in_store != self._file.rows:
            raise FirstflightError(
                f"{self._file.path}: {self._file.rows} rows in the file, {in_store} in the store afterwards: "
                "load it again"
            )
        derived.renew(self._store, self._file.kind.name, [self._is(unit) for unit in self._units])
        for held in leases:
            held.confirm()
        self._book("loaded")
        return in_store

    def _in_store(self, unit: Unit) -> int:
        found = self._store.rows(f"SELECT count() AS n FROM {self._table} WHERE {self._is(unit)}")
        return int(found[0]["n"])

    def _is(self, unit: Unit) -> str:
        """The SQL condition of a unit's rows. Literals, because a mutation keeps its text."""
        pairs = zip(self._file.kind.unit, unit, strict=True)
        return " AND ".join(f"{name} = {_literal(value)}" for name, value in pairs)

    def _book(self, state: str) -> None:
        kind = self._file.kind
        for unit in self._units:
            version = int(self._booked.get(unit, {"version": 0})["version"]) + 1
            values = {
                "kind": kind.name,
                "unit": _named(unit),
                "run": unit[kind.unit.index("run")] if "run" in kind.unit else "",
                "source_file": self._file.name,
                "sha256": self._file.sha256,
                "rows": self._content.rows[unit],
                "first_at": self._content.first.get(unit),
                "last_at": self._content.last.get(unit),
                "state": state,
                "version": version,
            }
            self._store.execute(
                f"INSERT INTO {self._books} ({', '.join(values)}) SELECT "
                + ", ".join(_value(name, value) for name, value in values.items())
            )
            self._booked[unit] = values


def _load_each(
    store: Store, paths: Iterable[Path], told: Callable[[Result], None], written: Mapping[Path, str]
) -> Iterator[Result]:
    """`written`: the SHA-256 that a stage's report gives for a file."""
    for path in paths:
        result: Result
        try:
            opened = RecordFile(path, _filled(path))
            if written.get(path, opened.sha256) != opened.sha256:
                raise InputError(f"{path} is not what its stage wrote (SHA-256 differs): run the stage again")
            result = load_one(store, opened)
        except InputError as error:
            result = Refused(path, error)
        except StoreError as error:
            result = Refused(path, StoreError(f"{path}: {error}", error.code))
        except StoreHeld as error:
            result = Refused(path, StoreHeld(f"{path}: {error}"))
        told(result)
        yield result


def _filled(path: Path) -> dict[str, str]:
    """The loader's columns for a file: its name, and its run if it lies below the folder of one."""
    path = path.resolve()
    for folder in path.parents:
        if (folder / "manifest.json").is_file():
            run = Run(folder)
            return {"source_file": run.name_of(path), "run": run.id}
    return {"source_file": str(path)}


def _check_derived(store: Store, opened: RecordFile, batch: pa.Table) -> None:
    """Refuse a file whose derived columns are not what the store will compute from the others."""
    derived = [column for column in opened.kind.file_columns if column.derived]
    conditions = [f"NOT isNotDistinctFrom(`{c.name}`, {c.derived})" for c in derived]
    for column, count in zip(derived, store.count_in(batch, conditions), strict=True):
        if count:
            raise Contradiction(f"{opened.path}: {column.name} is not {column.derived} in {count} rows")


def _check_sums(store: Store, run: Run, path: Path) -> None:
    """Hold a probe file's rows in the store against the sums of docs/definitions.md."""
    vantage, repetition = path.relative_to(run.path).parts[:2]
    report = run.report("probe", vantage, int(repetition))
    rows = store.rows(
        f"SELECT toString(outcome) AS outcome, count() AS n, countIf(attempts > 0) AS sent "
        f"FROM {store.dialect.database}.quic_probe WHERE source_file = {{source:String}} GROUP BY outcome",
        {"source": run.name_of(path)},
    )
    by_outcome = {str(row["outcome"]): int(row["n"]) for row in rows}
    targets = sum(by_outcome.values())
    if report is not None and report.rows_in is not None:
        # A stage that was stopped has rows of what it probed.
        targets = report.rows_in - len(report.rejected) - int(report.facts.get("not_probed") or 0)
    accounting.balance(targets, sum(int(row["sent"]) for row in rows), by_outcome, str(path))


def _named(unit: Unit) -> str:
    """A unit as the books and leases call it."""
    return json.dumps(unit, ensure_ascii=False)


def _value(name: str, value: object) -> str:
    if value is None:
        return f"NULL AS {name}"
    if name in ("first_at", "last_at"):
        return f"fromUnixTimestamp64Nano(toInt64({value}), 'UTC') AS {name}"
    return f"{value if isinstance(value, int) else _literal(str(value))} AS {name}"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
