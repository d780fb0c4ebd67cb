"""The `targets` stage: writes a run's names, from Tranco, CrUX or the user's file, to targets.parquet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crawler import https
from crawler.lists import crux_list, own_list, tranco_list
from crawler.lists.target_list import TargetList, joined
from firstflight.errors import InputError
from firstflight.run.report import Rejected
from firstflight.run.run import Run
from firstflight.settings import Network, Targets
from firstflight.system import files
from firstflight.system.busy import Busy
from firstflight.system.progress import Progress, print_line
from schemas import records

# Names of a row group of targets.parquet, at least, except for the last one.
ROW_GROUP = 65_536


def stage(run: Run) -> None:
    """Write RUN/targets/targets.parquet (record kind `target`), in the list's order.

    The stage's report lists rejected lines with their numbers. InputError if no line holds a name; FetchError
    if the list cannot be fetched.
    """
    settings = run.settings
    with run.stage("targets") as report:
        folder = run.layout.stage("targets")
        found = read(settings.targets, settings.network, settings.campaign.contact, folder)
        report.rows_in = found.lines
        report.rejected = [Rejected(line=line, reason=reason) for line, reason in found.rejected]
        report.counts = {"duplicates": found.duplicates, "rejected": len(found.rejected)}
        for line, reason in found.rejected:
            print_line(f"targets: line {line} rejected: {reason}")
        if not found.targets:
            raise InputError(_empty_list(found))
        _write(run, found)
        report.rows_out = len(found.targets)
        run.add_output(report, run.layout.targets)


def read(targets: Targets, network: Network, contact: str, folder: Path) -> TargetList:
    """Read the list that the settings name; `contact` is sent with requests to its host.

    `folder`: gets the progress of what is fetched, and temporary files.
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


def _write(run: Run, found: TargetList) -> None:
    schema = records.load("target").arrow_schema()
    with (
        files.replacing(run.layout.targets) as part,
        pq.ParquetWriter(part, schema, compression="zstd") as writer,
        Progress(run.layout.stage("targets"), "targets", len(found.targets), Busy("writing")) as progress,
    ):
        written = 0
        for table in _row_groups(found):
            writer.write_table(table.select(schema.names).cast(schema))
            written += table.num_rows
            progress.update(written)
            pa.default_memory_pool().release_unused()


def _row_groups(found: TargetList) -> Iterator[pa.Table]:
    """Yield the targets and the list's id in tables of about ROW_GROUP rows."""
    waiting: list[pa.Table] = []
    for table in found.targets.tables():
        waiting.append(table.append_column("list_id", pa.repeat(found.list_id, table.num_rows)))
        if sum(part.num_rows for part in waiting) >= ROW_GROUP:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _empty_list(found: TargetList) -> str:
    if not found.rejected:
        return f"the target list {found.list_id} holds no name"
    line, reason = found.rejected[0]
    return (
        f"the target list {found.list_id} holds no name: {len(found.rejected)} lines were rejected, "
        f"line {line}: {reason}"
    )
