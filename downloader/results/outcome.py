"""Decides a download's outcome, from the client's answer, the warm-up and the capture.

docs/definitions.md, "Downloads", defines the outcomes and their precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from downloader.clients.contract import ClientAnswer
from downloader.option_sets import WARMUP, OptionSet
from firstflight.cdn import challenge

OUTCOMES = (
    "done",
    "stopped_limit",
    "short",
    "changed",
    "http_error",
    "redirect",
    "timeout",
    "connect_failed",
    "tls_failed",
    "reset",
    "no_address",
    "blocked",
    "wrong_options",
    "skipped",
    "failed",
    "wire_limit",
    "challenge",
)


class Unsent(StrEnum):
    """Outcomes of downloads for which no request was sent."""

    NO_ADDRESS = "no_address"
    BLOCKED = "blocked"
    SKIPPED = "skipped"


SUCCESSFUL = ("done", "stopped_limit")
"""Outcomes of downloads whose throughput is compared."""

# If the client is busy for more than this share of the transfer's duration, it may limit the transfer.
BUSY = 0.8

Flow = Mapping[str, Any]
"""A row of tcp_flow or quic_connection."""


def of(answer: ClientAnswer, warmup: ClientAnswer | None, option_set: OptionSet, flow: Flow | None) -> str:
    """Return the outcome. `warmup`: the run's first download, `None` for that download itself.

    `flow`: `None` if unknown.
    """
    if answer.end not in ("complete", "limit"):
        return answer.end
    if offered(option_set, flow) is False:
        return "wrong_options"
    status = answer.status or 0
    if 300 <= status < 400:
        return "redirect"
    if human_verification(answer) is not None:
        return "challenge"
    if status != 200:
        return "http_error"
    if warmup is not None and any(
        now is not None and before is not None and now != before
        for now, before in zip(_file(answer), _file(warmup), strict=True)
    ):
        return "changed"
    if answer.end == "limit":
        return "stopped_limit"
    if answer.content_length is not None and answer.body_bytes < answer.content_length:
        return "short"
    return "done"


def human_verification(answer: ClientAnswer) -> str | None:
    """Return the field of a page for human verification (firstflight/cdn/challenge.py); else `None`."""
    return challenge.of(answer.status, answer.headers or {})


def of_rest(option_set: OptionSet, answer: ClientAnswer) -> Unsent | None:
    """Return the outcome for a run's other downloads after this answer; `None` if they can be sent."""
    if answer.end == "blocked":
        return Unsent.BLOCKED
    is_warmup = option_set.name == WARMUP
    return Unsent.SKIPPED if is_warmup and of(answer, None, option_set, None) not in SUCCESSFUL else None


def _file(answer: ClientAnswer) -> tuple[int | str | None, ...]:
    """Return the values that identify a version of the file; `None` for values that the response lacks."""
    headers = answer.headers or {}
    return answer.content_length, headers.get("etag"), headers.get("last-modified")


def offered(option_set: OptionSet, flow: Flow | None) -> bool | None:
    """Return whether the SYN in the capture offers the set's options; `None` for QUIC or without a SYN."""
    if option_set.is_quic or flow is None or flow["timestamps_client"] is None:
        return None
    return bool(
        flow["ecn_setup_client"] == option_set.ecn
        and flow["sack_permitted_client"] == option_set.sack
        and flow["wscale_client"] == option_set.window_scale
        and flow["timestamps_client"]
    )


def client_limited(answer: ClientAnswer, flow: Flow | None, capture_drops: int | None) -> bool | None:
    """Return whether this machine may have limited the transfer: busy CPU, full buffers, lost packets.

    `None` if no body was transferred, or if no sign is positive and a sign is unknown.
    """
    if not answer.duration_us or not answer.body_bytes:
        return None
    zero_windows = None if flow is None else flow.get("zero_windows_client", 0)
    signs = (
        None if answer.cpu_us is None else answer.cpu_us > BUSY * answer.duration_us,
        None if zero_windows is None else zero_windows > 0,
        bool(answer.udp_drops),
        None if capture_drops is None else capture_drops > 0,
    )
    if any(signs):
        return True
    return None if None in signs else False
