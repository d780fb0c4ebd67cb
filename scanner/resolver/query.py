"""One DNS query to one resolver: UDP with EDNS, TCP when the answer is truncated, retries."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import dns.asyncbackend
import dns.asyncquery
import dns.exception
import dns.inet
import dns.message
import dns.name
import dns.rdatatype
from dns._asyncbackend import DatagramSocket

from firstflight.egress.current import LOOK_S, Trust
from firstflight.egress.permitted import Permitted
from scanner.resolver import answer
from scanner.resolver.answer import Message, QueryOutcome
from scanner.resolver.configured import Resolver

# The payload size that all paths carry without fragmentation (DNS flag day 2020).
EDNS_PAYLOAD = 1232
# After this number of queries, a socket is replaced by one with another port. This is cheaper than one socket
# per query, and port and id stay hard to guess.
QUESTIONS_PER_SOCKET = 100
BACKOFF_S = 0.5


class Failed(Exception):
    """An attempt without an answer. `status` is TIMEOUT, NETWORK or MALFORMED."""

    def __init__(self, status: str, detail: str | None) -> None:
        super().__init__(detail or status)
        self.status = status
        self.detail = detail


class QueryClient:
    """Sends one query after the other. Any number of askers can work concurrently.

    `turn` is awaited before every query, and enforces the rate. (After a truncated answer, the query over TCP
    is sent immediately.) `lists`: the lists in force; the machine's list may need confirmation.
    """

    def __init__(self, resolver: Resolver, turn: Callable[[], Awaitable[None]], lists: Permitted) -> None:
        self.resolver = resolver
        self._pace = turn
        self._lists = lists
        self._backend = dns.asyncbackend.get_default_backend()
        self._family = dns.inet.af_for_address(resolver.address)
        self._socket: DatagramSocket | None = None
        self._questions_left = 0
        # For the current attempt: transport of the last answer, and time spent waiting for turns.
        self._transport: str | None = None
        self._waited_ns = 0

    async def _turn(self) -> None:
        """Wait until the rate limit permits a query, and until the machine's opt-out list is confirmed."""
        await self._pace()
        while self._lists.look() < Trust.ALL:
            await asyncio.sleep(LOOK_S)

    async def ask(self, domain: str, qtype: str) -> QueryOutcome:
        """Resolve one name and type. Retry failures after a random, growing delay.

        Every behaviour of the resolver or the network results in an Outcome, never in an exception.
        """
        name, rdtype = dns.name.from_text(domain), dns.rdatatype.from_text(qtype)
        edns = True
        attempt = 1
        while True:
            await self._turn()
            asked_at_ns, start = time.time_ns(), time.perf_counter_ns()
            self._transport, self._waited_ns = None, 0
            try:
                message = await self._follow_aliases(name, rdtype, edns)
                rcode: int | None = message.rcode
            except Failed as failure:
                message, rcode = Message(failure.status, 0, detail=failure.detail), None
            duration_us = (time.perf_counter_ns() - start - self._waited_ns) // 1000
            if message.status not in answer.FAILURES or attempt == self.resolver.attempts:
                return QueryOutcome(
                    status=message.status,
                    asked_at_ns=asked_at_ns,
                    duration_us=duration_us,
                    attempts=attempt,
                    rcode=rcode,
                    aliases=message.aliases,
                    records=message.records,
                    ttl=message.ttl,
                    transport=None if rcode is None else self._transport,
                    detail=message.detail,
                    left_out=message.left_out,
                )
            if message.status in ("FORMERR", "NOTIMP"):
                edns = False  # servers without EDNS answer so (RFC 6891 7)
            await asyncio.sleep(BACKOFF_S * 2 ** (attempt - 1) * random.uniform(0.5, 1.5))
            attempt += 1

    async def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            await self._socket.close()  # type: ignore[no-untyped-call]
            self._socket = None

    async def _follow_aliases(
        self, name: dns.name.Name, rdtype: dns.rdatatype.RdataType, edns: bool
    ) -> Message:
        """Send a query. Follow a CNAME that the resolver left unresolved."""
        aliases: tuple[answer.Alias, ...] = ()
        while True:
            message = answer.read(await self._exchange(name, rdtype, edns))
            aliases += message.aliases
            targets = [alias.target for alias in aliases]
            if len(aliases) > answer.MAX_CHAIN or len(set(targets)) < len(targets):
                return Message("CHAIN", message.rcode, aliases, detail=message.detail)
            if message.unfinished is None:
                return replace(message, aliases=aliases)
            name = dns.name.from_text(message.unfinished)
            waiting_since = time.perf_counter_ns()
            await self._turn()
            self._waited_ns += time.perf_counter_ns() - waiting_since

    async def _exchange(
        self, name: dns.name.Name, rdtype: dns.rdatatype.RdataType, edns: bool
    ) -> dns.message.Message:
        query = dns.message.make_query(name, rdtype, use_edns=0 if edns else False, payload=EDNS_PAYLOAD)
        try:
            try:
                response = await self._over_udp(query)
                self._transport = "udp"
            except dns.message.Truncated:
                self._transport = "tcp"
                destination = (self.resolver.address, self.resolver.timeout_s, self.resolver.port)
                response = await dns.asyncquery.tcp(query, *destination, ignore_trailing=True)
            return response
        except (dns.exception.DNSException, ValueError, OSError, EOFError) as error:
            # A late answer to this query must not be mistaken for an answer to the next one.
            await self.close()
            raise _failed(error) from error

    async def _over_udp(self, query: dns.message.QueryMessage) -> dns.message.Message:
        """Return the answer to `query`. Ignore messages with another id or question."""
        if self._questions_left == 0:
            await self.close()
        if self._socket is None:
            # Connected, so that the kernel drops datagrams from other senders and reports ICMP errors.
            destination = (self.resolver.address, self.resolver.port)
            self._socket = await self._backend.make_socket(  # type: ignore[no-untyped-call]
                self._family, socket.SOCK_DGRAM, 0, None, destination
            )
            self._questions_left = QUESTIONS_PER_SOCKET
        self._questions_left -= 1
        expires = time.monotonic() + self.resolver.timeout_s
        question = query.to_wire()
        await self._socket.sendto(question, None, self.resolver.timeout_s)
        while True:
            remaining_s = max(0.0, expires - time.monotonic())
            wire, _ = await self._socket.recvfrom(65535, remaining_s)
            if wire[:2] != question[:2]:
                continue
            # Bytes after a message belong to no message.
            response = dns.message.from_wire(wire, raise_on_truncation=True, ignore_trailing=True)
            if len(response.question) > 1:
                raise ValueError("the answer has more than one question")
            if query.is_response(response):
                return response


def _failed(error: Exception) -> Failed:
    if isinstance(error, dns.exception.Timeout):
        return Failed("TIMEOUT", None)
    if isinstance(error, dns.exception.DNSException | ValueError):
        return Failed("MALFORMED", f"{type(error).__name__}: {error}")
    reason = error.strerror if isinstance(error, OSError) else "the connection was closed"
    return Failed("NETWORK", reason or str(error) or type(error).__name__)
