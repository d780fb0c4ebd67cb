"""Checks of the clock and the resolver. Packets leave only where the settings and lists permit it."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from firstflight.egress import lab
from firstflight.egress.current import Trust
from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError, InputError
from firstflight.run import clock
from firstflight.settings import Settings
from orchestration.checks import ntp
from orchestration.checks.finding import Finding, failed, not_checked, ok, warning
from scanner.resolver.configured import Resolver, configured_resolver, lists_for

if TYPE_CHECKING:
    import dns.message

SENDS_NOTHING = "a dry run sends nothing"
_ATTEMPTS = 2
_MOST_S = 5.0


def ntp_state(settings: Settings) -> Finding:
    """Return whether an NTP daemon synchronises the clock, according to the kernel."""
    name = "clock"
    try:
        discipline = ntp.discipline()
    except OSError as error:
        return not_checked(name, f"the kernel does not say whether NTP sets it ({error.strerror})")
    if not discipline.is_synchronised:
        return warning(
            name,
            "no NTP daemon has synchronised it, so times of vantage points may not be comparable",
            "install and start chrony (`chronyc tracking` shows its state)",
        )
    error_s = discipline.error_us / 1e6
    text = f"synchronised by NTP, off by at most {error_s:.3f} s"
    if error_s > settings.clock.warn_s:
        return warning(name, text, "look for a reachable server with `chronyc sources`")
    return ok(name, text)


def reference(settings: Settings, *, may_send: bool) -> Finding | None:
    """Compare the clock with `clock.reference`; `None` if no reference is set."""
    name, url = "clock reference", settings.clock.reference
    if url is None:
        return None
    if not may_send:
        return not_checked(name, SENDS_NOTHING)
    probe, bundle = settings.probe, settings.network.ca_bundle
    try:
        lists = clock.of_lists(probe.blocklist, probe.optout)
        offset = clock.against_http(url, str(bundle) if bundle else None, lists)
    except FirstflightError as error:
        return warning(name, str(error), "correct clock.reference")
    wrong = clock.warning(offset, settings.clock.warn_s)
    return ok(name, f"this clock is {offset}") if wrong is None else warning(name, wrong, "start chrony")


def resolver(settings: Settings, *, may_send: bool) -> Finding:
    """Query the resolver for the name servers of the root, if it may be contacted.

    The rules for all packets apply: an address on a list or outside of the lab is not contacted, and
    `campaign.contact` is required, except for networks in `probe.allow_net`. Loopback is no exception,
    because a stub resolver there queries another resolver.
    """
    name = "resolver"
    try:
        resolver_ = configured_resolver(settings.resolve)
        why = SENDS_NOTHING if not may_send else _why_not(resolver_, settings)
    except FirstflightError as error:
        return failed(name, str(error))
    if why is not None:
        return not_checked(name, f"{resolver_.label} was not queried, because {why}")
    begin = time.monotonic()
    reason = _unanswered(resolver_)
    if reason is None:
        return ok(name, f"{resolver_.label} answers after {(time.monotonic() - begin) * 1000:.0f} ms")
    return failed(
        name,
        f"{resolver_.label} does not answer ({reason})",
        "name another one (resolve.resolver), or repair it",
        InputError.exit_status,
    )


def _why_not(resolver_: Resolver, settings: Settings) -> str | None:
    """Return why the resolver must not be queried, or `None`. FirstflightError for a broken list."""
    lists = lists_for(resolver_, settings)
    lab.check(resolver_.address)
    if lists.is_listed(resolver_.address):
        return "its address is on a list"
    if lists.look_until_complete() is not Trust.ALL:
        return "the machine's opt-out list is not confirmed"
    allowed = Permitted((), (), settings.probe.allow_net)
    if allowed.address_needs_contact(resolver_.address) and not settings.campaign.contact.strip():
        return "there is no contact: give --contact, or --allow-net for a resolver in a private network"
    return None


def _unanswered(resolver_: Resolver) -> str | None:
    """Send the query; return the reason if there is no answer, else `None`."""
    # Imported here, because a check that may not send does not need them.
    import dns.exception
    import dns.message

    question = dns.message.make_query(".", "NS", payload=1232)
    reason = "no reason"
    for _ in range(_ATTEMPTS):
        try:
            _exchange(question, resolver_)
        except (OSError, dns.exception.DNSException) as error:
            silent = isinstance(error, TimeoutError)
            reason = "time-out" if silent else getattr(error, "strerror", None) or type(error).__name__
        else:
            return None
    return reason


def _exchange(question: dns.message.QueryMessage, resolver_: Resolver) -> None:
    """Wait for the response to a query; OSError or DNSException without one."""
    import dns.message

    family = socket.AF_INET6 if ":" in resolver_.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as udp:
        # Connected, so that the kernel reports ICMP errors and drops datagrams of others.
        udp.connect((resolver_.address, resolver_.port))
        end = time.monotonic() + min(resolver_.timeout_s, _MOST_S)
        udp.send(question.to_wire())
        while True:
            udp.settimeout(max(1e-3, end - time.monotonic()))
            wire = udp.recv(65535)
            # An error such as REFUSED is an answer: names of the list may still be answered.
            if question.is_response(dns.message.from_wire(wire, ignore_trailing=True)):
                return
