"""Describes an export: Frictionless data package, schema, queries, citation, and a page that explains it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from schemas import document, records, sql
from store.location import DATABASE
from store.sql import literal

# Query of schemas/queries -> (kind that it needs, paper with the table).
TABLES = {
    "table1_report": ("quic_probe", "IMC 2024, Table 1, doi:10.1145/3646547.3689022"),
    "anrw_table1": ("download", "ANRW 2023, Table 1, doi:10.1145/3606464.3606474"),
    "anrw_table2": ("download", "ANRW 2023, Table 2, doi:10.1145/3606464.3606474"),
}
_PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"
_MEDIA_TYPE = "application/vnd.apache.parquet"


@dataclass(frozen=True)
class Written:
    """A record file of an export: path within the export, rows, bytes, SHA-256, number of removed rows."""

    path: str
    run: str
    kind: str
    rows: int
    bytes: int
    sha256: str
    removed: int


@dataclass(frozen=True)
class Terms:
    """The user's statements about an export: licence (an SPDX identifier or a URL), title and authors."""

    licence: str
    title: str
    authors: Sequence[str] = ()


@dataclass
class Contents:
    """An export's contents."""

    terms: Terms
    anonymised: bool
    lists: int
    files: list[Written] = field(default_factory=list)
    created: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    @property
    def runs(self) -> list[str]:
        """The runs, in the order of their files."""
        return list(dict.fromkeys(file.run for file in self.files))

    @property
    def kinds(self) -> list[str]:
        """The record kinds, sorted."""
        return sorted({file.kind for file in self.files})


def data_package(contents: Contents) -> dict[str, Any]:
    """Return datapackage.json (Data Package 2.0)."""
    is_url = contents.terms.licence.startswith(("https://", "http://"))
    return {
        "$schema": _PROFILE,
        "name": "firstflight-export",
        "title": contents.terms.title,
        "created": contents.created.isoformat(),
        "version": f"{contents.created:%Y.%m.%d}",
        "licenses": [{"path" if is_url else "name": contents.terms.licence}],
        "contributors": [{"title": author, "roles": ["author"]} for author in contents.terms.authors],
        "sources": [{"title": f"run {run} of firstflight"} for run in contents.runs],
        "resources": [
            {
                "name": f"{file.kind}-{file.run}".lower().replace("_", "-"),
                "path": file.path,
                "type": "table",
                "format": "parquet",
                "mediatype": _MEDIA_TYPE,
                "bytes": file.bytes,
                "hash": f"sha256:{file.sha256}",
                "schema": f"schemas/{file.kind}.json",
            }
            for file in contents.files
        ],
    }


def table_schema(kind: records.Kind) -> dict[str, Any]:
    """Return the Table Schema for a record file; `unit` is a property of this project."""
    return {"fields": [_field(column) for column in kind.file_columns]}


def _field(column: records.Column) -> dict[str, Any]:
    described_field: dict[str, Any] = {
        "name": column.name,
        "type": _type(column),
        "description": column.meaning,
        "constraints": {"required": not column.nullable},
    }
    if column.values:
        described_field["constraints"]["enum"] = list(column.values)
    if column.unit and not column.is_instant:
        described_field["unit"] = column.unit
    return described_field


def _type(column: records.Column) -> str:
    if column.is_list:
        return "array"
    if column.is_instant:
        return "datetime"
    if "int" in column.type:
        return "integer"
    return {"bool": "boolean", "float32": "number", "float64": "number"}.get(column.type, column.type)


def schema_page(contents: Contents) -> str:
    """Return SCHEMA.md: every column of every kind."""
    kinds = [document.of_kind(records.load(name)) for name in contents.kinds]
    head = (
        "# Columns\n\nTimes (`*_at`) are timestamps in nanoseconds, UTC. Null means not observed, never "
        "zero. Columns *from* the loader or the store are not in the files.\n"
    )
    return "\n".join([head, *kinds])


