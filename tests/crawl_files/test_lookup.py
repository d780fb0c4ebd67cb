"""Questions for addresses: their rate, resolvers that are gone, names that are silent or on a list."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import dns.message
import dns.rcode
import dns.rrset
import pytest

from crawler.files.fetching import lookup
from crawler.files.fetching.fetch import Blocked
from crawler.files.fetching.lookup import Lookup, ResolverDown
from crawler.files.fetching.policy import Policy

NAMES = 20
RATE = 40.0
Message = dns.message.Message
LOOPBACK = ["127.0.0.0/8"]


@contextmanager
def serving(answer: Callable[[Message], Message | None]) -> Iterator[str]:
    """Run a resolver that answers a question by `answer`, or not at all; IP:PORT."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                question, client = server.recvfrom(4096)
                if not question:
                    return
                message = answer(dns.message.from_wire(question))
                if message is not None:
                    server.sendto(message.to_wire(), client)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
                end.sendto(b"", server.getsockname())
            thread.join()


def without_answer(question: Message, code: dns.rcode.Rcode = dns.rcode.NXDOMAIN) -> Message:
    """Return an answer with only a response code."""
    message = dns.message.make_response(question)
    message.set_rcode(code)
    return message


def with_records(question: Message, *records: str) -> Message:
    """Return an answer with records: `NAME TYPE DATA`."""
    message = dns.message.make_response(question)
    for record in records:
        name, kind, data = record.split()
        message.answer.append(dns.rrset.from_text(name, 60, "IN", kind, data))
    return message


@pytest.fixture
def resolver() -> Iterator[str]:
    """Return IP:PORT for a resolver that knows no name."""
    with serving(without_answer) as address:
        yield address


@pytest.mark.parametrize(
    ("is_ours", "rate", "is_limited"),
    [(False, None, True), (False, 0.0, False), (True, None, False), (True, RATE, True)],
)
def test_questions_to_others_have_a_rate(
    resolver: str, monkeypatch: pytest.MonkeyPatch, is_ours: bool, rate: float | None, is_limited: bool
) -> None:
    """A name without any address needs two questions. Each waiting question reserves its time in the rate."""
    monkeypatch.setattr(lookup, "is_ours", lambda _: is_ours)
    monkeypatch.setattr(lookup, "RESOLVER_RATE", RATE)
    lookups = Lookup(resolver, Policy((), (), LOOPBACK, ""), rate=rate)

    async def all_names() -> None:
        found = await asyncio.gather(*(lookups.addresses(f"n{number}.test") for number in range(NAMES)))
        assert found == [[]] * NAMES

    begin = monotonic()
    asyncio.run(all_names())
    if is_limited:
        assert monotonic() - begin >= (2 * NAMES - 1) / RATE
    else:
        assert lookups._pace.reserve("") == 0


@pytest.mark.parametrize("code", [dns.rcode.NOERROR, dns.rcode.REFUSED])
def test_many_names_may_be_silent(code: dns.rcode.Rcode) -> None:
    """The names' servers do not answer, but the resolver answers a question for the root."""

    def answer(question: Message) -> Message | None:
        name = question.question[0].name.to_text()
        if name == ".":
            return without_answer(question, code)
        return None if name.startswith("silent") else with_records(question, f"{name} A 127.1.0.1")

    async def ask(lookup: Lookup) -> list[str]:
        names = (f"silent{number}.test" for number in range(25))
        for error in await asyncio.gather(*map(lookup.addresses, names), return_exceptions=True):
            assert isinstance(error, LookupError) and str(error) == "the resolver did not answer"
        return await lookup.addresses("good.test")

    with serving(answer) as address:
        lookup = Lookup(address, Policy((), (), LOOPBACK, ""), rate=0, timeout_s=0.5, attempts=1)
        assert asyncio.run(ask(lookup)) == ["127.1.0.1"]


@pytest.mark.parametrize(
    ("silent", "found"),
    [
        (0, ["127.1.0.1"]),
        # Two questions for the name and two checks: then it is there again, and the name has its address.
        (4, ["127.1.0.1"]),
        (1000, None),
    ],
)
def test_a_resolver_that_is_gone_makes_no_name_fail(silent: int, found: list[str] | None) -> None:
    left = silent

    def answer(question: Message) -> Message | None:
        nonlocal left
        left -= 1
        return None if left >= 0 else with_records(question, "good.test. A 127.1.0.1")

    with serving(answer) as address:
        lookup = Lookup(address, Policy((), (), LOOPBACK, ""), rate=0, timeout_s=0.1, attempts=1)
        if found is None:
            with pytest.raises(ResolverDown, match="does not answer"):
                asyncio.run(lookup.addresses("good.test"))
        else:
            assert asyncio.run(lookup.addresses("good.test")) == found


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ("other.test", None),
        ("cdn.test", "it is an alias of edge.cdn.test: its name is on a list"),
        ("last.test", "it is an alias of last.test: its name is on a list"),
    ],
)
def test_an_alias_of_a_name_on_a_list_is_blocked(listed: str, why: str | None, tmp_path: Path) -> None:
    """A host that has opted out is not contacted by another name, either."""
    optout = tmp_path / "optout.conf"
    optout.write_text(f"{listed}\n")

    def answer(question: Message) -> Message:
        chain = ("a.test. CNAME edge.cdn.test.", "edge.cdn.test. CNAME last.test.", "last.test. A 127.1.0.1")
        return with_records(question, *chain)

    with serving(answer) as address:
        lookup = Lookup(address, Policy((), [optout], LOOPBACK, ""), rate=0)
        if why is None:
            assert asyncio.run(lookup.addresses("a.test")) == ["127.1.0.1"]
        else:
            with pytest.raises(Blocked) as caught:
                asyncio.run(lookup.addresses("a.test"))
            assert (str(caught.value), caught.value.address) == (why, "127.1.0.1")
