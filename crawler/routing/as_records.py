"""Writes record files of the `as_data` stage: prefixes with origin (as_prefix), AS organisations (as_org)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from crawler.routing.as2org import Organisation
from firstflight.as_map import OTHERS
from firstflight.system import files
from schemas import records

PREFIX_FILE = "as_prefix.parquet"
ORGANISATION_FILE = "as_org.parquet"


def write_prefixes(database: Path, table_at: datetime, cdn_of: Mapping[int, str], path: Path) -> None:
    """Write the prefixes in a pyasn text database, in order, as `as_prefix` records of time `table_at`."""
    table = pacsv.read_csv(
        database,
        read_options=pacsv.ReadOptions(column_names=["prefix", "asn"]),
        parse_options=pacsv.ParseOptions(
            # Comment lines start with a semicolon and have no tab.
            delimiter="\t",
            invalid_row_handler=lambda row: "skip" if row.text.startswith(";") else "error",
        ),
        convert_options=pacsv.ConvertOptions(column_types={"prefix": pa.string(), "asn": pa.uint32()}),
    )
    asns = pc.unique(table["asn"])
    cdns = pa.array([cdn_of.get(asn, OTHERS) for asn in asns.to_pylist()])
    columns = {
        "table_at": _instant(table_at, table.num_rows),
        "prefix": table["prefix"],
        "asn": table["asn"],
        "cdn": cdns.take(pc.index_in(table["asn"], asns)),
    }
    _write("as_prefix", columns, path)


def write_organisations(
    organisations: Mapping[int, Organisation], table_at: datetime, file: str, path: Path
) -> None:
    """Write each AS as an `as_org` record, valid from the time `table_at`. `file` is the source's name."""
    columns: dict[str, object] = {
        "table_at": _instant(table_at, len(organisations)),
        "asn": list(organisations),
        "as2org_file": [file] * len(organisations),
    }
    for name in Organisation._fields:
        columns[name] = [getattr(organisation, name) for organisation in organisations.values()]
    _write("as_org", columns, path)


def _instant(moment: datetime, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(int(moment.timestamp()) * 10**9, pa.timestamp("ns", "UTC")), rows)


def _write(kind: str, columns: Mapping[str, object], path: Path) -> None:
    schema = records.load(kind).arrow_schema()
    table = pa.table({name: columns[name] for name in schema.names}, schema=schema)
    with files.replacing(path) as part:
        pq.write_table(table, part, compression="zstd")
