"""The `targets` stage: writes a run's names, from Tranco, CrUX or the user's file, to targets.parquet."""

from __future__ import annotations

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

# Names of a row group of targets.parquet.
BATCH = 65_536


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


def read(targets: Targets, network: Network, contact: str, shown_in: Path | None = None) -> TargetList:
    """Read the list that the settings name; `contact` is sent with requests to its host.

    `shown_in`: a folder that gets the progress of what is fetched.
    """
    if targets.source == "file":
        assert targets.file is not None  # settings check it
        return own_list.read(targets.file, targets.top)
    session = https.Session(network.ca_bundle, contact, shown_in)
    if targets.source == "crux":
        return _crux(targets, session)
    tranco = tranco_list.read(
        date=targets.date,
        list_id=targets.list_id,
        top=targets.top,
        cache_dir=targets.cache_dir,
        session=session,
    )
    return joined(tranco, _crux(targets, session)) if targets.source == "tranco+crux" else tranco


def _crux(targets: Targets, session: https.Session) -> TargetList:
    assert targets.crux_month is not None  # settings check it
    return crux_list.read(targets.crux_month, targets.top, targets.crux_url, targets.crux_cache_dir, session)


def _write(run: Run, found: TargetList) -> None:
    schema = records.load("target").arrow_schema()
    with (
        files.replacing(run.layout.targets) as part,
        pq.ParquetWriter(part, schema, compression="zstd") as writer,
        Progress(run.layout.stage("targets"), "targets", len(found.targets), Busy("writing")) as progress,
    ):
        for begin in range(0, len(found.targets), BATCH):
            targets = found.targets[begin : begin + BATCH]
            rows = {
                "rank": [target.rank for target in targets],
                "domain": [target.domain for target in targets],
                "list_id": [found.list_id] * len(targets),
                "rank_bucket": [target.rank_bucket for target in targets],
            }
            writer.write_table(pa.table(rows, schema=schema))
            progress.update(begin + len(targets))


def _empty_list(found: TargetList) -> str:
    if not found.rejected:
        return f"the target list {found.list_id} holds no name"
    line, reason = found.rejected[0]
    return (
        f"the target list {found.list_id} holds no name: {len(found.rejected)} lines were rejected, "
        f"line {line}: {reason}"
    )
