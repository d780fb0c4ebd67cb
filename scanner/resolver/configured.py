"""The resolver for single queries from Python."""

from __future__ import annotations

from dataclasses import dataclass

from firstflight.egress.permitted import Permitted
from firstflight.run.resolvers import configured_resolvers
from firstflight.settings import Resolve, Settings


@dataclass(frozen=True)
class Resolver:
    """A resolver's address, with time-out and attempts."""

    address: str
    port: int = 53
    timeout_s: float = 3.0
    attempts: int = 3

    @property
    def label(self) -> str:
        """The resolver's name in records."""
        return self.address if self.port == 53 else f"{self.address}#{self.port}"


def configured_resolver(settings: Resolve) -> Resolver:
    """Return the resolver for single queries: the first of `configured_resolvers`."""
    address, _, port = configured_resolvers(settings)[0].partition(",")[0].partition("#")
    return Resolver(address, int(port or 53), settings.timeout_s, settings.attempts)


def lists_for(resolver: Resolver, settings: Settings) -> Permitted:
    """Return the lists in force. Only they may forbid the resolver. InputError for an invalid list."""
    return Permitted(settings.probe.blocklist, settings.probe.optout, servers=[resolver.address])
