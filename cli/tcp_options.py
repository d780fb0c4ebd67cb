"""`firstflight tcp-options`: the native engine of the TCP option survey."""

from __future__ import annotations

from cli.pass_through import pass_through

command = pass_through("firstflight-tcp-options")
