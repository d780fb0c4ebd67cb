"""The `targets` stage: writes a run's names, from Tranco, CrUX or the user's file, to targets.parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crawler import https
from crawler.lists import crux_list, own_list, tranco_list
from crawler.lists.target_list import TargetList, check_not_empty, joined
from firstflight.run.report import UnusedLine
from firstflight.run.run import Run
from firstflight.settings import Network, Targets
from firstflight.system import files
from firstflight.system.reporting.busy import Busy
from firstflight.system.reporting.progress import Progress, print_line
from schemas import records

# The minimum number of names in a row group of targets.parquet, except for the last one.
ROW_GROUP = 65_536


def stage(run: Run) -> None:
    """Write RUN/targets/targets.parquet (record kind `target`), in the list's order.

    The stage's report lists rejected lines with their numbers. Raise InputError if no line has a name, and
    FetchError if the list cannot be fetched.
    """
    settings = run.settings
    with run.stage("targets") as report:
        folder = run.layout.stage("targets")
        target_list = read(settings.targets, settings.network, settings.campaign.contact, folder)
        report.rows_in = target_list.lines
        report.rejected = [UnusedLine(line=line, reason=reason) for line, reason in target_list.rejected]
        report.counts = {"duplicates": target_list.duplicates, "rejected": len(target_list.rejected)}
        for line, reason in target_list.rejected:
            print_line(f"targets: line {line} rejected: {reason}")
        check_not_empty(target_list)
        _write(run, target_list)
        report.rows_out = len(target_list.targets)
        run.add_output(report, run.layout.targets)


def read(targets: Targets, network: Network, contact: str, folder: Path) -> TargetList:
    """Read the list in the settings. Requests to the host contain `contact`.

    `folder`: for the progress of downloads, and for temporary files.
    """
    if targets.source == "file":
        assert targets.file is not None  # settings check it
        return own_list.read(targets.file, targets.top, folder)
    session = https.Session(network.ca_bundle, contact, folder)
    if targets.source == "crux":
        return _crux(targets, session, folder)
    tranco = tranco_list.read(
        date=targets.date,
        list_id=targets.list_id,
        top=targets.top,
        cache_dir=targets.cache_dir,
        session=session,
        scratch=folder,
    )
    return (
        joined(tranco, _crux(targets, session, folder), folder) if targets.source == "tranco+crux" else tranco
    )


def _crux(targets: Targets, session: https.Session, folder: Path) -> TargetList:
    assert targets.crux_month is not None  # settings check it
    cache_dir = targets.crux_cache_dir
    return crux_list.read(targets.crux_month, targets.top, targets.crux_url, cache_dir, session, folder)


def _write(run: Run, target_list: TargetList) -> None:
    schema = records.load("target").arrow_schema()
    with (
        files.replacing(run.layout.targets) as part,
        pq.ParquetWriter(part, schema, compression="zstd") as writer,
        Progress(
            run.layout.stage("targets"), "targets", len(target_list.targets), Busy("writing")
        ) as progress,
    ):
        written = 0
        for table in _row_groups(target_list):
            writer.write_table(table.select(schema.names).cast(schema))
            written += table.num_rows
            progress.update(written)
            pa.default_memory_pool().release_unused()


def _row_groups(target_list: TargetList) -> Iterator[pa.Table]:
    """Yield the targets with the list's id, in tables of about ROW_GROUP rows."""
    tables: list[pa.Table] = []
    for block in target_list.targets.tables():
        tables.append(block.append_column("list_id", pa.repeat(target_list.list_id, block.num_rows)))
        if sum(table.num_rows for table in tables) >= ROW_GROUP:
            yield pa.concat_tables(tables).combine_chunks()
            tables = []
    if tables:
        yield pa.concat_tables(tables).combine_chunks()
