"""Prints the section about completed handshakes: tables of text, or the rows of a part for programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from firstflight.errors import UsageError
from firstflight.system.terminal import visible
from reports import chosen_run
from reports.page import handshakes
from reports.page.handshakes import Handshakes
from reports.tables.columns import Column, drawn
from reports.wording import plain
from store import Store

_QUARTILES = "_quartiles_us"
_LONGEST = 60  # characters of external text, so that a line in a table stays one line


def collect(store: Store, run: str) -> tuple[str, Handshakes]:
    """Return the id of `run` (an id, or `newest`: the newest with handshakes), and its handshakes.

    UsageError if the store has no handshake of the run.
    """
    run = chosen_run.choose(store, run, chosen_run.HANDSHAKES).run
    found = handshakes.collect(store, run)
    if found is None:
        raise UsageError(
            f"run {run} has no handshake in the store: its settings need [handshake] enabled, and it must be "
            "loaded (firstflight load RUN)"
        )
    return run, found


def rows(run: str, found: Handshakes, part: str) -> list[dict[str, Any]]:
    """Return the rows of a part (PARTS), `run` first; quartiles become *_p25_us, _p50_us, _p75_us."""
    return [{"run": run, **_flat_columns(row)} for row in getattr(found, part).rows]


def text(run: str, found: Handshakes, part: str | None = None, *, terminal: bool) -> str:
    """Format a part (PARTS; `None`: all with rows) as tables; `terminal`: use colours and lines."""
    parts = [f"Handshakes of run {visible(run)}, all addresses. -: nothing counted.\n"]
    for name in [part] if part else PARTS:
        title, columns = PARTS[name]
        shown = rows(run, found, name)
        if shown:
            cells = [
                Column(
                    column.title,
                    [column.show(row[column.key]) for row in shown],
                    right=column.show is not _text,
                )
                for column in columns
            ]
            more = f"Only the first {handshakes.MOST} rows.\n" if len(shown) == handshakes.MOST else ""
            parts += [f"{title}\n", drawn(cells, terminal=terminal) + more]
        elif part:
            parts.append(f"The run has no rows of {part}.\n")
    return "\n".join(parts)


def _flat_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, value in row.items():
        if not name.endswith(_QUARTILES):
            columns[name] = value
            continue
        for quarter, us in zip(("p25", "p50", "p75"), value or [None] * 3, strict=True):
            # The engine writes quartiles of nothing as not-a-number.
            absent = us is None or math.isnan(us)
            columns[f"{name.removesuffix(_QUARTILES)}_{quarter}_us"] = None if absent else us
    return columns


def _text(value: object) -> str:
    if value is None:
        return "-"
    shown = plain(value)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f}"


def _ms(us: float | None) -> str:
    return "-" if us is None else f"{us / 1000:.1f}"


@dataclass(frozen=True)
class Shown:
    """A column in a printed table: a title of two lines, the column of the answer, the format of a value."""

    title: str
    key: str
    show: Callable[[Any], str] = _count


_CDN = Shown("\nCDN", "cdn", _text)
_HANDSHAKES = Shown("\nHandshakes", "handshakes")
_NAMES = Shown("\nNames", "names")
PARTS: Mapping[str, tuple[str, tuple[Shown, ...]]] = {
    "outcomes": (
        "How handshakes ended; post-quantum: with X25519MLKEM768; times: medians from the first Initial.",
        (
            _CDN,
            _HANDSHAKES,
            _NAMES,
            Shown("\nDone", "done"),
            Shown("\nFailed", "failed"),
            Shown("\nUnanswered", "unanswered"),
            Shown("\nNot sent", "not_sent"),
            Shown("\nHTTP/3", "responses"),
            Shown("Status\n2xx", "successful"),
            Shown("Post-\nquantum", "post_quantum"),
            Shown("Handshake\n[ms]", "handshake_p50_us", _ms),
            Shown("Response\n[ms]", "response_p50_us", _ms),
        ),
    ),
    "stages": (
        "How handshakes ended, and the last milestone that they reached.",
        (
            _CDN,
            Shown("\nOutcome", "outcome", _text),
            Shown("\nStage", "stage", _text),
            _HANDSHAKES,
            _NAMES,
            Shown("Share\n[%]", "share_of_cdn", _percent),
        ),
    ),
    "ciphers": (
        "Groups and cipher suites that servers chose; HRR: HelloRetryRequest.",
        (
            _CDN,
            Shown("\nGroup", "key_exchange", _text),
            Shown("\nCipher suite", "suite", _text),
            _HANDSHAKES,
            _NAMES,
            Shown("HRR\n[%]", "hello_retry_share", _percent),
            Shown("Share\n[%]", "share_of_cdn", _percent),
        ),
    ),
    "stacks": (
        "QUIC stacks by transport parameters; unknown ones by their parameters.",
        (
            _CDN,
            Shown("\nStack", "stack", _text),
            _HANDSHAKES,
            _NAMES,
            Shown("\nFingerprints", "fingerprints"),
            Shown("Share\n[%]", "share_of_cdn", _percent),
            Shown("\nParameters of unknown ones", "parameters", _text),
        ),
    ),
    "parameters": (
        "Transport parameters that servers send, and the most frequent value of each.",
        (
            _CDN,
            Shown("\nId", "id", _text),
            Shown("\nName", "name", _text),
            _HANDSHAKES,
            Shown("Share\n[%]", "share_of_cdn", _percent),
            Shown("\nValues", "distinct_values"),
            Shown("Most\nfrequent", "common_value", _text),
            Shown("Its share\n[%]", "common_share", _percent),
        ),
    ),
    "certificates": (
        "Certificates: bytes of the Certificate message as sent.",
        (
            _CDN,
            _HANDSHAKES,
            Shown("\nCertificates", "leaves"),
            Shown("\nChain", "chain_length_p50"),
            Shown("10 %\n[bytes]", "bytes_p10"),
            Shown("median\n[bytes]", "bytes_p50"),
            Shown("90 %\n[bytes]", "bytes_p90"),
            Shown("Compressed\n[%]", "compressed_share", _percent),
            Shown("Valid\n[%]", "verified_share", _percent),
            Shown("Name fits\n[%]", "name_matches_share", _percent),
        ),
    ),
    "chain_sizes": (
        "Certificate messages above the limit: three times the bytes sent before the address was validated.",
        (
            _CDN,
            _HANDSHAKES,
            Shown("\nChains", "chains"),
            Shown("Chains\nover limit", "chains_over_limit"),
            Shown("Over limit\n[%]", "over_limit_share", _percent),
            Shown("Uncompressed\n[%]", "uncompressed_over_limit_share", _percent),
            Shown("First flight\n[%]", "flight_over_limit_share", _percent),
            Shown("Sent over limit\n[%]", "exceeded_share", _percent),
            Shown("Largest\n[bytes]", "bytes_max"),
            Shown("Limit\n[bytes]", "limit_p50"),
        ),
    ),
    "amplification": (
        "Amplification: bytes received to sent, of the first flight, before validation, of the handshake.",
        (
            _CDN,
            _HANDSHAKES,
            Shown("First flight\nmedian", "first_flight_p50", _ratio),
            Shown("\nhighest", "first_flight_max", _ratio),
            Shown("\nabove 3 [%]", "first_flight_above_share", _percent),
            Shown("Unvalidated\nmedian", "unvalidated_p50", _ratio),
            Shown("\nhighest", "unvalidated_max", _ratio),
            Shown("\nabove 3 [%]", "unvalidated_above_share", _percent),
            Shown("Handshake\nmedian", "handshake_p50", _ratio),
            Shown("\nabove 3 [%]", "handshake_above_share", _percent),
        ),
    ),
    "keys": (
        "Keys and signatures of the certificates of servers.",
        (
            _CDN,
            Shown("\nKey", "key_algorithm", _text),
            Shown("\nBits", "key_bits"),
            Shown("\nSigned by", "signature_algorithm", _text),
            Shown("\nCertificates", "leaves"),
            _HANDSHAKES,
            Shown("Share\n[%]", "share_of_handshakes", _percent),
            Shown("median\n[bytes]", "der_bytes_p50"),
        ),
    ),
    "servers": (
        "Servers over HTTP/3, by their field server.",
        (
            _CDN,
            Shown("\nServer", "server", _text),
            Shown("\nResponses", "responses"),
            Shown("Status\n2xx", "successful"),
            _NAMES,
            Shown("Share\n[%]", "share_of_cdn", _percent),
        ),
    ),
    "locations": (
        "Edge locations that responses name; RTT: median of the smallest round trips.",
        (
            Shown("\nVantage point", "vantage", _text),
            _CDN,
            Shown("\nLocation", "location", _text),
            _HANDSHAKES,
            _NAMES,
            Shown("Share\n[%]", "share", _percent),
            Shown("RTT\n[ms]", "rtt_min_p50_us", _ms),
        ),
    ),
}
"""Name of a part, as in Handshakes -> its title and columns."""
