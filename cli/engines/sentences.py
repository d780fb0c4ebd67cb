"""Parts of the texts that describe an engine's rows, with times in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

EngineRow = Mapping[str, Any]
"""A row that an engine printed: column -> value."""

_NO_PACKETS = {"blocked": "not contacted", "send_failed": "not sent"}


def place(row: EngineRow) -> str:
    """Return a row's address, with the port unless that is 443."""
    if row["port"] == 443:
        return str(row["ip"])
    return f"[{row['ip']}]:{row['port']}" if ":" in row["ip"] else f"{row['ip']}:{row['port']}"


def outcome_text(row: EngineRow) -> str:
    """Return the name and the details of an outcome that the engine's own text does not describe."""
    outcome = str(_NO_PACKETS.get(row["outcome"], row["outcome"]))
    return f"{outcome}: {row['detail']}" if row["detail"] else outcome


def close_text(row: EngineRow) -> str:
    """Return the code and reason with which a server closed the connection, each if it has one."""
    code = "" if row["close_code"] is None else f" with 0x{row['close_code']:x}"
    return code + (f": {row['close_reason']}" if row["close_reason"] else "")


def joined(text: str, more: Iterable[str]) -> str:
    """Return a text and further facts, separated by commas."""
    return ", ".join([text, *more])


def ms(value: int | None) -> str:
    """Return microseconds in milliseconds; a time that was not observed is not zero."""
    return "an unknown time" if value is None else f"{value / 1000:.1f} ms"
