"""Questions for addresses: how many a second a resolver gets, by whose it is and by the settings."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from time import monotonic

import dns.message
import dns.rcode
import pytest

from crawler.files import lookup
from crawler.files.lookup import Lookup
from crawler.files.policy import Policy

NAMES = 20
RATE = 40.0


@pytest.fixture
def resolver() -> Iterator[str]:
    """Return IP:PORT of a resolver that knows no name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                question, client = server.recvfrom(4096)
                if not question:
                    return
                answer = dns.message.make_response(dns.message.from_wire(question))
                answer.set_rcode(dns.rcode.NXDOMAIN)
                server.sendto(answer.to_wire(), client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", server.getsockname())
        thread.join()


@pytest.mark.parametrize(
    ("is_ours", "rate", "is_limited"),
    [(False, None, True), (False, 0.0, False), (True, None, False), (True, RATE, True)],
)
def test_questions_to_others_have_a_rate(
    resolver: str, monkeypatch: pytest.MonkeyPatch, is_ours: bool, rate: float | None, is_limited: bool
) -> None:
    """A name without any address takes two questions; what waits for a rate has a place of its own in it."""
    monkeypatch.setattr(lookup, "is_ours", lambda _: is_ours)
    monkeypatch.setattr(lookup, "RESOLVER_RATE", RATE)
    asked = Lookup(resolver, Policy((), (), ["127.0.0.0/8"], ""), rate=rate)

    async def all_names() -> None:
        found = await asyncio.gather(*(asked.addresses(f"n{number}.test") for number in range(NAMES)))
        assert found == [[]] * NAMES

    begin = monotonic()
    asyncio.run(all_names())
    if is_limited:
        assert monotonic() - begin >= (2 * NAMES - 1) / RATE
    else:
        assert asked._pace.reserve("") == 0
