"""Converts QScanner's error text for a connection (from quic-go) to outcome and related columns."""

from __future__ import annotations

import re
from typing import Any

# Name to code of transport errors (RFC 9000 20.1).
CODES = {
    name: code
    for code, name in enumerate(
        (
            *("NO_ERROR", "INTERNAL_ERROR", "CONNECTION_REFUSED", "FLOW_CONTROL_ERROR", "STREAM_LIMIT_ERROR"),
            *("STREAM_STATE_ERROR", "FINAL_SIZE_ERROR", "FRAME_ENCODING_ERROR", "TRANSPORT_PARAMETER_ERROR"),
            *("CONNECTION_ID_LIMIT_ERROR", "PROTOCOL_VIOLATION", "INVALID_TOKEN", "APPLICATION_ERROR"),
            *("CRYPTO_BUFFER_EXCEEDED", "KEY_UPDATE_ERROR", "AEAD_LIMIT_REACHED", "NO_VIABLE_PATH"),
        )
    )
}
# The first pattern that matches the start of the text is used. The groups are columns, or inputs of
# `_columns`.
TABLE: tuple[tuple[str, str], ...] = (
    (r"timeout: ", "timeout"),
    (r"no compatible QUIC version found", "version_negotiation"),
    (r"CRYPTO_ERROR \(?0x1(?P<alert>[0-9a-f]{2})\)?(?: \((?P<by>remote|local)\))?", "handshake_failed"),
    (r"Application error 0x(?P<code>[0-9a-f]{1,15})(?: \((?P<by>remote)\))?(?:: (?P<reason>.*))?", "closed"),
    (r"(?P<name>[A-Z_]+) \(remote\)(?: \(frame type: [^)]*\))?(?:: (?P<reason>.*))?", "closed"),
    (r"received a stateless reset", "closed"),
    (r"[A-Z_]+ \(local\)", "malformed"),
    (r".*connection refused", "refused"),
    (
        r".*(?:unreachable|no route to host|operation not permitted|message too long|invalid argument)",
        "send_failed",
    ),
)
_PATTERNS = [(re.compile(pattern, re.DOTALL), outcome) for pattern, outcome in TABLE]


def of(text: str) -> dict[str, Any]:
    """Return outcome, detail, and the columns of alert and close; empty for an empty text.

    An unknown text becomes handshake_failed, because the connection was not completed. `detail` has the text.
    """
    if not text:
        return {}
    row: dict[str, Any] = {"outcome": "handshake_failed", "detail": text[:500]}
    for pattern, outcome in _PATTERNS:
        if match := pattern.match(text):
            return row | {"outcome": outcome} | _columns(outcome, match.groupdict())
    return row


def _columns(outcome: str, groups: dict[str, str | None]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if (alert := groups.get("alert")) is not None:
        row["alert"] = int(alert, 16)
        row["alert_by"] = {"remote": "server", "local": "client"}.get(groups.get("by") or "")
    if outcome == "closed" and "reason" in groups:
        code = groups.get("code")
        row["close_by_application"] = code is not None
        row["close_code"] = CODES.get(groups.get("name") or "") if code is None else int(code, 16)
        row["close_reason"] = groups["reason"]
    return row
