"""Loads record files into the store, idempotently: loading a file again, also after a crash, changes nothing.

Rows are loaded and replaced by unit of their kind (for probes: run, vantage point, repetition). At a vantage
point with shards, each shard has a part of the unit (store/load/part.py). The load log (`load_file`) records
`loading` before a unit changes, and `loaded` when its rows are counted in the store. A unit that is not
`loaded` from the same content, with all its rows present, is deleted and loaded again. So if a stage writes a
file again, the new version replaces the earlier one.

This requires one loader at a time per unit. An embedded store's lock ensures it; on a server a loader holds a
lease on the units of its file. Every batch has a token, made of the file's content and the versions in the
load log. If a loader sends a batch again after a broken connection, the store adds the batch only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from firstflight.errors import InputError
from firstflight.layout import RunLayout, StageKey
from firstflight.run import accounting
from firstflight.run.report import UnusedLine
from firstflight.run.run import Run
from firstflight.system.reporting.busy import Busy
from firstflight.system.reporting.progress import Progress
from store import Store, lease, location, open_store
from store.errors import StoreError, StoreHeld
from store.lease import Lease
from store.load import load_log, record_file, run_row
from store.load import origin as origins
from store.load.origin import FileOrigin
from store.load.part import ALL, ShardPart
from store.load.record_file import Contradiction, FileContent, RecordFile
from store.load.units import Units
from store.tables import migrate

if TYPE_CHECKING:
    import pyarrow as pa

Action = Literal["loaded", "replaced", "unchanged"]


@dataclass(frozen=True)
class Loaded:
    """The result for a record file. `in_store`: the rows of the file's units in the store afterwards."""

    path: Path
    kind: str
    in_file: int
    in_store: int
    action: Action


@dataclass(frozen=True)
class RefusedFile:
    """A file that was not loaded, and the reason."""

    path: Path
    error: InputError | StoreError | StoreHeld


Result = Loaded | RefusedFile


def stage(
    run: Run,
    key: StageKey | None = None,
    *,
    on_result: Callable[[Result], None] = lambda _: None,
    replace: bool = False,
) -> None:
    """Run the load stage: load the record files of a run, or of a single key, into the run's store.

    The report counts rows in files (rows_in) and in the store (rows_out). If files were refused, the others
    are loaded and the first refusal is raised at the end. `replace`: also rows of other origins are replaced
    (store/load/origin.py).
    """
    with run.stage("load", key) as report:
        report.facts["store"] = location.find(run.settings.store.url).public_url
        label = "load" if key is None else f"{key.vantage} load {key.repetition}" + key.of_shard(" shard ")
        shown = (run.layout.stage("load", key), label)
        results = load_run_folder(run, run.settings.store.url, on_result, key, shown, replace=replace)
        done = [result for result in results if isinstance(result, Loaded)]
        report.rows_in = sum(result.in_file for result in done)
        report.rows_out = sum(result.in_store for result in done)
        for result in done:
            report.counts[result.kind] = report.counts.get(result.kind, 0) + result.in_store
        refused = [result for result in results if isinstance(result, RefusedFile)]
        report.rejected = [UnusedLine(line=n, reason=str(r.error)) for n, r in enumerate(refused, start=1)]
        if refused:
            raise refused[0].error


def load_run_folder(
    run: Run,
    url: str | None = None,
    on_result: Callable[[Result], None] = lambda _: None,
    key: StageKey | None = None,
    shown: tuple[Path, str] | None = None,
    *,
    replace: bool = False,
) -> list[Result]:
    """Load all record files of `run` and the run's own row; call `on_result` after each file.

    `shown`: the folder for the progress, which is in rows, and its label. `replace`: also rows of other
    origins are replaced (store/load/origin.py).

    `url` names the store (`None`: FIRSTFLIGHT_STORE, else the default). With `key`, load only the record
    files of that key, and not the run's row, which the centre loads. FirstflightError if the sums of
    docs/definitions.md do not hold for the loaded rows.
    """
    paths = run.record_files(key)
    written = {run.path / name: sha for report in run.reports() for name, sha in report.outputs.items()}
    with _opened(url) as store, ExitStack() as stack:
        on_rows = _progress(stack, paths, *shown) if shown else _no_progress
        results = list(_load_each(store, paths, on_result, written, on_rows, replace=replace))
        if key is None:
            with lease.hold_all(store, [f"run {run.id}"]):
                try:
                    run_row.load(store, run, replace=replace)
                except run_row.OtherOrigin as error:
                    results.append(RefusedFile(run.layout.manifest, error))
                    on_result(results[-1])
        for result in results:
            if isinstance(result, Loaded) and result.kind == "quic_probe":
                _check_sums(store, run, result.path)
    return results


