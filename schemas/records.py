"""Record kinds: the only description of the columns that stages write and the store has.

A kind is a YAML file in `schemas/records/`; it includes columns of `schemas/columns.yaml` by lines
`- KEY from SOURCE`. A stage writes a record file as follows:

    import pyarrow as pa, pyarrow.parquet as pq
    from schemas import records

    kind = records.load("dns_answer")
    table = pa.Table.from_pylist(rows, schema=kind.arrow_schema())   # rows: list of dicts
    pq.write_table(table, "dns_answer.parquet.part", compression="zstd")   # then rename

`arrow_schema()` omits the columns marked `from: loader`, which the loader fills. A column that is not
nullable in the YAML is not nullable in the schema, and the loader refuses a file with a null in it. Record
files contain columns marked `derived`, but the store computes them from others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schemas import yaml_text

if TYPE_CHECKING:
    import pyarrow as pa

FOLDER = Path(__file__).parent / "records"
SHARED = Path(__file__).parent / "columns.yaml"

_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_SCALARS = ["string", "bool", *_INTEGERS, "float32", "float64", "date"]
# `quantiles`: the mergeable state of QUANTILES over Int64, only in tables that the loader derives from
# others.
TYPES = frozenset([*_SCALARS, *(f"list<{scalar}>" for scalar in _SCALARS), "quantiles"])
QUANTILES = "quantilesDD(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)"
UNITS = frozenset(["ns", "us", "ms", "s", "bytes", "packets", "bps", "share"])

# Record files are named after their kind, except these.
_STEMS = {"target": "targets"}

# Value of `nullable` for columns that our own programs always fill and rows of other scanners may lack.
IMPORTED = "imported"

_KIND_KEYS = {"kind", "meaning", "unit", "time", "stored", "writer", "columns"}
_COLUMN_KEYS = {"name", "type", "unit", "nullable", "from", "meaning", "derived", "values"}


class DescriptionError(Exception):
    """The record kind does not exist, or its YAML is not valid."""


@dataclass(frozen=True)
class Column:
    """One column in a record kind.

    `type` is one of `TYPES`. `unit` is one of `UNITS`, or `None` for a number without a unit. `source` names
    the stage or program that fills the column, or the `loader`, or the `store` (by a default). `derived` is
    the SQL expression by which the store computes the column instead of storing it. `values` is the closed
    list of allowed values.
    """

    name: str
    type: str
    meaning: str
    unit: str | None = None
    nullable: bool = False
    source: str | None = None
    derived: str | None = None
    values: tuple[str, ...] = ()

    @property
    def comment(self) -> str:
        """The column's comment in the database: unit, then meaning."""
        return f"[{self.unit}] {self.meaning}" if self.unit else self.meaning

    def arrow_type(self) -> pa.DataType:
        """Return the pyarrow type of the column in a record file: of an instant, timestamp[ns, UTC]."""
        import pyarrow as pa

        return pa.timestamp("ns", "UTC") if self.is_instant else self.segment_type()

    def segment_type(self) -> pa.DataType:
        """Return the pyarrow type of the column in an engine's segments: of an instant, int64 (ns)."""
        import pyarrow as pa

        scalar = self.type.removeprefix("list<").removesuffix(">")
        named = {"bool": "bool_", "date": "date32"}.get(scalar, scalar)
        arrow_type: pa.DataType = getattr(pa, named)()
        return pa.list_(arrow_type) if self.is_list else arrow_type

    @property
    def is_list(self) -> bool:
        """Whether the column has lists; a list is never null, but may be empty."""
        return self.type.startswith("list<")

    @property
    def is_instant(self) -> bool:
        """Whether the column is an instant.

        It is timestamp[ns, UTC] in record files, ns since 1970 in segments, JSON lines and older record
        files, DateTime64(9, 'UTC') in the store.
        """
        return self.name.endswith("_at") and self.type == "int64" and self.unit == "ns"


@dataclass(frozen=True)
class Kind:
    """A record kind. `unit` names the columns that identify the unit of loading a row belongs to.

    A record file with the same values in these columns replaces the rows loaded before (of a stage that ran
    again). `time` names the column with the time of measurement (ns since 1970, UTC), if any. `stored` False:
    record files only, no table. `writer` names a module outside the stages that writes the record files; the
    module's constant KIND must agree. `None`: a stage writes them, or there are no record files.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    unit: tuple[str, ...] = ()
    time: str | None = None
    stored: bool = True
    writer: str | None = None

    def column(self, name: str) -> Column:
        """Return the column with that name; KeyError if the kind does not have it."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    @property
    def file_columns(self) -> tuple[Column, ...]:
        """The columns in a record file, in order: all that neither the loader nor the store fills."""
        return tuple(column for column in self.columns if column.source not in ("loader", "store"))

    def arrow_schema(self) -> pa.Schema:
        """Return the pyarrow schema for a record file of this kind; the metadata names the kind."""
        import pyarrow as pa

        fields = [pa.field(c.name, c.arrow_type(), nullable=c.nullable) for c in self.file_columns]
        return pa.schema(fields, metadata={b"firstflight.kind": self.name.encode()})

    def describe(self) -> list[dict[str, Any]]:
        """Return a dict per column: name, type, unit, nullable, meaning, from, values (`None`: any)."""
        return [
            {
                "name": c.name,
                "type": c.type,
                "unit": c.unit,
                "nullable": c.nullable,
                "meaning": c.meaning,
                "from": c.source,
                "values": list(c.values) or None,
            }
            for c in self.columns
        ]


