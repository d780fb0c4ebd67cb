"""Many DNS questions at a time: bounded concurrency, a rate limit, and a resolver that may go away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from firstflight.errors import InputError
from scanner.resolver.answer import QTYPES, UNANSWERED, Outcome
from scanner.resolver.query import BACKOFF_S, Asker, Resolver

# How a resolver is tried before anything is asked of it.
CHECK_ATTEMPTS = 3
CHECK_TIMEOUT_S = 2.0
# So many questions in a row without an answer, and the resolver is tried again.
SILENCE = 50


class Name(NamedTuple):
    """One name to resolve."""

    rank: int | None
    domain: str
    list_id: str


# Takes a name with its outcome per query type.
Done = Callable[[Name, dict[str, Outcome]], None]


class ResolverDown(InputError):
    """The resolver does not answer (exit 3); what was answered before is kept."""


class Pace:
    """Gives out turns, at most `rate` per second; unused turns are not saved up."""

    def __init__(self, rate: float) -> None:
        self._interval = 1 / rate
        self._next = 0.0

    async def turn(self) -> None:
        """Return when it is this caller's turn."""
        now = asyncio.get_running_loop().time()
        at = max(now, self._next)
        self._next = at + self._interval
        if at > now:
            await asyncio.sleep(at - now)


async def check(resolver: Resolver) -> None:
    """Return if the resolver answers at all, whatever it says; else raise ResolverDown."""
    # One attempt at a time: SERVFAIL or REFUSED is a sign of life, only silence is asked again.
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
    """Ask for A, AAAA and HTTPS of every name; `done` gets each name with its outcome per query type.

    At most `concurrency` questions are open and `rate` go out per second. Raises ResolverDown before the
    first question, or when the resolver stops answering; cancelling it leaves half-asked names out.
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
        # The first failure ended all workers; the others have nothing to add.
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
    """Counts questions in a row that no message of the resolver answered, and tries it when they are many."""

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
