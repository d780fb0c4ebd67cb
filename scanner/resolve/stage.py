"""The `resolve` stage: resolves the run's names to addresses and HTTPS records from one vantage point.

Only the resolver is contacted, so names on an opt-out list are resolved too; they are not probed.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

from firstflight.errors import FirstflightError, Interrupted
from firstflight.layout import StageKey
from firstflight.run.provenance import tool_version
from firstflight.run.run import Run
from firstflight.settings import Resolve
from firstflight.system.progress import Progress
from scanner.driver import rules
from scanner.resolver.answer import QTYPES, Outcome
from scanner.resolver.engine import Done, Name, ResolverDown, resolve_all
from scanner.resolver.names import configured_resolver, read_targets
from scanner.resolver.query import Resolver
from scanner.resolver.segments import Segments, rows

# How often the stop file is checked.
POLL_EVERY_S = 0.2


def stage(run: Run, key: StageKey) -> None:
    """Write dns_answer.parquet (record kind `dns_answer`) of `key`.

    ResolverDown (exit 3) if the resolver does not answer at the start or stops answering; Interrupted after
    SIGINT or SIGTERM. Both keep the answers so far, and the next call continues from there.
    """
    settings = run.settings.resolve
    with run.stage("resolve", key) as report:
        path = run.layout.dns_answer(key)
        rules.check_lists(run)  # before the first query: with a bad list nothing could be probed
        names = read_targets(run)
        resolver = configured_resolver(settings)
        common = {
            **key.columns(),
            "resolver": resolver.label,
            "tool_version": tool_version(),
        }
        segments = Segments(path.parent / "segments")
        known = segments.resume(resolver.label)
        report.rows_in = len(names)
        finished = len(known)

        def done(name: Name, outcomes: dict[str, Outcome]) -> None:
            nonlocal finished
            segments.add(rows(name, outcomes, common))
            finished += 1
            progress.update(finished)

        todo = [name for name in names if name.domain not in known]
        try:
            with Progress(path.parent, f"{key.vantage} resolve {key.repetition}", len(names)) as progress:
                if todo:
                    asyncio.run(_until_signal(run, todo, resolver, settings, done))
        except ResolverDown as error:
            kept = f"; {finished} of {len(names)} names are done and kept, run the stage again for the rest"
            raise ResolverDown(f"{error}{kept if finished else ''}") from None
        finally:
            segments.close()
        counts = segments.finish(path)
        _account(counts, len(names))
        report.rows_out = counts.pop("rows")
        report.counts = dict(counts)
        run.add_output(report, path)


def _account(counts: Counter[str], names: int) -> None:
    """Check that every name has exactly one status per query type."""
    for qtype in QTYPES:
        found = sum(n for key, n in counts.items() if key.startswith(f"{qtype}_"))
        if found != names:
            raise FirstflightError(
                f"the answers do not add up: {found} names have a status for {qtype}, of {names}"
            )


async def _until_signal(
    run: Run, names: list[Name], resolver: Resolver, settings: Resolve, done: Done
) -> None:
    """Resolve all names; SIGINT, SIGTERM and the run's stop file cancel it gracefully, with Interrupted."""
    work = asyncio.create_task(
        resolve_all(names, resolver, concurrency=settings.concurrency, rate=settings.rate, done=done)
    )
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, work.cancel)

    async def look_for_stop_file() -> None:
        while not run.layout.stop_file.exists():
            await asyncio.sleep(POLL_EVERY_S)
        work.cancel()

    looking = asyncio.create_task(look_for_stop_file())
    try:
        await work
    except asyncio.CancelledError:
        run.check_not_stopped()
        raise Interrupted(
            "stopped by a signal; what was resolved is kept, and the stage continues there"
        ) from None
    finally:
        looking.cancel()
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)
