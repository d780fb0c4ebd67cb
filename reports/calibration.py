"""The answer of `firstflight calibrate`: do first-answer probes and full handshakes classify alike?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from firstflight.errors import UsageError
from reports import query
from reports.numbers import paired
from store import Store
from store.base import FormattedAnswer
from store.sql import identifier, literal

INTERLEAVED = "interleaved"
REASONS = ("not_sent", "both_failed", "probe_failed", "handshake_failed", "repeated", "apart")
_COUNTS = ("pairs", *REASONS, "compared", "both_instant", "probe_only", "handshake_only", "neither")
_FLOAT, _TEXT = "Nullable(Float64)", "Nullable(String)"
# Part of the answer -> its columns with their types.
PARTS: Mapping[str, Mapping[str, str]] = {
    "agreement": {
        "source": "String",
        "cdn": _TEXT,
        **dict.fromkeys(_COUNTS, "UInt64"),
        **dict.fromkeys(("agreement", "agreement_low", "agreement_high", "kappa"), _FLOAT),
        **dict.fromkeys(("mcnemar_p", "mcnemar_mid_p", "apart_p50_s"), _FLOAT),
    },
    "delays": {
        **dict.fromkeys(("source",), "String"),
        "cdn": _TEXT,
        "quantity": "String",
        "pairs": "UInt64",
        **dict.fromkeys(("probe_p50_us", "handshake_p50_us", "difference_p50_us"), _FLOAT),
        **dict.fromkeys(("difference_low_us", "difference_high_us"), "Nullable(Int64)"),
        "confidence": _FLOAT,
    },
    "categories": {
        "source": "String",
        "cdn": _TEXT,
        **dict.fromkeys(("probe", "handshake"), "String"),
        **dict.fromkeys(("pairs", "compared"), "UInt64"),
    },
}
_QUERY = {"agreement": "calibration", "delays": "calibration_delays", "categories": "calibration_categories"}


def rows(store: Store, part: str, run: str, vantage: str, most_apart_s: float) -> list[dict[str, Any]]:
    """Return a part's rows (PARTS): for interleaved pairs, or else for the stages' pairs.

    `vantage` empty: all vantage points. UsageError if the store has no pairs of the run.
    """
    given = {"run": run, "vantage": vantage, "most_apart_s": repr(most_apart_s)}
    found = query.rows(store, _QUERY[part], given)
    source = _source(found if part != "delays" else query.rows(store, _QUERY["agreement"], given))
    if source is None:
        raise UsageError(
            f"run {run}{f' at {vantage}' if vantage else ''} has no pair in the store: its settings need "
            "[calibrate] or [handshake] enabled, and it must be loaded (firstflight load RUN)"
        )
    of_source = [row for row in found if row["source"] == source]
    return [row | _statistics(row) for row in of_source] if part == "agreement" else of_source


def formatted(store: Store, part: str, found: list[dict[str, Any]], output_format: str) -> FormattedAnswer:
    """Return a part's rows in a format of ClickHouse."""
    columns = PARTS[part]
    kinds = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    values = json.dumps([{name: row[name] for name in columns} for row in found])
    columns_sql = ", ".join(
        f"tupleElement(row, {n}) AS {identifier(name)}" for n, name in enumerate(columns, start=1)
    )
    statement = (
        f"SELECT arrayJoin(JSONExtract({literal(values)}, {literal(f'Array(Tuple({kinds}))')})) AS row"
    )
    return store.formatted(f"SELECT {columns_sql} FROM ({statement})", output_format)


def notes(found: list[dict[str, Any]]) -> list[str]:
    """Return sentences about the pairs of the part `agreement`: their source, and reasons for exclusion."""
    (total,) = [row for row in found if row["cdn"] is None]
    if total["source"] == INTERLEAVED:
        origin = "interleaved pairs of the stage calibrate"
    else:
        origin = (
            "addresses that the stages probe and handshake both contacted, one stage after the other "
            "([calibrate] sends interleaved pairs, which compare better)"
        )
    median = "" if total["apart_p50_s"] is None else f", {total['apart_p50_s']:.1f} s apart in the median"
    reasons = [f"{total[reason]} {reason}" for reason in REASONS if total[reason]]
    return [
        f"pairs: {origin}{median}",
        f"compared: {total['compared']} of {total['pairs']}"
        + (f"; not compared: {', '.join(reasons)}" if reasons else ""),
    ]


def _source(found: list[dict[str, Any]]) -> str | None:
    sources = sorted({str(row["source"]) for row in found})
    return sources[0] if sources else None  # `interleaved` sorts before `stages`


def _statistics(row: Mapping[str, Any]) -> dict[str, float | None]:
    both, first, second, neither = (int(row[name]) for name in _COUNTS[-4:])
    share = paired.share(both + neither, int(row["compared"]))
    exact, mid = paired.mcnemar(first, second) if row["compared"] else (None, None)
    return {
        **dict(zip(("agreement", "agreement_low", "agreement_high"), share or [None] * 3, strict=True)),
        "kappa": paired.kappa(both, first, second, neither) if row["compared"] else None,
        "mcnemar_p": exact,
        "mcnemar_mid_p": mid,
    }