def queries(contents: Contents) -> Mapping[str, str]:
    """Return the SQL of the papers' tables: file name -> text. `views.sql` defines the views."""
    dialect = sql.Dialect(DATABASE)
    texts = {}
    for name, (kind, paper) in TABLES.items():
        for run in contents.runs:
            if any(file.run == run and file.kind == kind for file in contents.files):
                text = sql.query(name, dialect).replace("{run:String}", literal(run))
                texts[f"{name.removesuffix('_report')}-{run}.sql"] = f"-- {paper}\n{text}\n"
    if texts:
        views = [view.statement(dialect) for view in sql.views()]
        texts["views.sql"] = ";\n\n".join(views) + ";\n"
    return texts


def citation(contents: Contents) -> str:
    """Return CITATION.cff of the data set. JSON texts are YAML."""
    quoted = json.dumps
    authors = contents.terms.authors or ["The authors of the measurement"]
    lines = [
        "cff-version: 1.2.0",
        "message: Cite this data set, and the software that measured it.",
        "type: dataset",
        f"title: {quoted(contents.terms.title, ensure_ascii=False)}",
        f"date-released: {contents.created:%Y-%m-%d}",
        f"version: {contents.created:%Y.%m.%d}",
        f"{_licence_key(contents.terms.licence)}: {quoted(contents.terms.licence)}",
        "authors:",
        *(f"  - name: {quoted(author, ensure_ascii=False)}" for author in authors),
        "references:",
        "  - type: software",
        "    title: firstflight",
        f"    version: {version('firstflight')}",
        "    authors:",
        "      - name: The firstflight authors",
    ]
    return "\n".join(lines) + "\n"


def _licence_key(licence: str) -> str:
    return "license-url" if licence.startswith(("https://", "http://")) else "license"


def readme(contents: Contents) -> str:
    """Return README.md."""
    lines = [
        f"# {contents.terms.title}\n",
        f"Measured with firstflight, exported on {contents.created:%Y-%m-%d} by version "
        f"{version('firstflight')}. Licence: {contents.terms.licence}.\n",
        "| run | kind | rows | rows removed | file |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {file.run} | {file.kind} | {file.rows} | {file.removed} | {file.path} |"
            for file in contents.files
        ),
        "",
        _about_lists(contents),
        "",
        *([_ANONYMISED, ""] if contents.anonymised else []),
        _FILES,
    ]
    return "\n".join(lines)


def _about_lists(contents: Contents) -> str:
    if not contents.lists:
        return "No opt-out list was in force at the export, so no row was removed."
    return (
        f"Rows that name a host or an address on one of {contents.lists} opt-out lists, as of the day of the "
        "export, were removed."
    )


_ANONYMISED = """\
Names, certificates, and the addresses and names of the machines that measured are keyed hashes
(HMAC-SHA-256). Equal values have equal hashes in this export. Addresses of servers are unchanged."""
_FILES = """\
## Files

| file | |
| --- | --- |
| `runs/RUN/KIND.parquet` | the records; `SCHEMA.md` explains every column |
| `runs/RUN/manifest.json`, `settings.json` | versions, seeds, counts and settings, without secrets |
| `datapackage.json`, `schemas/` | the same as a Frictionless data package |
| `sql/` | the SQL of the papers' tables, for ClickHouse |
| `SHA256SUMS` | checksums: `sha256sum -c SHA256SUMS` |
| `CITATION.cff` | how to cite the data |

## Use

    firstflight load DIR            # into a store; then `firstflight report table1 --run RUN`

Any program that reads Parquet works too: `pandas.read_parquet("runs/RUN/quic_probe.parquet")`.
"""


def title_of(runs: Sequence[str], names: Sequence[str]) -> str:
    """Return the title of an export for which the user gave no title."""
    campaigns = ", ".join(dict.fromkeys(filter(None, names)))
    return f"{campaigns or 'Measurements'} ({', '.join(runs)})"
