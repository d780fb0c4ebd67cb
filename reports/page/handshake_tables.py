"""Prints the section about completed handshakes: tables of text, or the rows of a part for programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from firstflight.errors import UsageError
from firstflight.system.terminal import visible
from reports.page import handshakes
from reports.page.handshakes import Handshakes
from reports.tables.columns import PrintedColumn, table_text
from reports.wording import plain
from store import Store

_QUARTILES = "_quartiles_us"
_LONGEST = 60  # characters of external text, so that a line in a table stays one line


def collect(store: Store, run: str) -> Handshakes:
    """Return the handshakes of the run with the id `run`. UsageError if the store has none."""
    found = handshakes.collect(store, run)
    if found is None:
        raise UsageError(
            f"run {run} has no handshake in the store: its settings need [handshake] enabled, and it must be "
            "loaded (firstflight load RUN)"
        )
    return found


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
                PrintedColumn(
                    column.title,
                    [column.show(row[column.key]) for row in shown],
                    right=column.show is not _text,
                )
                for column in columns
            ]
            more = f"Only the first {handshakes.MOST} rows.\n" if len(shown) == handshakes.MOST else ""
            parts += [f"{title}\n", table_text(cells, terminal=terminal) + more]
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
class AnswerColumn:
    """A column in a printed table: a title of two lines, the column of the answer, the format of a value."""

    title: str
    key: str
    show: Callable[[Any], str] = _count


_CDN = AnswerColumn("\nCDN", "cdn", _text)
_HANDSHAKES = AnswerColumn("\nHandshakes", "handshakes")
_NAMES = AnswerColumn("\nNames", "names")
PARTS: Mapping[str, tuple[str, tuple[AnswerColumn, ...]]] = {
    "outcomes": (
        "How handshakes ended; post-quantum: with X25519MLKEM768; times: medians from the first Initial.",
        (
            _CDN,
            _HANDSHAKES,
            _NAMES,
            AnswerColumn("\nDone", "done"),
            AnswerColumn("\nFailed", "failed"),
            AnswerColumn("\nUnanswered", "unanswered"),
            AnswerColumn("\nNot sent", "not_sent"),
            AnswerColumn("\nHTTP/3", "responses"),
            AnswerColumn("Status\n2xx", "successful"),
            AnswerColumn("Post-\nquantum", "post_quantum"),
            AnswerColumn("Handshake\n[ms]", "handshake_p50_us", _ms),
            AnswerColumn("Response\n[ms]", "response_p50_us", _ms),
        ),
    ),
    "stages": (
        "How handshakes ended, and the last milestone that they reached.",
        (
            _CDN,
            AnswerColumn("\nOutcome", "outcome", _text),
            AnswerColumn("\nStage", "stage", _text),
            _HANDSHAKES,
            _NAMES,
            AnswerColumn("Share\n[%]", "share_of_cdn", _percent),
        ),
    ),
    "ciphers": (
        "Groups and cipher suites that servers chose; HRR: HelloRetryRequest.",
        (
            _CDN,
            AnswerColumn("\nGroup", "key_exchange", _text),
            AnswerColumn("\nCipher suite", "suite", _text),
            _HANDSHAKES,
            _NAMES,
            AnswerColumn("HRR\n[%]", "hello_retry_share", _percent),
            AnswerColumn("Share\n[%]", "share_of_cdn", _percent),
        ),
    ),
    "stacks": (
        "QUIC stacks by transport parameters; unknown ones by their parameters.",
        (
            _CDN,
            AnswerColumn("\nStack", "stack", _text),
            _HANDSHAKES,
            _NAMES,
            AnswerColumn("\nFingerprints", "fingerprints"),
            AnswerColumn("Share\n[%]", "share_of_cdn", _percent),
            AnswerColumn("\nParameters of unknown ones", "parameters", _text),
        ),
    ),
    "parameters": (
        "Transport parameters that servers send, and the most frequent value of each.",
        (
            _CDN,
            AnswerColumn("\nId", "id", _text),
            AnswerColumn("\nName", "name", _text),
            _HANDSHAKES,
            AnswerColumn("Share\n[%]", "share_of_cdn", _percent),
            AnswerColumn("\nValues", "distinct_values"),
            AnswerColumn("Most\nfrequent", "common_value", _text),
            AnswerColumn("Its share\n[%]", "common_share", _percent),
        ),
    ),
    "certificates": (
        "Certificates: bytes of the Certificate message as sent.",
        (
            _CDN,
            _HANDSHAKES,
            AnswerColumn("\nCertificates", "leaves"),
            AnswerColumn("\nChain", "chain_length_p50"),
            AnswerColumn("10 %\n[bytes]", "bytes_p10"),
            AnswerColumn("median\n[bytes]", "bytes_p50"),
            AnswerColumn("90 %\n[bytes]", "bytes_p90"),
            AnswerColumn("Compressed\n[%]", "compressed_share", _percent),
            AnswerColumn("Valid\n[%]", "verified_share", _percent),
            AnswerColumn("Name fits\n[%]", "name_matches_share", _percent),
        ),
    ),
    "chain_sizes": (
        "Certificate messages above the limit: three times the bytes sent before the address was validated.",
        (
            _CDN,
            _HANDSHAKES,
            AnswerColumn("\nChains", "chains"),
            AnswerColumn("Chains\nover limit", "chains_over_limit"),
            AnswerColumn("Over limit\n[%]", "over_limit_share", _percent),
            AnswerColumn("Uncompressed\n[%]", "uncompressed_over_limit_share", _percent),
            AnswerColumn("First flight\n[%]", "flight_over_limit_share", _percent),
            AnswerColumn("Sent over limit\n[%]", "exceeded_share", _percent),
            AnswerColumn("Largest\n[bytes]", "bytes_max"),
            AnswerColumn("Limit\n[bytes]", "limit_p50"),
        ),
    ),
    "amplification": (
        "Amplification: bytes received to sent, of the first flight, before validation, of the handshake.",
        (
            _CDN,
            _HANDSHAKES,
            AnswerColumn("First flight\nmedian", "first_flight_p50", _ratio),
            AnswerColumn("\nhighest", "first_flight_max", _ratio),
            AnswerColumn("\nabove 3 [%]", "first_flight_above_share", _percent),
            AnswerColumn("Unvalidated\nmedian", "unvalidated_p50", _ratio),
            AnswerColumn("\nhighest", "unvalidated_max", _ratio),
            AnswerColumn("\nabove 3 [%]", "unvalidated_above_share", _percent),
            AnswerColumn("Handshake\nmedian", "handshake_p50", _ratio),
            AnswerColumn("\nabove 3 [%]", "handshake_above_share", _percent),
        ),
    ),
    "keys": (
        "Keys and signatures of the certificates of servers.",
        (
            _CDN,
            AnswerColumn("\nKey", "key_algorithm", _text),
            AnswerColumn("\nBits", "key_bits"),
            AnswerColumn("\nSigned by", "signature_algorithm", _text),
            AnswerColumn("\nCertificates", "leaves"),
            _HANDSHAKES,
            AnswerColumn("Share\n[%]", "share_of_handshakes", _percent),
            AnswerColumn("median\n[bytes]", "der_bytes_p50"),
        ),
    ),
    "servers": (
        "Servers over HTTP/3, by their field server.",
        (
            _CDN,
            AnswerColumn("\nServer", "server", _text),
            AnswerColumn("\nResponses", "responses"),
            AnswerColumn("Status\n2xx", "successful"),
            _NAMES,
            AnswerColumn("Share\n[%]", "share_of_cdn", _percent),
        ),
    ),
    "locations": (
        "Edge locations that responses name; RTT: median of the smallest round trips.",
        (
            AnswerColumn("\nVantage point", "vantage", _text),
            _CDN,
            AnswerColumn("\nLocation", "location", _text),
            _HANDSHAKES,
            _NAMES,
            AnswerColumn("Share\n[%]", "share", _percent),
            AnswerColumn("RTT\n[ms]", "rtt_min_p50_us", _ms),
        ),
    ),
}
"""Name of a part, as in Handshakes -> its title and columns."""
