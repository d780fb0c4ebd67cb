"""The resolvers in a run's settings, the options of `firstflight-resolve` for them, and its summary."""

from __future__ import annotations

from pathlib import Path

from firstflight.errors import FirstflightError, UsageError
from firstflight.settings import Resolve, Settings
from firstflight.settings.types import RESOLVER_RATE
from firstflight.system import files


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


def engine_options(settings: Settings) -> list[tuple[str, object]]:
    """Return the engine's options for resolvers, rate, time-outs and lists, with their values.

    Raise UsageError like `configured_resolvers`.
    """
    resolve = settings.resolve
    options: list[tuple[str, object]] = [("--timeout", resolve.timeout_s), ("--attempts", resolve.attempts)]
    if resolve.rate is not None:
        options.append(("--rate", resolve.rate))
    elif not (resolve.resolver or resolve.resolvers):
        # The engine gets the resolver of /etc/resolv.conf by address, and would treat a local stub as our
        # own.
        options.append(("--rate", RESOLVER_RATE))
    options += [("--resolver", resolver) for resolver in configured_resolvers(resolve)]
    options += [("--blocklist", path) for path in settings.probe.blocklist]
    options += [("--optout", path) for path in settings.probe.optout]
    return options


def is_down(summary: Path) -> bool:
    """Return whether the engine's summary says that no resolver answers. False without a summary."""
    try:
        return bool(files.read_json(summary)["resolvers_down"])
    except (FirstflightError, KeyError, TypeError):
        return False
