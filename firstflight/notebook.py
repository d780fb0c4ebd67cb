"""Functions for notebooks and other Python programs: runs, queries, SQL and record files as Arrow tables.

A query of the store runs in a child process, `firstflight sql` or `firstflight query`. This confines the
engine, lets Ctrl-C stop it, and frees its memory afterwards. Record files need no store and are read in this
process.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.run.run import Run
from firstflight.suggestion import did_you_mean
from schemas import records as kinds

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

_FORMAT = "Parquet"
_OF_STATUS = {2: UsageError, 3: InputError}
_NEWEST = "newest"
_RUN = ("run", "name", "state", "started_at", "tool_version")


class Table:
    """A result. `arrow` is a `pyarrow.Table`. This object also has its attributes.

    Enumerations are text, times are timestamps (ns, UTC), null means not observed. Libraries that read
    Arrow's C stream, such as polars and DuckDB, accept this object directly.
    """

    def __init__(self, arrow: pa.Table) -> None:
        self.arrow = arrow

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Return a pandas DataFrame. `options`: arguments of `pyarrow.Table.to_pandas`."""
        frame: pandas.DataFrame = self.arrow.to_pandas(**options)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Return a polars DataFrame. Raise ImportError if polars, an optional package, is not installed."""
        import polars

        frame = polars.from_arrow(self.arrow)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return one dict per row."""
        rows: list[dict[str, Any]] = self.arrow.to_pylist()
        return rows

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        return self.arrow[column]

    def __getattr__(self, name: str) -> Any:
        if name == "arrow":  # not set yet, for example during a copy
            raise AttributeError(name)
        return getattr(self.arrow, name)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.arrow.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"{len(self)} rows: {', '.join(self.arrow.column_names)}"

    def _repr_html_(self) -> str:
        html: str = self.to_pandas()._repr_html_()
        return html


def runs(folder: Path | str | None = None) -> Table:
    """Return the runs in the store, newest first: run, name, state, started_at, tool_version.

    `folder`: return the runs in this folder (such as `var/runs`) instead, without a store. Raise like `sql`,
    and InputError for an invalid manifest.
    """
    if folder is None:
        return sql(f"SELECT {', '.join(_RUN)} FROM run ORDER BY started_at DESC, run DESC")
    import pyarrow as pa

    if not Path(folder).is_dir():
        raise InputError(f"there is no folder {folder}")
    schema = pa.schema([(name, kinds.load("run").column(name).arrow_type()) for name in _RUN])
    entries = [_run_row(run) for run in Run.all(Path(folder))]
    rows = sorted(entries, key=lambda row: (row["started_at"], row["run"]), reverse=True)
    return Table(pa.Table.from_pylist(rows, schema=schema))


def query(name: str, /, **parameters: object) -> Table:
    """Return the result of the named query `name` (docs/queries.md, `firstflight query`).

    A parameter is text, a number, a bool, a date, or a list of numbers. Raise UsageError for an unknown query
    or parameter; otherwise raise like `sql`.
    """
    options = [f"--param={key}={_text(value)}" for key, value in parameters.items()]
    return _run_command(["query", *options, "--", name])


def sql(text: str) -> Table:
    """Return the result of a read-only statement in ClickHouse's SQL.

    FIRSTFLIGHT_STORE selects the store, embedded or a server (docs/store.md). Raise UsageError for a rejected
    statement or a missing store, and FirstflightError with the engine's or the server's reason.
    """
    return _run_command(["sql", "-"], text)


