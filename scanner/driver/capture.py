"""Captures the traffic of a vantage point's probes, as the settings require."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from firstflight import capture, capture_files
from firstflight.layout import StageKey
from firstflight.run.run import Run


def probe_capture(
    run: Run, key: StageKey, ports: str | None = None
) -> AbstractContextManager[capture.Capture | None]:
    """Return the capture for the probes of a key; a context of None if the settings disable it.

    It takes the key's own source ports; ICMP, which names no port, is in the captures of all shards, and
    answers only where its connection is.
    """
    settings = run.settings
    vantage = settings.vantage_named(key.vantage)
    if not settings.capture.enabled:
        return nullcontext()
    folder = run.layout.stage("capture", key)
    ports = ports or settings.ports_at(vantage, shard=key.shard)
    return capture.Capture(
        capture_files.next_path(folder),
        vantage.interface or capture.default_interface(),
        f"(udp and portrange {ports}) or icmp or icmp6",
        snaplen=settings.capture.snaplen,
        buffer_kib=settings.capture.buffer_kib,
        drain_s=settings.capture.drain_ms / 1000,
    )