def with_numbers(table: pa.Table) -> pa.Table:
    """Return a table from a record file with its instants as int64: ns since 1970, UTC."""
    import pyarrow as pa

    fields = [
        field.with_type(pa.int64()) if pa.types.is_timestamp(field.type) else field for field in table.schema
    ]
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))


def stem_of(kind: str) -> str:
    """Return the name for a kind's record files without `.parquet`."""
    return _STEMS.get(kind, kind)


def of_stem(stem: str) -> str:
    """Return the kind of the record files with that name without `.parquet`: the inverse of `stem_of`."""
    return {name: kind for kind, name in _STEMS.items()}.get(stem, stem)


def names() -> list[str]:
    """Return the names of all record kinds, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def stored_names() -> list[str]:
    """Return the names of the record kinds that have a table in the store, sorted."""
    return [name for name in names() if load(name).stored]


@cache
def load(name: str) -> Kind:
    """Return the record kind `name`; `DescriptionError` if it does not exist or its YAML is not valid."""
    path = FOLDER / f"{name}.yaml"
    if name not in names():
        raise DescriptionError(f"there is no record kind {name!r}; there are: {', '.join(names())}")
    return parse(path.read_text(encoding="utf-8"), path.name)


def parse(text: str, where: str) -> Kind:
    """Parse a kind's YAML text; `where` names the text in errors."""
    raw = yaml_text.read(text)
    _check_keys(raw, _KIND_KEYS, where)
    columns = tuple(_column(_included(entry, where), where) for entry in raw["columns"])
    by_name = [column.name for column in columns]
    twice = sorted({name for name in by_name if by_name.count(name) > 1})
    if twice:
        raise DescriptionError(f"{where}: column {twice[0]} is defined twice")
    unit = tuple(raw.get("unit", ()))
    time = raw.get("time")
    for name in (*unit, *([time] if time else [])):
        if name not in by_name:
            raise DescriptionError(f"{where}: `unit` or `time` names {name}, which is not a column")
    stored = bool(raw.get("stored", True))
    meaning = str(raw["meaning"]).strip()
    return Kind(str(raw["kind"]), meaning, columns, unit, time, stored, raw.get("writer"))


@cache
def _shared() -> dict[str, dict[str, Any]]:
    """Return the columns that several kinds have, by key."""
    shared: dict[str, dict[str, Any]] = yaml_text.read(SHARED.read_text(encoding="utf-8"))
    return shared


def _included(entry: Any, where: str) -> Any:
    """Return the column that an entry `KEY from SOURCE` includes; any other entry as it is."""
    if not isinstance(entry, str):
        return entry
    key, _, source = entry.partition(" from ")
    if key not in _shared():
        raise DescriptionError(f"{where}: {SHARED.name} has no column {key!r}")
    return {"name": key, **_shared()[key], "from": source or None}


def _column(entry: Any, where: str) -> Column:
    _check_keys(entry, _COLUMN_KEYS, where)
    name, type_, unit = str(entry["name"]), str(entry["type"]), entry.get("unit")
    if type_ not in TYPES:
        raise DescriptionError(f"{where}: column {name} has the unknown type {type_!r}")
    nullable = entry.get("nullable", False)
    if nullable not in (True, False, IMPORTED):
        raise DescriptionError(f"{where}: column {name} has the unknown value nullable: {nullable!r}")
    if unit is not None and unit not in UNITS:
        raise DescriptionError(f"{where}: column {name} has the unknown unit {unit!r}")
    return Column(
        name=name,
        type=type_,
        meaning=str(entry["meaning"]).strip(),
        unit=unit,
        nullable=bool(nullable),
        source=entry.get("from"),
        derived=entry.get("derived"),
        values=tuple(entry.get("values", ())),
    )


def _check_keys(raw: Any, keys: set[str], where: str) -> None:
    """Refuse a mapping with an unknown key, so that a misspelt key is never ignored."""
    if not isinstance(raw, dict):
        raise DescriptionError(f"{where}: expected a mapping, found {type(raw).__name__}")
    unknown = sorted(set(raw) - keys)
    if unknown:
        raise DescriptionError(f"{where}: unknown key {unknown[0]!r}")
