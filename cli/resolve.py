"""`firstflight resolve`: the native resolver client."""

from __future__ import annotations

from cli.engines.command import engine

command = engine("firstflight-resolve", "dns_answer")
