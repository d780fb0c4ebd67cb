"""Runs many DNS queries concurrently, with a rate limit and a check that the resolver still answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from firstflight.errors import InputError
from scanner.resolver.answer import QTYPES, UNANSWERED, Outcome
from scanner.resolver.query import BACKOFF_S, Asker, Resolver

# Health check of a resolver before the first query.
CHECK_ATTEMPTS = 3
CHECK_TIMEOUT_S = 2.0
# After this many consecutive queries without an answer, the resolver is checked again.
SILENCE = 50


class Name(NamedTuple):
    """One name to resolve."""

    rank: int | None
    domain: str
    list_id: str


# Called with a name and its outcome per query type.
Done = Callable[[Name, dict[str, Outcome]], None]


class ResolverDown(InputError):
    """The resolver does not answer (exit 3); earlier answers are kept."""


class Pace:
    """Rate limiter: at most `rate` turns per second; unused turns do not accumulate."""

    def __init__(self, rate: float) -> None:
        self._interval = 1 / rate
        self._next = 0.0

    async def turn(self) -> None:
        """Wait for this caller's turn."""
        now = asyncio.get_running_loop().time()
        at = max(now, self._next)
        self._next = at + self._interval
        if at > now:
            await asyncio.sleep(at - now)


async def check(resolver: Resolver) -> None:
    """Return if the resolver answers at all, with any status; else raise ResolverDown."""
    # One attempt at a time: SERVFAIL or REFUSED proves that it is up, only silence is retried.
    asker = Asker(Resolver(resolver.address, resolver.port, CHECK_TIMEOUT_S, attempts=1), Pace(1000).turn)
    try:
        for attempt in range(CHECK_ATTEMPTS):
            outcome = await asker.ask(".", "A")
            if outcome.status not in UNANSWERED:
                return
            await asyncio.sleep(BACKOFF_S * 2**attempt)
    finally:
        await asker.close()
    reason = outcome.detail or f"no answer within {CHECK_TIMEOUT_S:g} s"
    raise ResolverDown(
        f"the resolver {resolver.address}, port {resolver.port}, does not answer ({reason}, "
        f"{CHECK_ATTEMPTS} tries); is it up, and is [resolve] resolver right?"
    )


async def resolve_all(
    names: Iterable[Name],
    resolver: Resolver,
    *,
    concurrency: int,
    rate: float,
    done: Done,
) -> None:
    """Query A, AAAA and HTTPS of every name; call `done` with each name and its outcome per query type.

    At most `concurrency` queries are open and `rate` are sent per second. Raises ResolverDown before the
    first query, or when the resolver stops answering. On cancellation, incomplete names are not reported.
    """
    await check(resolver)
    work = iter(names)
    pace = Pace(rate)
    silence = _Silence(resolver)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(_worker(work, Asker(resolver, pace.turn), silence, done))
    except ExceptionGroup as failed:
        # The first failure cancelled all workers; the others are its consequence.
        raise failed.exceptions[0] from None


async def _worker(work: Iterator[Name], asker: Asker, silence: _Silence, done: Done) -> None:
    try:
        for name in work:
            outcomes: dict[str, Outcome] = {}
            for qtype in QTYPES:
                outcomes[qtype] = await asker.ask(name.domain, qtype)
                await silence.record(outcomes[qtype])
            done(name, outcomes)
    finally:
        await asker.close()


class _Silence:
    """Counts consecutive unanswered queries, and checks the resolver when there are SILENCE of them."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self._count = 0
        self._checking = asyncio.Lock()

    async def record(self, outcome: Outcome) -> None:
        if outcome.status not in UNANSWERED:
            self._count = 0
            return
        self._count += 1
        async with self._checking:
            if self._count >= SILENCE:
                await check(self._resolver)
                self._count = 0
