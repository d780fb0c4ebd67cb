"""The `crawl` stage: finds a file to download on each name of the run's list, once per run, at the centre.

All vantage points download the same files (docs/design/0020), so vantage points do not crawl.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crawler.files import rows
from crawler.files.fetching.lookup import Lookup
from crawler.files.fetching.pace import Pace
from crawler.files.fetching.policy import Policy
from crawler.files.journal import Journal
from crawler.files.limits import Limits
from firstflight.errors import FirstflightError, UsageError
from firstflight.run.provenance import ruleset_hash, tool_version
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.reporting.progress import Progress
from schemas import records

_BATCH = 10_000


def stage(run: Run) -> None:
    """Write download_file.parquet and crawl_page.parquet in RUN/crawl, with one row per name in each.

    An interrupted or killed stage keeps finished names in journal.jsonl and continues from there. Raise
    UsageError if the settings do not enable the stage, ResolverDown (exit 3) if the resolver does not answer,
    and Interrupted on a signal or the stop file.
    """
    if not run.settings.crawl.enabled:
        raise UsageError("crawl.enabled is false in the settings of this run: nothing was sent")
    with run.stage("crawl") as report:
        run.check_not_stopped()
        names = _names(run)
        report.rows_in = len(names)
        folder = run.layout.stage("crawl")
        path = folder / "journal.jsonl"
        journal = Journal(path)
        try:
            remaining = [name for name in names if name not in journal.finished]
            if remaining:
                _crawl(run, folder, remaining, journal, len(names))
            counts = _write(run, journal)
        finally:
            journal.close()
        report.rows_out = counts.total()
        if report.rows_out != len(names):
            raise FirstflightError(
                f"{report.rows_out} rows for {len(names)} names; remove {path} and start again"
            )
        report.counts = dict(sorted(counts.items()))
        for kind in (rows.FILE, rows.PAGE):
            run.add_output(report, run.layout.crawl(kind))
        path.unlink()


def _names(run: Run) -> list[str]:
    column = pq.read_table(run.layout.targets, columns=["domain"]).column("domain")
    names = list(dict.fromkeys(str(name) for name in column.to_pylist()))
    return names[: run.settings.crawl.limit]


def _crawl(run: Run, folder: Path, names: list[str], journal: Journal, count: int) -> None:
    # Imported late: a crawl without remaining names does not need Scrapy.
    from crawler.files import crawl
    from crawler.files.spider import CrawlResult, Task

    settings = run.settings
    probe, chosen = settings.probe, settings.crawl
    policy = Policy(probe.blocklist, probe.optout, probe.allow_net, settings.campaign.contact)
    done = count - len(names)
    resolve = settings.resolve
    resolver = "" if resolve.resolver is None else f"{resolve.resolver}#{resolve.port}"
    pace = Pace(chosen.rate, chosen.per_address_rate)
    with Progress(folder, "crawl", count, pace.limit) as progress:
        progress.update(done)

        def sink(result: CrawlResult) -> None:
            nonlocal done
            journal.add(result)
            done += 1
            progress.update(done)

        task = Task(
            names,
            lambda: Lookup(
                resolver or next(iter(resolve.resolvers), ""), policy, task.is_ending, resolve.rate
            ),
            policy.why_not,
            sink,
            Limits(requests=chosen.max_requests),
            chosen.concurrency,
            run.layout.stop_file.exists,
            is_confirmed=policy.is_confirmed,
        )
        crawl.run(task, contact=settings.campaign.contact, pace=pace, roots=chosen.roots)


def _write(run: Run, journal: Journal) -> Counter[str]:
    """Write both record files from the journal. Return the number of names per outcome."""
    counts: Counter[str] = Counter()
    probe = run.settings.probe
    common = {
        "run": run.id,
        "tool_version": tool_version(),
        "host": socket.gethostname(),
        "ruleset": ruleset_hash([*probe.blocklist, *probe.optout]),
    }
    for kind in (rows.FILE, rows.PAGE):
        schema = records.load(kind).arrow_schema()
        lines = (line[kind] for line in journal.lines())
        with (
            files.replacing(run.layout.crawl(kind)) as part,
            pq.ParquetWriter(part, schema, compression="zstd") as writer,
        ):
            for batch in _batches(lines):
                if kind == rows.FILE:
                    counts.update(str(row["outcome"]) for row in batch)
                writer.write_table(pa.Table.from_pylist([row | common for row in batch], schema=schema))
    return counts


def _batches(lines: Iterable[rows.CrawlRow]) -> Iterable[list[rows.CrawlRow]]:
    rest = iter(lines)
    while batch := list(islice(rest, _BATCH)):
        yield batch