def records(run: str | Path, kind: str, columns: Sequence[str] | None = None) -> Table:
    """Return all rows of `kind` in a run's record files. Needs no store.

    `run`: a run's id, the folder's path, or `newest`. `columns`: only these columns, derived ones included
    (default: all). Raise UsageError for an unknown run, kind or column, and InputError if the run has no such
    records or a file cannot be read.
    """
    import pyarrow as pa

    record_kind = _kind(kind)
    all_of_kind = [column.name for column in record_kind.columns if column.source != "store"]
    names = list(columns) if columns is not None else all_of_kind
    for name in names:
        _check_known(name, all_of_kind, f"column in {kind}")
    source_run, files = _files(run, kind)
    fields = [pa.field(c.name, c.arrow_type()) for c in map(record_kind.column, names)]
    return Table(pa.concat_tables(_read(source_run, path, record_kind, pa.schema(fields)) for path in files))


def _files(run: str | Path, kind: str) -> tuple[Run, list[Path]]:
    """Return a run and its record files of a kind, at least one."""
    if run == _NEWEST:
        chosen = reversed(Run.all())
    else:
        chosen = iter([Run.open(run if isinstance(run, str) else str(run.absolute()))])
    stored_kinds: set[str] = set()
    for candidate in chosen:
        by_kind: dict[str, list[Path]] = {}
        for path in candidate.record_files():
            by_kind.setdefault(kinds.of_stem(path.stem), []).append(path)
        if kind in by_kind:
            return candidate, by_kind[kind]
        stored_kinds |= by_kind.keys()
    subject = "no run has" if run == _NEWEST else f"run {run} has no"
    raise InputError(
        f"{subject} records of {kind}; there are {', '.join(sorted(stored_kinds)) or 'no records at all'}"
    )


def _run_row(run: Run) -> dict[str, object]:
    manifest = run.manifest
    try:
        started = datetime.fromisoformat(str(manifest["started_at"]))
        texts = {name: str(manifest[name]) for name in ("name", "state", "tool_version")}
    except (KeyError, ValueError) as error:
        raise InputError(f"{run.layout.manifest} is no manifest of a run: {error}") from error
    return {"run": run.id, "started_at": started, **texts}


def _read(run: Run, path: Path, kind: kinds.Kind, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    loaders = {"run": run.id, "source_file": run.layout.name_of(path)}
    stored = [name for name in schema.names if kind.column(name).source != "loader"]
    try:
        with pq.ParquetFile(path) as file:
            missing = [name for name in stored if name not in file.schema_arrow.names]
            if missing:
                raise InputError(f"{path} is not a {kind.name} file: it lacks {', '.join(missing)}")
            table = file.read(stored)
        columns = [
            table[field.name].cast(field.type)
            if field.name in stored
            else pa.repeat(pa.scalar(loaders.get(field.name), field.type), table.num_rows)
            for field in schema
        ]
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def _run_command(arguments: Sequence[str], text: str = "") -> Table:
    """Run a command that prints Parquet. Prints the command's messages on standard error."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    argv = [sys.executable, "-P", "-m", "cli", arguments[0], "--format", _FORMAT, *arguments[1:]]
    done = subprocess.run(argv, input=text.encode(), capture_output=True, check=False)
    *messages, last = done.stderr.decode(errors="replace").strip().split("\n")
    if done.returncode:
        error = _OF_STATUS.get(done.returncode, FirstflightError)
        by = f"by signal {-done.returncode}" if done.returncode < 0 else f"with status {done.returncode}"
        raise error(last.removeprefix("firstflight: ") or f"`firstflight {arguments[0]}` ended {by}")
    for message in filter(None, [*messages, last]):
        sys.stderr.write(message + "\n")
    try:
        return Table(pq.ParquetFile(pa.BufferReader(done.stdout)).read())
    except pa.ArrowInvalid as error:
        raise UsageError("the answer is not a table: give a SELECT without a FORMAT clause") from error


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value)


def _kind(name: str) -> kinds.Kind:
    _check_known(name, kinds.stored_names(), "record kind")
    return kinds.load(name)


def _check_known(name: str, names: Sequence[str], role: str) -> None:
    if name not in names:
        hint = did_you_mean(name, names) or f"; there are {', '.join(names)}"
        raise UsageError(f"there is no {role} {name!r}{hint}")