def load_files(
    paths: Sequence[Path],
    url: str | None = None,
    on_result: Callable[[Result], None] = lambda _: None,
    *,
    replace: bool = False,
) -> list[Result]:
    """Load single record files. For a file in a run's folder, source_file is relative to the run.

    `replace`: also rows of other origins are replaced (store/load/origin.py).
    """
    with _opened(url) as store:
        return list(_load_each(store, paths, on_result, {}, replace=replace))


@contextmanager
def _opened(url: str | None) -> Iterator[Store]:
    """Open the store for loads, with all tables, and merge the load log after them."""
    with open_store(url, write=True) as store:
        migrate.migrate(store)
        yield store
        load_log.merge(store)


def _progress(stack: ExitStack, paths: Sequence[Path], folder: Path, label: str) -> Callable[[int], None]:
    """Show progress while `stack` is open; return a function to call with the number of additional rows."""
    total = sum(record_file.rows_in(path) for path in paths)
    progress = stack.enter_context(Progress(folder, label, total, Busy("the store")))
    done = 0

    def on_rows(count: int) -> None:
        nonlocal done
        done += count
        progress.update(done)

    return on_rows


def _no_progress(count: int) -> None:
    """Ignore `count` more rows, without showing progress."""


def load_one(
    store: Store,
    opened: RecordFile,
    on_rows: Callable[[int], None] = _no_progress,
    *,
    replace: bool = False,
) -> Loaded:
    """Load a record file into an open store. If it raises InputError, no row was stored.

    `on_rows` is called with the number of rows that were loaded, or found in the store, since the last call.
    InputError also if the store has rows of another origin for these units, unless `replace`.
    """

    def check(batch: pa.Table) -> None:
        _check_part(store, opened, batch)
        _check_derived(store, opened, batch)

    content = opened.content(check)
    _check_key(opened, content)
    kind = opened.kind.name
    units = Units.read(store, opened, content, replace=replace)
    if not (units.all_there() and units.has_origin()):
        with lease.hold_all(store, units.subjects()) as leases:
            if leases:  # another loader may have loaded the file meanwhile
                units = Units.read(store, opened, content, replace=replace)
            if not units.all_there():
                units.check_origin()
                return _load_units(store, opened, units, leases, on_rows)
            units.take_over()
    on_rows(opened.rows)
    return Loaded(opened.path, kind, opened.rows, opened.rows, "unchanged")


def _load_units(
    store: Store,
    opened: RecordFile,
    units: Units,
    leases: Sequence[Lease],
    on_rows: Callable[[int], None],
) -> Loaded:
    kind = opened.kind.name
    units.begin()
    removed = units.remove()
    for number, batch in enumerate(opened.batches()):
        for held in leases:
            held.keep()
        store.insert(kind, opened.stored(batch), token=units.token(number))
        on_rows(batch.num_rows)
    in_store = units.end(leases)
    return Loaded(opened.path, kind, opened.rows, in_store, "replaced" if removed else "loaded")


