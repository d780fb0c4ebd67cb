"""Queries to a real DNS server: every status, chains over zones, HTTPS records, TCP, retries."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import AbstractContextManager

import dns.flags
import dns.message
import dns.rrset
import pytest

from firstflight.egress.permitted import Permitted
from scanner.resolver.answer import Alias, HttpsRecord, QueryOutcome
from scanner.resolver.configured import Resolver
from scanner.resolver.pace import QueryPace
from scanner.resolver.query import BACKOFF_S, QueryClient
from tests.free_port import free_port
from tests.resolve.named import Named
from tests.resolve.replies import replying

# Of a question that is answered: a timeout that expires would be another status, or a second attempt.
ANSWERED_S = 60.0


def ask(resolver: Resolver, domain: str, qtype: str) -> QueryOutcome:
    async def once() -> QueryOutcome:
        asker = QueryClient(resolver, QueryPace(None).turn, Permitted([], []))
        try:
            return await asker.ask(domain, qtype)
        finally:
            await asker.close()

    return asyncio.run(once())


@pytest.fixture
def resolver(named: Named) -> Resolver:
    return Resolver("127.0.0.1", named.port, timeout_s=ANSWERED_S, attempts=2)


@pytest.mark.parametrize(
    ("domain", "qtype", "status", "records", "ttl"),
    [
        ("www.example.test", "A", "NOERROR", {"198.18.0.1"}, 300),
        ("www.example.test", "AAAA", "NOERROR", {"2001:db8::1"}, 300),
        ("two.example.test", "A", "NOERROR", {"198.18.0.7", "198.18.0.8"}, 60),
        ("v6only.example.test", "A", "NODATA", set(), None),
        ("nodata.example.test", "AAAA", "NODATA", set(), None),
        ("nope.example.test", "A", "NXDOMAIN", set(), None),
        ("x.broken.test", "A", "SERVFAIL", set(), None),
        ("other.invalid", "A", "REFUSED", set(), None),
        ("_under_score.example.test", "A", "NOERROR", {"198.18.0.9"}, 60),
        ("xn--bcher-kva.example.test", "A", "NOERROR", {"198.18.0.10"}, 60),
    ],
)
def test_status_and_records(
    resolver: Resolver, domain: str, qtype: str, status: str, records: set[str], ttl: int | None
) -> None:
    before, began = time.time_ns(), time.monotonic()
    outcome = ask(resolver, domain, qtype)
    took_us = (time.monotonic() - began) * 1e6
    assert (outcome.status, set(outcome.records), outcome.ttl) == (status, records, ttl)
    assert outcome.attempts == (2 if status in ("SERVFAIL", "REFUSED") else 1)
    assert before <= outcome.asked_at_ns <= time.time_ns()
    # A duration in another unit, or from the time of day, is longer than the call that contains it.
    assert 0 < outcome.duration_us <= took_us + 1
    assert outcome.transport == "udp"


def test_chain_over_two_zones_keeps_every_ttl(resolver: Resolver) -> None:
    outcome = ask(resolver, "alias.example.test", "A")
    assert outcome.status == "NOERROR"
    assert outcome.aliases == (Alias("hop.cdn.test", 120), Alias("edge.cdn.test", 30))
    assert outcome.records == ("198.18.1.1",)
    assert outcome.ttl == 20


def test_chain_that_leads_nowhere_is_nxdomain_with_its_chain(resolver: Resolver) -> None:
    outcome = ask(resolver, "dangling.example.test", "A")
    assert (outcome.status, outcome.rcode) == ("NXDOMAIN", 3)
    assert outcome.aliases == (Alias("nowhere.cdn.test", 120),)


def test_loop_of_aliases_ends(resolver: Resolver) -> None:
    assert ask(resolver, "loop1.example.test", "A").status == "CHAIN"


def test_chain_to_a_name_that_the_server_refuses(resolver: Resolver) -> None:
    assert ask(resolver, "outside.example.test", "A").status == "REFUSED"


def test_https_records(resolver: Resolver) -> None:
    (record,) = ask(resolver, "www.example.test", "HTTPS").records
    assert record == HttpsRecord(
        1, ".", 8443, ("h3", "h2"), ("198.18.0.1", "198.18.0.2"), ("2001:db8::1",), ech=True
    )
    (alias,) = ask(resolver, "aliasmode.example.test", "HTTPS").records
    assert alias == HttpsRecord(0, "edge.cdn.test", None, (), (), (), ech=False)


def test_answer_too_long_for_udp_arrives_by_tcp(resolver: Resolver) -> None:
    outcome = ask(resolver, "many.example.test", "A")
    assert (outcome.status, outcome.transport) == ("NOERROR", "tcp")
    assert sorted(outcome.records, key=str) == sorted(f"198.18.2.{i + 1}" for i in range(90))


def test_resolver_over_ipv6(named: Named) -> None:
    assert ask(Resolver("::1", named.port), "www.example.test", "A").records == ("198.18.0.1",)


def test_closed_port_is_network() -> None:
    outcome = ask(Resolver("127.0.0.1", free_port(), ANSWERED_S, 2), "www.example.test", "A")
    assert (outcome.status, outcome.rcode, outcome.transport) == ("NETWORK", None, None)
    assert outcome.detail == "Connection refused"
    assert outcome.attempts == 2


def test_each_wait_between_attempts_is_twice_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert ask(Resolver("127.0.0.1", free_port(), ANSWERED_S, 7), "www.example.test", "A").attempts == 7
    factors = [wait / (BACKOFF_S * 2**number) for number, wait in enumerate(waits)]
    assert len(factors) == 6
    assert all(0.5 <= factor <= 1.5 for factor in factors), factors


def test_bytes_after_an_answer_over_tcp_are_ignored() -> None:
    def truncated(query: bytes) -> list[bytes]:
        answer = dns.message.make_response(dns.message.from_wire(query))
        answer.flags |= dns.flags.TC
        return [answer.to_wire()]

    def serve() -> None:
        client, _ = listener.accept()
        with client, client.makefile("rb") as stream:
            query = dns.message.from_wire(stream.read(int.from_bytes(stream.read(2))))
            answer = dns.message.make_response(query)
            answer.answer.append(dns.rrset.from_text(query.question[0].name, 60, "IN", "A", "198.18.0.1"))
            wire = answer.to_wire() + b"more"
            client.sendall(len(wire).to_bytes(2) + wire)

    with replying(truncated) as port, socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        outcome = ask(Resolver("127.0.0.1", port, ANSWERED_S, 1), "www.example.test", "A")
        thread.join()
    assert (outcome.status, outcome.transport, outcome.records) == ("NOERROR", "tcp", ("198.18.0.1",))


def answering(answer: bytes | None) -> AbstractContextManager[int]:
    """Run a host that answers every datagram with its id and `answer`, or never answers if it is null."""
    return replying(lambda query: [] if answer is None else [query[:2] + answer])


def test_silence_is_timeout_and_takes_its_time() -> None:
    with answering(None) as port:
        began = time.monotonic()
        outcome = ask(Resolver("127.0.0.1", port, 0.3, 3), "www.example.test", "A")
        took_us = (time.monotonic() - began) * 1e6
    assert (outcome.status, outcome.attempts, outcome.rcode) == ("TIMEOUT", 3, None)
    # The duration of the last attempt. All three attempts would exceed the call minus two timeouts.
    assert 300_000 <= outcome.duration_us <= took_us - 2 * 300_000


@pytest.mark.parametrize("answer", [b"", b"\x81\x80" + b"\xff" * 40, bytes(3)])
def test_answer_that_cannot_be_read_is_malformed(answer: bytes) -> None:
    with answering(answer) as port:
        outcome = ask(Resolver("127.0.0.1", port, ANSWERED_S, 1), "www.example.test", "A")
    assert (outcome.status, outcome.rcode) == ("MALFORMED", None)
    assert outcome.detail
