"""Writes an export of runs, and finds the runs in an export.

An export is a folder: runs/RUN/KIND.parquet with manifest and settings, and files that describe them.
datapackage.json is written last, so a folder without it is incomplete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from firstflight.errors import InputError, UsageError
from firstflight.run.run import Run
from firstflight.system import files
from schemas import records
from store import Store
from store.export import description, rows
from store.export.anonymous import Anonymiser
from store.export.description import Contents, Terms, Written
from store.export.opted_out import OptedOut
from store.export.redacted import redacted

if TYPE_CHECKING:
    import pyarrow.parquet as pq

SUMS = "SHA256SUMS"
_RUNS = "runs"
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")


class _Hashed:
    """A file that is written once; its SHA-256 and size are known without reading it again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        self.size += len(memoryview(data).cast("B"))
        return self._file.write(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed


class Export:
    """An export that is being written to the folder `out`, which is new or empty.

    `lists_of_runs`: the names of the opt-out lists in the settings of the runs that were written.
    """

    def __init__(
        self, store: Store, out: Path, opted_out: OptedOut, lists: int, anonymiser: Anonymiser | None
    ) -> None:
        self._store, self._out = store, out
        self._opted_out, self._lists, self._anonymiser = opted_out, lists, anonymiser
        self.lists_of_runs: set[str] = set()
        self._sums: dict[str, str] = {}

    def write(self, runs: Sequence[str], licence: str, title: str | None, authors: Sequence[str]) -> Contents:
        """Write everything. UsageError if the store has no manifest, or no rows, of a run."""
        found = {run: rows.run_row(self._store, run) for run in runs}
        for run, row in found.items():
            if row is None:
                raise UsageError(
                    f"the store in {self._store.location} has no manifest of run {run}: load the run's folder"
                )
        names = [str(row["name"]) for row in found.values() if row]
        terms = Terms(licence, title or description.title_of(runs, names), authors)
        contents = Contents(terms, self._anonymiser is not None, self._lists)
        for run, row in found.items():
            assert row is not None
            self._settings(run, "manifest", str(row["manifest"]))
            if row["settings"]:
                self._settings(run, "settings", str(row["settings"]))
                self.lists_of_runs |= _optouts(str(row["settings"]))
            contents.files += self._records(run)
        self._describe(contents)
        return contents

    def _settings(self, run: str, name: str, text: str) -> None:
        try:
            value = redacted(text, self._opted_out, self._anonymiser)
        except ValueError as error:
            raise InputError(f"the {name} of run {run} in the store cannot be read: {error}") from error
        self._json(f"{_RUNS}/{run}/{name}.json", value)

    def _records(self, run: str) -> list[Written]:
        found = []
        for kind in rows.kinds():
            units = rows.units(self._store, kind, run)
            if units:
                found.append(self._kind(run, kind, units))
        if not found:
            raise UsageError(f"the store in {self._store.location} has no rows of run {run} to export")
        return found

    def _kind(self, run: str, kind: records.Kind, units: Sequence[dict[str, object]]) -> Written:
        """Write one record file."""
        import pyarrow.parquet as pq

        name = f"{_RUNS}/{run}/{records.stem_of(kind.name)}.parquet"
        kept = removed = 0
        with files.replacing(self._out / name) as part, part.open("wb") as file:
            hashed = _Hashed(file)
            with pq.ParquetWriter(hashed, kind.arrow_schema(), compression="zstd") as writer:
                for unit in units:
                    try:
                        rows_of_unit, kept_of_unit = self._unit(writer, kind, unit)
                    except UnicodeDecodeError as error:  # a loaded file may have any bytes
                        raise InputError(f"run {run}: some text of {kind.name} is not UTF-8") from error
                    kept, removed = kept + kept_of_unit, removed + rows_of_unit - kept_of_unit
        digest = hashed.sha256.hexdigest()
        self._sums[name] = digest
        return Written(name, run, kind.name, kept, hashed.size, digest, removed)

    def _unit(self, writer: pq.ParquetWriter, kind: records.Kind, unit: dict[str, object]) -> tuple[int, int]:
        """Write a unit's rows, except opted-out ones; return the number of all rows, and of written rows."""
        read = kept = 0
        for table in rows.read(self._store, kind, unit):
            remaining = self._opted_out.without_opted_out(table, kind)
            read, kept = read + table.num_rows, kept + remaining.num_rows
            writer.write_table(self._anonymiser.rows(remaining, kind) if self._anonymiser else remaining)
        return read, kept

    def _describe(self, contents: Contents) -> None:
        for kind in contents.kinds:
            self._json(f"schemas/{kind}.json", description.table_schema(records.load(kind)))
        for name, text in description.queries(contents).items():
            self._text(f"sql/{name}", text)
        self._text("SCHEMA.md", description.schema_page(contents))
        self._text("CITATION.cff", description.citation(contents))
        self._text("README.md", description.readme(contents))
        package = _as_text(description.data_package(contents))
        self._sums["datapackage.json"] = sha256(package.encode()).hexdigest()
        lines = [f"{digest}  {name}\n" for name, digest in sorted(self._sums.items())]
        files.write_text(self._out / SUMS, "".join(lines))
        files.write_text(self._out / "datapackage.json", package)

    def _json(self, name: str, value: object) -> None:
        self._text(name, _as_text(value))

    def _text(self, name: str, text: str) -> None:
        files.write_text(self._out / name, text)
        self._sums[name] = sha256(text.encode()).hexdigest()


def check_out(out: Path) -> None:
    """Raise UsageError unless `out` is a new or an empty folder."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists and is not an empty folder: name a new one")


def is_export(folder: Path) -> bool:
    """Return whether a folder is a complete export."""
    return (folder / "datapackage.json").is_file()


def runs_in(folder: Path) -> list[Run]:
    """Compare the files of an export with the checksums in SHA256SUMS, and return its runs.

    InputError if a file differs, is missing there, or cannot be read.
    """
    sums = {}
    try:
        for line in (folder / SUMS).read_text(encoding="utf-8").splitlines():
            match = _SUM.fullmatch(line)
            if match:
                sums[match[2]] = match[1]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {folder / SUMS}: {error}") from error
    runs = [Run(path.parent.resolve()) for path in sorted(folder.glob(f"{_RUNS}/*/manifest.json"))]
    for run in runs:
        if not run.path.is_relative_to(folder.resolve()):
            raise InputError(f"{run.path}, a run of {folder}, is not in that folder: copy the export again")
        run_files = [run.layout.manifest, run.layout.settings, run.layout.config]
        for path in (*filter(Path.is_file, run_files), *run.record_files()):
            name = str(path.relative_to(folder.resolve()))
            try:
                digest = files.sha256_of(path)
            except OSError as error:
                raise InputError(f"cannot read {path}: {error}") from error
            if sums.get(name) != digest:
                raise InputError(
                    f"{folder / name} does not have the checksum in {SUMS}: copy the export again"
                )
    if not runs:
        raise InputError(f"{folder} has no runs: copy the export again")
    return runs


def _optouts(settings: str) -> set[str]:
    """Return the file names of the opt-out lists in a run's settings."""
    probe = json.loads(settings).get("probe")
    given = probe.get("optout") if isinstance(probe, dict) else None
    return {Path(str(path)).name for path in given} if isinstance(given, list) else set()


def _as_text(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
