"""What a run knows about names before the draw: accepted TCP options, and HTTP/3.

The ANRW 2023 paper draws its targets by this (sections 4.1 and 6.2): all of them support window scaling, SACK
and ECN, and a second target set has only names that support QUIC.
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from downloader.files.targets import Target
from firstflight.errors import InputError

Pair = tuple[str, str]
"""A name and an address."""

OPTIONS = ("window_scaling", "sack", "ecn")
_ANSWERED = "answered"
# Outcomes of handshakes for which no packet was sent.
_UNSENT = ("blocked", "send_failed")
_DONE = "done"
# A service with HTTP/3 in Alt-Svc (RFC 7838 3, RFC 9114 3.1.1), as in the view https_promise.
_ALT_SVC = re.compile(r"(^|[ ,])h3=")


class Survey:
    """Options and HTTP/3 of the names at a vantage point. The arguments are record files.

    `options`: tcp_option. `handshakes`: quic_handshake; without it, only what servers announced to the crawl
    is known. `crawl`: download_file; it may be missing too. Raise InputError without `options`.
    """

    def __init__(self, options: Path, handshakes: Path, crawl: Path) -> None:
        if not options.is_file():
            raise InputError(
                f'there is no {options}: run the tcp_options stage first, or set download.draw = "names"'
            )
        self._options = _pairs_with_options(options)
        self._connected = _connected(handshakes)
        self._announced = _announced(crawl)

    def supports_options(self, target: Target) -> bool:
        """Return whether the target's address accepted all three options in the survey."""
        return (target.domain, target.ip) in self._options

    def speaks_http3(self, target: Target) -> bool:
        """Return whether a handshake with the target agreed on HTTP/3.

        If none was tried: whether the name announced HTTP/3 to the crawl (Alt-Svc).
        """
        connected = self._connected.get((target.domain, target.ip))
        return target.domain in self._announced if connected is None else connected


def _pairs_with_options(path: Path) -> set[Pair]:
    is_answered = pc.field("outcome") == _ANSWERED
    columns = ["domain", "ip"]
    filters = is_answered
    for option in OPTIONS:
        filters &= pc.field(option)
    rows = pq.read_table(path, columns=columns, filters=filters)
    return set(zip(*(rows[name].to_pylist() for name in columns), strict=True))


def _connected(path: Path) -> dict[Pair, bool]:
    """Return, for each tried target, whether one of its handshakes was completed with HTTP/3."""
    if not path.is_file():
        return {}
    rows = pq.read_table(path, columns=["domain", "ip", "outcome", "alpn"])
    found: dict[Pair, bool] = {}
    for row in rows.filter(~pc.field("outcome").isin(_UNSENT)).to_pylist():
        pair = (row["domain"], row["ip"])
        found[pair] = found.get(pair, False) or (row["outcome"] == _DONE and row["alpn"] == "h3")
    return found


def _announced(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    rows = pq.read_table(path, columns=["domain", "alt_svc"]).to_pylist()
    return {row["domain"] for row in rows if _ALT_SVC.search(row["alt_svc"] or "")}
