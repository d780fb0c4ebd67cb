"""watch_hourly and watch_coverage with handmade rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports import query
from store import open_store
from store.load import loader
from tests.store.conftest import emptied_tables as emptied_tables
from tests.store.conftest import place as place
from tests.store.conftest import shared_store as shared_store
from tests.store.rows import DAY_NS, RUN, write

SECOND_NS = 10**9
HOUR_NS = 3600 * SECOND_NS


def slot(
    number: int, outcome: str | None, ack_us: int | None, sh_us: int | None, **changes: Any
) -> dict[str, Any]:
    """Return a watch_slot record. If `outcome` is `None`, the reason is `late`."""
    planned = DAY_NS + number * 60 * SECOND_NS
    probed = outcome is not None
    return {
        "run": RUN,
        "vantage": "hamburg",
        "repetition": 1,
        "slot": number,
        "purpose": "watch",
        "domain": "a.example",
        "family": 4,
        "planned_at": planned,
        "state": "probed" if probed else "skipped",
        "reason": None if probed else "late",
        "ip": "198.18.48.1",
        "asn": 13335,
        "cdn": "Cloudflare",
        "late_us": 100 if probed else 300_000,
        "sent_at": planned + 100_000 if probed else None,
        "outcome": outcome,
        "ack_us": ack_us,
        "sh_us": sh_us,
        "clock_offset_us": None,
        "tool_version": "0.1.0+test",
    } | changes


@pytest.fixture
def ask(tmp_path: Path, emptied_tables: None) -> Any:
    """Return a function that loads rows and queries them."""
    del emptied_tables  # required, but unused

    def load_and_ask(rows: list[dict[str, Any]], query: str) -> list[dict[str, Any]]:
        loader.load_files([write(tmp_path / "watch_slot.parquet", rows, "watch_slot")])
        with open_store() as store:
            return store.rows(query)

    return load_and_ask


def test_medians_and_quartiles_by_hour_and_first_answer(ask: Any) -> None:
    rows = [
        # Quartiles of 10, 20, 30, 40 interpolate: 17.5, 25, 32.5.
        *(slot(n, "iack", 10 * (n + 1), 1000 + 100 * n, domain=f"{n % 2}.example") for n in range(4)),
        slot(4, "coalesced", 500, 500),
        slot(5, "timeout", None, None),
        slot(6, None, None, None),
        slot(7, "sh_first", None, 700),
        slot(8, "iack", 7, 8, purpose="control"),
        slot(9, "iack", 70, 80, purpose="owned"),
        # In the next hour according to the local clock, in this hour according to the reference clock.
        slot(10, "coalesced", 600, 600, sent_at=DAY_NS + HOUR_NS + 5, clock_offset_us=2_000_000),
        slot(11, "coalesced", 800, 800, sent_at=DAY_NS + HOUR_NS + 5),
    ]
    found = ask(rows, "SELECT * EXCEPT (vantage, cdn) FROM watch_hourly WHERE vantage = 'hamburg'")

    def hour(
        n: int, purpose: str, answer: str, probes: int, domains: int, *values: float | None
    ) -> dict[str, Any]:
        names = [f"{name}_p{p}" for name in ("ack_us", "sh_us", "ack_to_sh_us") for p in (25, 50, 75)]
        about = {"hour": f"2026-11-20 0{n}:00:00", "purpose": purpose, "first_answer": answer}
        return about | {"probes": probes, "domains": domains} | dict(zip(names, values, strict=True))

    assert found == [
        hour(6, "owned", "iack", 1, 1, 70, 70, 70, 80, 80, 80, 10, 10, 10),
        hour(6, "watch", "coalesced", 2, 1, 525, 550, 575, 525, 550, 575, 0, 0, 0),
        # 990, 1080, 1170, 1260
        hour(6, "watch", "iack", 4, 2, 17.5, 25, 32.5, 1075, 1150, 1225, 1057.5, 1125, 1192.5),
        hour(6, "watch", "sh_first", 1, 1, None, None, None, 700, 700, 700, None, None, None),
        hour(7, "watch", "coalesced", 1, 1, 800, 800, 800, 800, 800, 800, 0, 0, 0),
    ]
    # The named query returns the view's rows for some days and names.
    with open_store() as store:
        given = {"vantage": "hamburg", "since": "2026-11-20", "until": "2026-11-20"}
        asked = query.rows(store, "watch_hourly", given)
        assert [{k: v for k, v in row.items() if k not in ("vantage", "cdn")} for row in asked] == found
        assert query.rows(store, "watch_hourly", {"purpose": "owned"}) == asked[:1]
        assert query.rows(store, "watch_hourly", {"since": "2026-11-21"}) == []
        assert query.rows(store, "watch_hourly", {"vantage": "nowhere"}) == []
        assert [row["probes"] for row in query.rows(store, "watch_hourly", {"domain": "1.example"})] == [2]


def test_who_answers_how(ask: Any) -> None:
    rows = [
        *(slot(n, "coalesced", 500, 500) for n in range(3)),
        slot(3, "iack", 400, 2400),
        slot(4, "timeout", None, None),
        slot(5, None, None, None, ip=None, asn=None, cdn=None, reason="no_address"),
        slot(6, "ack_only", 400, None, domain="b.example", purpose="owned"),
        slot(7, "iack", 1, 2, purpose="control"),
        slot(8, "iack", 100, 1100, vantage="hong_kong", repetition=2),
    ]
    ask(rows, "SELECT 1")
    columns = "domain purpose vantage cdn slots probed answered iack coalesced iack_share ack_only timeouts"
    with open_store() as store:
        together = query.rows(store, "watch_names")
        apart = query.rows(store, "watch_names", {"by_vantage": "true", "vantage": "hong_kong"})
    assert [[row[column] for column in columns.split()] for row in together] == [
        ["b.example", "owned", None, "Cloudflare", 1, 1, 0, 0, 0, None, 1, 0],
        ["a.example", "watch", None, "Cloudflare", 7, 6, 5, 2, 3, 0.4, 0, 1],
    ]
    assert [row["ack_to_sh_us_p50"] for row in together] == [None, 1500]
    assert [row["coalesced_share"] for row in together] == [None, 0.6]
    assert [(row["vantage"], row["slots"], row["iack_share"]) for row in apart] == [("hong_kong", 1, 1)]


def test_coverage_counts_what_was_planned(ask: Any) -> None:
    rows = [
        slot(0, "iack", 1, 2),
        slot(1, "timeout", None, None, late_us=300),
        slot(2, None, None, None),
        slot(3, None, None, None, reason="stopped", late_us=None),
        slot(70, None, None, None, purpose="control", reason="paused"),
    ]
    found = ask(rows, "SELECT * EXCEPT vantage FROM watch_coverage")
    assert found == [
        {"hour": "2026-11-20 06:00:00", "purpose": "watch", "slots": 4, "probed": 2, "skipped": 2}
        | {"reasons": ["late", "stopped"], "late_us_p99": pytest.approx(298)},
        {"hour": "2026-11-20 07:00:00", "purpose": "control", "slots": 1, "probed": 0, "skipped": 1}
        | {"reasons": ["paused"], "late_us_p99": None},
    ]
