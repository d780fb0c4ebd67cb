"""The probe stage's part of the dry run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from firstflight.run.outline import Known, Outline, limit_words
from firstflight.settings import Settings, Vantage
from scanner.driver.outline import probe_traffic
from scanner.driver.prober import in_flight_s

# The prober's maximum number of targets with --listen.
MOST_LISTENING = 1000


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:
    """Return the probes of the stage, their limits and their traffic."""
    assert vantage is not None
    probe, rate = settings.probe, settings.rate_at(vantage)
    pace = f"at most {rate:g} probes per second"
    lines = [*_lines(settings)]
    sections = ("probe", "backoff", "capture")
    if probe.all_addresses or known.names is None:
        unknown = "the number of addresses of a name is unknown before it is resolved"
        if not probe.all_addresses:
            unknown = Outline.unknown
        return Outline(tuple(lines), pace, unknown=unknown, sections=sections)
    probes = known.names * len(probe.families) + settings.scan.addresses
    seconds = probes / rate + in_flight_s(settings)
    traffic = probe_traffic(probe, probe.attempts).times(probes)
    traffic += probe_traffic(probe, 1).times(_control_probes(settings, seconds))
    if probe.listen_s is not None and probes > MOST_LISTENING * vantage.shards:
        lines.append(
            f"the prober listens to at most {MOST_LISTENING:,} addresses and refuses more, but these names "
            f"may have {probes}: set targets.top, or unset probe.listen_s"
        )
    return Outline(tuple(lines), pace, f"at most {probes} probes", traffic, seconds, sections=sections)


def _lines(settings: Settings) -> Iterator[str]:
    probe = settings.probe
    addresses = "all addresses" if probe.all_addresses else "the first address"
    families = " and ".join(f"IPv{family}" for family in probe.families)
    names = "each name" if probe.https_record == "any" else "each name with h3 in its HTTPS record"
    yield f"probes: {addresses} of {names}, {families}, UDP port {probe.port}{_packets(settings)}"
    yield (
        f"limits: {limit_words(probe.per_address_rate)} per address, "
        f"{limit_words(probe.per_prefix_rate)} per /24 and /48, {probe.attempts} attempts, "
        f"answer window {probe.timeout_s:g} s"
    )
    if probe.listen_s is not None:
        yield f"listening: {probe.listen_s:g} s after each answer"
    if probe.per_address_rate or probe.per_prefix_rate:
        whose = "all vantage points together" if settings.takes_turns else "each vantage point"
        yield f"these limits hold for {whose}"
    control = settings.backoff.control
    if settings.backoff.enabled and control:
        yield f"control names: {', '.join(control)}, every {settings.backoff.control_every_s:g} s"
    yield f"captures: {'every probe' if settings.capture.enabled else 'none, so no row has its packets'}"


def _packets(settings: Settings) -> str:
    """Describe the differences from a plain Initial."""
    probe, properties = settings.probe, []
    if probe.initial_sizes:
        sizes = ", ".join(map(str, probe.initial_sizes))
        properties.append(f"Initials of {sizes} bytes (one size per repetition)")
    elif probe.initial_size is not None:
        properties.append(f"Initials of {probe.initial_size} bytes")
    if probe.ecn is not None:
        properties.append(f"marked {'ECT(0)' if probe.ecn == 'ect0' else 'ECT(1)'}")
    if probe.version != "1":
        properties.append("with a reserved version, which requests Version Negotiation")
    return "; " + ", ".join(properties) if properties else ""


def _control_probes(settings: Settings, seconds: float) -> int:
    backoff = settings.backoff
    if not (backoff.enabled and backoff.control):
        return 0
    rounds = math.ceil(seconds / backoff.control_every_s)
    return rounds * len(backoff.control) * len(settings.probe.families)
