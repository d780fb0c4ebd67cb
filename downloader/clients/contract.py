"""Requests and answers of download clients: one JSON object per line, one answer per request, in order.

A client prints the line `{"ready": "NAME/VERSION"}` when the libraries are loaded. It exits at the end of its
input. It contacts only the address in the request, resolves no names and follows no redirects.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Self

from firstflight.cdn import challenge
from firstflight.errors import FirstflightError
from firstflight.system import from_outside

# How a transfer can end, as the client sees it. Later, downloader/results/outcome.py compares a download with
# the others and with the capture.
ENDS = frozenset(
    {
        "complete", "limit", "wire_limit", "short", "timeout", "connect_failed", "tls_failed", "reset",
        "blocked", "failed",
    }
)  # fmt: skip

_BEYOND = 1 << 63


@dataclass(frozen=True)
class Request:
    """One download. `roots`: a PEM file with the trusted roots; `method`: only the client quiche takes HEAD.

    `resume`: resume the newest session of requests with `resume`, if there is one, with the request in 0-RTT
    packets; only the testbed's clients with `resumes` do that.
    `responses`: load the resource several times, on the connections that the client keeps, with a pause of
    `think_s` after each response. The answer counts all bodies and pauses. Only the testbed's clients with
    `repeats` do that.
    `max_bytes` limits the body; `max_wire_bytes` all bytes that arrive from the network, with headers.
    """

    url: str
    host: str
    ip: str
    port: int
    path: str
    user_agent: str
    timeout_s: float
    max_bytes: int
    roots: str
    verify: bool = True
    window_clamp: int | None = None
    http: str = "1.1"
    method: str = "GET"
    max_wire_bytes: int | None = None
    resume: bool = False
    responses: int = 1
    think_s: float = 0.0

    def line(self) -> bytes:
        """Return the request as a line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"

    @classmethod
    def of(cls, line: str | bytes) -> Self:
        """Parse a line that `line` returned."""
        return cls(**json.loads(line))


@dataclass(frozen=True)
class ClientAnswer:
    """The end of a download. Times in microseconds from `started_at` (ns, UTC); `None`: did not happen."""

    end: str
    detail: str | None = None
    started_at: int | None = None
    client_ip: str | None = None
    client_port: int | None = None
    connect_us: int | None = None
    tls_us: int | None = None
    first_byte_us: int | None = None
    duration_us: int | None = None
    cpu_us: int | None = None
    status: int | None = None
    http_version: str | None = None
    tls_version: str | None = None
    cipher: str | None = None
    tls_group: str | None = None
    tls_verified: bool | None = None
    body_bytes: int = 0
    content_length: int | None = None
    headers: dict[str, str] | None = None
    receive_buffer: int | None = None
    udp_drops: int | None = None
    wire_bytes: int | None = None

    def line(self) -> bytes:
        """Return the answer as a line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"

    @classmethod
    def of(cls, line: bytes) -> Self:
        """Parse a client's line. Raise FirstflightError if the line is not an answer."""
        try:
            # libcurl's messages can contain bytes from the server, which arrive as lone surrogates.
            value = from_outside.json_value(line)
            answer = cls(**{field.name: value[field.name] for field in fields(cls) if field.name in value})
            if answer.end not in ENDS:
                raise ValueError(f"{answer.end!r} is no end of a download")
            for name, number in vars(answer).items():
                # No record file holds such a number. Without this check, the stage fails only when it writes
                # rows.
                if isinstance(number, int) and not -_BEYOND <= number < _BEYOND:
                    raise ValueError(f"{name} has more than 64 bits")
        except (KeyError, TypeError, ValueError) as error:
            raise FirstflightError(f"a download client's line is no answer: {error}") from error
        return answer


# Response headers to keep, in lower case. Values are truncated to MOST_OF_A_HEADER characters.
KEPT_HEADERS = frozenset(
    {
        "age", "alt-svc", "cache-control", "cf-cache-status", "content-encoding", "content-length",
        "content-type", "etag", "last-modified", "location", "server", "via", "x-cache", *challenge.HEADERS,
    }
)  # fmt: skip
MOST_OF_A_HEADER = 500
