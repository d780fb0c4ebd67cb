"""`firstflight dissect`: the native dissector."""

from __future__ import annotations

from cli.shared.pass_through import pass_through

command = pass_through("firstflight-dissect")