def _load_each(
    store: Store,
    paths: Iterable[Path],
    on_result: Callable[[Result], None],
    written: Mapping[Path, str],
    on_rows: Callable[[int], None] = _no_progress,
    *,
    replace: bool,
) -> Iterator[Result]:
    """Load files one after the other and yield the results.

    `written`: for a file that a stage wrote, the SHA-256 in the stage's report.
    """
    for path in paths:
        result: Result
        try:
            opened = RecordFile(path, *_filled(path))
            if written.get(path, opened.sha256) != opened.sha256:
                raise InputError(
                    f"{path} differs from the output of its stage (SHA-256): run the stage again"
                )
            result = load_one(store, opened, on_rows, replace=replace)
        except InputError as error:
            result = RefusedFile(path, error)
        except StoreError as error:
            result = RefusedFile(path, StoreError(f"{path}: {error}", error.code))
        except StoreHeld as error:
            result = RefusedFile(path, StoreHeld(f"{path}: {error}"))
        on_result(result)
        yield result


def _filled(path: Path) -> tuple[dict[str, str], ShardPart, FileOrigin]:
    """Return the loader's columns for a file, the file's part, and the origin.

    The columns are the file's name and, for a file in a run's folder, the run.
    """
    path = path.resolve()
    for folder in path.parents:
        if RunLayout(folder).manifest.is_file():
            run = Run(folder)
            filled = {"source_file": run.layout.name_of(path), "run": run.id}
            shard, origin = run.layout.shard_of(path), origins.of_run(run)
            if shard.is_whole:
                return filled, ALL, origin
            try:
                key = run.layout.key_of(path)
            except ValueError as error:
                raise InputError(
                    f"{path} is not in a folder of a vantage point and repetition: load its run's folder"
                ) from error
            return filled, ShardPart(shard, f"{run.layout.name_of(run.layout.folder(key))}/"), origin
    return {"source_file": origins.name_outside(path)}, ALL, origins.of_file(path)


def _check_part(store: Store, opened: RecordFile, batch: pa.Table) -> None:
    """Refuse a shard's file with rows of other shards: counting or replacing the part would miss them."""
    if opened.part.shard.is_whole or "source_file" in opened.filled:
        return
    (others,) = store.count_in(batch, [f"NOT {opened.part.condition}"])
    if others:
        raise Contradiction(f"{opened.path}: {others} rows are of captures outside {opened.part.prefix}")


def _check_key(opened: RecordFile, content: FileContent) -> None:
    """Refuse a run's file with rows of another run, and a shard's file with rows of another key.

    The origin of the rows, and the part of a shard, depend only on the folder.
    """
    folder = opened.part.key
    if opened.origin.run is not None:
        folder = {"run": opened.origin.run, **folder}
    for unit in content.rows:
        for name, value in zip(opened.kind.unit, unit, strict=True):
            if folder.get(name, value) != value:
                raise Contradiction(
                    f"{opened.path}: its rows are of {name} {value}, its folder is called "
                    f"{folder[name]}: rename the folder back"
                )


def _check_derived(store: Store, opened: RecordFile, batch: pa.Table) -> None:
    """Refuse a file if its derived columns differ from the values that the store will compute."""
    derived = [column for column in opened.kind.file_columns if column.derived]
    conditions = [f"NOT isNotDistinctFrom(`{c.name}`, {c.derived})" for c in derived]
    for column, count in zip(derived, store.count_in(batch, conditions), strict=True):
        if count:
            raise Contradiction(f"{opened.path}: {column.name} is not {column.derived} in {count} rows")


def _check_sums(store: Store, run: Run, path: Path) -> None:
    """Check a probe file's rows in the store against the sums of docs/definitions.md."""
    try:
        report = run.report("probe", run.layout.key_of(path))
    except ValueError:  # no stage wrote this file below the run, so its targets are not counted
        report = None
    rows = store.rows(
        f"SELECT toString(outcome) AS outcome, count() AS n, countIf(attempts > 0) AS sent "
        f"FROM {store.dialect.database}.quic_probe WHERE source_file = {{source:String}} GROUP BY outcome",
        {"source": run.layout.name_of(path)},
    )
    by_outcome = {str(row["outcome"]): int(row["n"]) for row in rows}
    targets = sum(by_outcome.values())
    if report is not None and report.rows_in is not None:
        # A stopped stage has rows only for the targets it probed.
        targets = report.rows_in - len(report.rejected) - int(report.facts.get("not_probed") or 0)
    accounting.balance(targets, sum(int(row["sent"]) for row in rows), by_outcome, str(path))
