"""The `resolve` stage: resolves the run's names to addresses and HTTPS records at one vantage point.

It only contacts the resolver. So it also resolves names on an opt-out list; they are not probed.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from firstflight.errors import FirstflightError
from firstflight.layout import StageKey
from firstflight.run.provenance import tool_version
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.reporting.progress import Progress
from scanner.driver import leftovers, process, rules
from scanner.records import finished as finished_stage
from scanner.resolve import answers, native
from scanner.resolver.answer import QTYPES
from scanner.resolver.names import domains, read_list


def stage(run: Run, key: StageKey) -> None:
    """Write dns_answer.parquet (record kind `dns_answer`) of `key`.

    Raise ResolverDown (exit 3) if no resolver answers at the start or if all stop answering. Raise
    Interrupted on SIGINT or SIGTERM. Both keep the existing answers, and the next call continues from there.
    """
    with run.stage("resolve", key) as report:
        path = run.layout.dns_answer(key)
        rules.check_lists(run)  # before the first query, because probing would reject a bad list
        folder = path.parent
        segments = folder / "segments"
        report.warnings += leftovers.settle(folder, run.check_not_stopped)
        _prepare(segments)
        names = read_list(run, key.shard)
        count = report.rows_in = names.num_rows
        native.write_names(domains(run, key.shard), folder)
        finished = answers.FinishedNames(segments)
        try:
            limit = partial(process.limit_of, folder)
            title = f"{key.vantage} resolve {key.repetition}" + key.of_shard(" shard ")
            with Progress(folder, title, count, limit) as progress:
                if count:
                    native.run(run, key.shard, folder, lambda: progress.update(min(finished.count(), count)))
                    progress.update(count)
        except native.ResolverDown as error:
            done = min(finished.count(), count)
            hint = f"; {done} of {count} names are done and kept, run the stage again for the rest"
            raise native.ResolverDown(f"{error}{hint if done else ''}") from None
        common = {**key.columns(), "tool_version": tool_version()}
        counts = answers.join(segments, names, common, path)
        _account(counts, count)
        report.rows_out = counts.pop("rows")
        report.counts = dict(counts)
        run.add_output(report, path)
    # Only after the report marks the stage as done. Without segments, the stage would query every name again.
    finished_stage.remove_segments(path, report.rows_out, segments)
    (folder / "names.txt").unlink(missing_ok=True)


def _prepare(segments: Path) -> None:
    """Create the folder. Remove segments of earlier versions (Parquet); their names are queried again."""
    with files.explain_os_errors(segments):
        segments.mkdir(parents=True, exist_ok=True)
        for old_segment in segments.glob("seg-*.parquet"):
            old_segment.unlink()


def _account(counts: Counter[str], names: int) -> None:
    """Check that each name has exactly one status per query type."""
    for qtype in QTYPES:
        answered = sum(n for key, n in counts.items() if key.startswith(f"{qtype}_"))
        if answered != names:
            raise FirstflightError(
                f"the totals do not match: {answered} of {names} names have a status for {qtype}"
            )
