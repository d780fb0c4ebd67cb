"""`firstflight probe`: the native prober."""

from __future__ import annotations

from cli.engines.command import engine

command = engine("firstflight-prober", "quic_probe")
