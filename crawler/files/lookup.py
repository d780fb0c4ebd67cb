"""Addresses of names, asked of one resolver at the time of the crawl."""

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

from crawler.files.fetch import Blocked
from crawler.files.pace import Pace
from crawler.files.policy import Policy
from firstflight.egress import lab
from firstflight.errors import InputError, UsageError
from firstflight.settings.types import RESOLVER_RATE, is_ours

RESOLV_CONF = Path("/etc/resolv.conf")
CHECKS = 3
"""After so many checks in a row without an answer the resolver counts as gone.

A check follows a question without an answer, if no other had one meanwhile. It asks for the name servers of
the root: the name servers of a name may be silent, and those of the next names in a list, too.
"""
_AT_ONCE = 64
# What the library raises if no answer comes, or none that can be read.
_SILENT = (dns.exception.DNSException, OSError, EOFError)


class ResolverDown(InputError):
    """The resolver does not answer (exit 3): what was found before is kept."""


class Lookup:
    """Asks `resolver` (IP or IP:PORT, [IPv6]:PORT; empty: the first of /etc/resolv.conf).

    UsageError if it is no address, or on a list. Questions are plain UDP, and TCP for long answers; none is
    sent while requests may not be, or once `is_ending` says yes. `rate`: questions a second at most, 0 = no
    limit, None = RESOLVER_RATE to a resolver that is not our own, or is that of /etc/resolv.conf. One
    without an answer is sent again after `timeout_s`, which neither counts nor looks again.
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
            # The one of /etc/resolv.conf may only pass questions on.
            rate = 0 if resolver and is_ours(self.address) else RESOLVER_RATE
        self._pace = Pace(rate or math.inf, 0)
        self._pace.is_free, self._pace.is_ending = policy.is_confirmed, is_ending
        self._gone = f"the resolver {self.address} does not answer; what was found is kept, try again later"
        self._answers = 0
        self._failed_checks = 0
        self._policy = policy
        self._checking = asyncio.Lock()

    async def addresses(self, name: str) -> list[str]:
        """Return the IPv4 addresses of a name, or the IPv6 ones if it has none, in the answer's order.

        Empty if there are none. LookupError if that is unknown; Blocked if the name is an alias of one that
        is on a list; ResolverDown if the resolver is gone; Stopped if the crawl ends first.
        """
        async with self._at_once:
            for qtype in ("A", "AAAA"):
                found = await self._ask(name, qtype)
                if found:
                    return found
        return []

    async def _ask(self, name: str, qtype: str) -> list[str]:
        while True:
            await self._pace.turn(self.address)
            before = self._answers
            try:
                answer = await self._resolver.resolve(name + ".", qtype)
            except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
                self._answered()
                return []
            except dns.resolver.NoNameservers as error:  # it answered, with an error
                self._answered()
                raise LookupError("the resolver could not find its address") from error
            except _SILENT as error:
                if await self._answers_since(before):
                    raise LookupError("the resolver did not answer") from error
                continue  # that says nothing of the name
            self._answered()
            found = [str(ipaddress.ip_address(record.address)) for record in answer]
            self._check_aliases(answer, found[0])
            return found

    async def _answers_since(self, before: int) -> bool:
        """Return whether it has answered since it had done so `before` times; ResolverDown if it is gone."""
        async with self._checking:
            if self._answers != before:
                return True
            await self._pace.turn(self.address)
            try:
                await self._resolver.resolve(dns.name.root, dns.rdatatype.NS, raise_on_no_answer=False)
            except (dns.resolver.NXDOMAIN, dns.resolver.NoNameservers):
                pass
            except _SILENT as error:
                self._failed_checks += 1
                if self._failed_checks >= CHECKS:
                    raise ResolverDown(self._gone) from error
                return False
            self._answered()
            return True

    def _answered(self) -> None:
        self._answers += 1
        self._failed_checks = 0

    def _check_aliases(self, answer: dns.resolver.Answer, address: str) -> None:
        """Blocked if a name that the asked one is an alias of is on a list."""
        for alias in answer.chaining_result.cnames:
            target = alias[0].target.to_text(omit_final_dot=True)
            why = self._policy.why_not(address, target)
            # What is wrong with the address is wrong without an alias.
            if why is not None and self._policy.why_not(address) is None:
                raise Blocked(f"it is an alias of {target[:100]}: {why}", address)


def endpoint(text: str) -> tuple[str, int]:
    """Return address and port of `IP`, `IP:PORT`, `[IPv6]:PORT` or `IP#PORT`; UsageError for anything else.

    What follows a comma (a weight, as in lists of resolvers) has no meaning here.
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
