"""Options shared by several commands."""

from __future__ import annotations

import click

output_format = click.option(
    "--format",
    "output_format",
    default="PrettyCompact",
    show_default=True,
    metavar="FORMAT",
    help="Any output format of ClickHouse: JSONEachRow, CSVWithNames, TSV, Parquet, Vertical, ...",
)
