"""`firstflight tcp-options`: the native engine of the TCP option survey."""

from __future__ import annotations

from cli.engines.command import engine

command = engine("firstflight-tcp-options", "tcp_option")
