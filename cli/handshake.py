"""`firstflight handshake`: the native engine that completes handshakes."""

from __future__ import annotations

from cli.pass_through import pass_through

command = pass_through("firstflight-handshake")
