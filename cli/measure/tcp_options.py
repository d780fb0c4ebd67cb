"""`firstflight tcp-options`: the native engine of the TCP option survey."""

from __future__ import annotations

from cli.engines.command import engine
from cli.engines.sentences import EngineRow, joined, ms, outcome_text


def text(row: EngineRow) -> str:
    """Return the TCP options that a server agreed to (record kind `tcp_option`)."""
    if row["outcome"] in ("refused", "timeout"):
        return {"refused": "refused", "timeout": "no answer"}[row["outcome"]]
    if row["outcome"] != "answered":
        return outcome_text(row)
    options = [
        (row["window_scaling"], f"window scale {row['wscale']}", "no window scaling"),
        (row["sack"], "SACK", "no SACK"),
        (row["timestamps"], "timestamps", "no timestamps"),
        (row["ecn"], "ECN", "no ECN"),
    ]
    agreed = [yes if value else no for value, yes, no in options if value is not None]
    size = [] if row["mss"] is None else [f"segments of {row['mss']} bytes"]
    return joined(f"SYN-ACK after {ms(row['rtt_us'])}", [*size, *agreed])


command = engine("firstflight-tcp-options", "tcp_option", text)
