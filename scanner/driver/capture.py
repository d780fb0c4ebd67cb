"""Captures the traffic from a vantage point's probes, as the settings require."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from firstflight import capture, capture_files
from firstflight.layout import StageKey
from firstflight.run.run import Run

# Maximum size of a probe's packets in a capture, in bytes. A probe sends at most a few datagrams of 1,200 to
# 1,500 bytes, and a server that has not validated the address answers with three times that (RFC 9000 8.1).
BYTES_PER_PROBE = 64 << 10
# Additional size per stage, so that a short stage has room for late answers.
BYTES_PER_STAGE = 64 << 20
# Filters for ICMP and ICMPv6 errors (RFC 792, RFC 4443), which match the first byte, and the position of
# the quoted UDP datagram's source port: in bytes from the start of the ICMP header, and of the IPv6 header.
_ICMP_ERRORS = "(icmp[0] = 3 or icmp[0] = 4 or icmp[0] = 5 or icmp[0] = 11 or icmp[0] = 12)"
_ICMP_PORT, _ICMP6_PORT = "icmp[28:2]", "ip6[88:2]"
_ICMP6_ERRORS = "(ip6[40] >= 1 and ip6[40] <= 4)"


def probe_capture(
    run: Run, key: StageKey, probes: int, ports: str | None = None
) -> AbstractContextManager[capture.TcpdumpCapture | None]:
    """Return the capture for a key's probes; a context of `None` if the settings disable it.

    `probes`: the maximum number of probes, which limits the capture's size (`budget`). `ports`: their source
    ports (default: the key's).
    """
    settings = run.settings
    vantage = settings.vantage_named(key.vantage)
    if not settings.capture.enabled:
        return nullcontext()
    folder = run.layout.stage("capture", key)
    return capture.TcpdumpCapture(
        capture_files.next_path(folder),
        vantage.interface or capture.default_interface(),
        answers_to(ports or settings.ports_at(vantage, shard=key.shard), settings.probe.port),
        snaplen=settings.capture.snaplen,
        buffer_kib=settings.capture.buffer_kib,
        drain_s=settings.capture.drain_ms / 1000,
        max_bytes=budget(probes),
    )


def budget(probes: int) -> int:
    """Return the maximum size in bytes of a capture of `probes` probes."""
    return BYTES_PER_STAGE + probes * BYTES_PER_PROBE


def answers_to(ports: str, server_port: int) -> str:
    """Return the filter (pcap-filter(7)) for probes from UDP ports FIRST-LAST to a port, and their answers.

    It accepts ICMP errors that quote a UDP datagram from these ports. The quoted IPv4 header has no options
    and the quoted IPv6 header no extensions, because probes have none.
    """
    first, _, last = ports.partition("-")

    def quoted(port: str) -> str:
        return f"({port} >= {first} and {port} <= {last or first})"

    return (
        f"(udp and src portrange {ports} and dst port {server_port})"
        f" or (udp and src port {server_port} and dst portrange {ports})"
        f" or (icmp and {_ICMP_ERRORS} and icmp[17] = 17 and {quoted(_ICMP_PORT)})"
        f" or (icmp6 and {_ICMP6_ERRORS} and ip6[54] = 17 and {quoted(_ICMP6_PORT)})"
    )
