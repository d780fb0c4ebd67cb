"""The resolvers in the settings, or this machine's resolver."""

from __future__ import annotations

from dataclasses import dataclass

from firstflight.egress.permitted import Permitted
from firstflight.errors import UsageError
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


def configured_resolvers(settings: Resolve) -> tuple[str, ...]:
    """Return the resolvers in the settings, as `ADDRESS#PORT`, optionally with `,weight=N`.

    By default, return the first resolver in this machine's /etc/resolv.conf; UsageError if it has no
    resolver.
    """
    if settings.resolvers:
        return settings.resolvers
    address = settings.resolver
    if address is None:
        # Imported here, because it imports aioquic and trio, which takes longer than many stages.
        import dns.exception
        import dns.resolver

        try:
            address = str(dns.resolver.Resolver().nameservers[0])
        except (dns.exception.DNSException, OSError, IndexError) as error:
            raise UsageError(
                "/etc/resolv.conf names no resolver here: name one as [resolve] resolver"
            ) from error
    return (f"{address}#{settings.port}",)
