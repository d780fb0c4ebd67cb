"""`firstflight resolve`: the native resolver client."""

from __future__ import annotations

from cli.pass_through import pass_through

command = pass_through("firstflight-resolve")
