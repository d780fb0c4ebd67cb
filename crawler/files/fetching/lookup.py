"""Resolves names with one resolver at the time of the crawl."""

from __future__ import annotations

import asyncio
import ipaddress
import math
from collections.abc import Callable
from pathlib import Path

import dns.asyncresolver
import dns.exception
import dns.name
import dns.rdatatype
import dns.resolver

from crawler.files.fetching.fetch import Blocked
from crawler.files.fetching.pace import Pace
from crawler.files.fetching.policy import Policy
from firstflight.egress import lab
from firstflight.errors import InputError, UsageError
from firstflight.settings.types import RESOLVER_RATE, is_ours

RESOLV_CONF = Path("/etc/resolv.conf")
CHECKS = 3
"""Number of failed checks in a row after which the resolver counts as down.

A check follows a query without an answer, unless another query was answered meanwhile. It queries the name
servers of the root, because a name's own servers may be silent, and so may the servers of the next names in a
list.
"""
_AT_ONCE = 64
# The library's exceptions for a missing or unreadable answer.
_SILENT = (dns.exception.DNSException, OSError, EOFError)


class ResolverDown(InputError):
    """The resolver does not answer (exit 3). Earlier results are kept."""


class Lookup:
    """Queries `resolver` (IP or IP:PORT, [IPv6]:PORT; empty: the first resolver in /etc/resolv.conf).

    Raise UsageError if `resolver` is not an address, or if a list forbids it. Queries use UDP, and TCP for
    long answers. Sends no query while requests are not permitted, or after `is_ending` returns true.

    `rate`: the maximum number of queries per second; 0: no limit. `None`: no limit if `resolver` is in
    LAB_NETWORKS, else RESOLVER_RATE. A query without an answer is repeated after `timeout_s`. The repetition
    does not count towards the rate, and does not check again whether requests are permitted.
    """

    def __init__(
        self,
        resolver: str,
        policy: Policy,
        is_ending: Callable[[], bool] = lambda: False,
        rate: float | None = None,
        timeout_s: float = 3.0,
        attempts: int = 2,
    ) -> None:
        self.address, self.port = endpoint(resolver or _system())
        policy.check_resolver(self.address)
        lab.check(self.address)
        self._resolver = dns.asyncresolver.Resolver(configure=False)
        self._resolver.nameservers = [self.address]
        self._resolver.port = self.port
        self._resolver.timeout = timeout_s
        self._resolver.lifetime = timeout_s * attempts
        self._resolver.retry_servfail = False
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        if rate is None:
            # A local resolver from /etc/resolv.conf may only forward queries.
            rate = 0 if resolver and is_ours(self.address) else RESOLVER_RATE
        self._pace = Pace(rate or math.inf, 0)
        self._pace.is_free, self._pace.is_ending = policy.is_confirmed, is_ending
        self._down_message = (
            f"the resolver {self.address} does not answer; earlier results are kept, try again later"
        )
        self._answers = 0
        self._failed_checks = 0
        self._policy = policy
        self._checking = asyncio.Lock()

    async def addresses(self, name: str) -> list[str]:
        """Return a name's IPv4 addresses, or its IPv6 addresses if it has no IPv4 address, in answer order.

        Return an empty list if it has no address. Raise LookupError if the result is unknown, Blocked if the
        name is an alias of a name on a list, ResolverDown if the resolver is down, and Stopped if the crawl
        stops first.
        """
        async with self._at_once:
            for qtype in ("A", "AAAA"):
                addresses = await self._ask(name, qtype)
                if addresses:
                    return addresses
        return []

    async def _ask(self, name: str, qtype: str) -> list[str]:
        while True:
            await self._pace.turn(self.address)
            answers_before = self._answers
            try:
                answer = await self._resolver.resolve(name + ".", qtype)
            except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
                self._answered()
                return []
            except dns.resolver.NoNameservers as error:  # it answered, with an error
                self._answered()
                raise LookupError("the resolver could not find its address") from error
            except _SILENT as error:
                if await self._answers_since(answers_before):
                    raise LookupError("the resolver did not answer") from error
                continue  # the resolver failed, so the result for the name is unknown
            self._answered()
            addresses = [str(ipaddress.ip_address(record.address)) for record in answer]
            self._check_aliases(answer, addresses[0])
            return addresses

    async def _answers_since(self, answers_before: int) -> bool:
        """Return whether the answer count exceeds `answers_before`. Raise ResolverDown if it is down."""
        async with self._checking:
            if self._answers != answers_before:
                return True
            await self._pace.turn(self.address)
            try:
                await self._resolver.resolve(dns.name.root, dns.rdatatype.NS, raise_on_no_answer=False)
            except (dns.resolver.NXDOMAIN, dns.resolver.NoNameservers):
                pass
            except _SILENT as error:
                self._failed_checks += 1
                if self._failed_checks >= CHECKS:
                    raise ResolverDown(self._down_message) from error
                return False
            self._answered()
            return True

    def _answered(self) -> None:
        self._answers += 1
        self._failed_checks = 0

    def _check_aliases(self, answer: dns.resolver.Answer, address: str) -> None:
        """Raise Blocked if the queried name is an alias of a name on a list."""
        for alias in answer.chaining_result.cnames:
            target = alias[0].target.to_text(omit_final_dot=True)
            why = self._policy.why_not(address, target)
            # A refusal of the address itself has nothing to do with the alias.
            if why is not None and self._policy.why_not(address) is None:
                raise Blocked(f"it is an alias of {target[:100]}: {why}", address)


def endpoint(text: str) -> tuple[str, int]:
    """Return address and port of `IP`, `IP:PORT`, `[IPv6]:PORT` or `IP#PORT`; otherwise raise UsageError.

    Ignores a comma and the text after it (a weight, as in lists of resolvers).
    """
    host, mark, port = text.partition(",")[0].partition("#")
    if host.startswith("["):
        host, _, port = host[1:].partition("]")
        port = port.removeprefix(":")
    elif not mark and host.count(":") == 1:
        host, _, port = host.partition(":")
    try:
        number = int(port or 53)
        if not 1 <= number <= 65535:
            raise ValueError(port)
        return str(ipaddress.ip_address(host)), number
    except ValueError as error:
        raise UsageError(f"--resolver {text}: write IP or IP:PORT; nothing was sent") from error


def _system() -> str:
    try:
        lines = RESOLV_CONF.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise UsageError(f"cannot read {RESOLV_CONF}: name a resolver by --resolver") from error
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            return words[1]
    raise UsageError(f"{RESOLV_CONF} names no name server: name one by --resolver")
