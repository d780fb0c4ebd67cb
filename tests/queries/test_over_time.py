"""The queries of the dashboard's panels, on the rows of conftest.py; results computed by hand."""

from __future__ import annotations

import pytest

from reports import panel, query
from store import Store
from tests.queries.conftest import RUN_1, RUN_2
from tests.queries.interfaces.test_named import near, table


def test_each_panel_runs_and_has_its_columns(known: Store) -> None:
    filters = {"domain": "a.example", "since": "2026-11-01", "until": "2026-11-30"}
    assert panel.names()
    for described in map(panel.load, panel.names()):
        text = query.load(described.query).rendered(described.given(filters), known.dialect)
        found = [row["name"] for row in known.rows(f"DESCRIBE ({text})")]
        assert found == list(query.load(described.query).columns), described.query
        rows = known.rows(text)
        assert all({described.x, *described.y} <= row.keys() for row in rows)


def test_shares_over_time(known: Store) -> None:
    columns = "period cdn vantage runs probes counted instant iack_share answered iack strict_share"
    assert table(known, "share_over_time", columns, step="month", cdn="Cloudflare") == [
        ["2026-11-01", "Cloudflare", None, 2, 9, 8, 5, near(0.625), 8, 5, near(0.625)],
    ]
    # Both days are Fridays: their weeks begin on Mondays.
    columns = "period vantage counted instant"
    assert table(known, "share_over_time", columns, step="week", cdn="Cloudflare", by_vantage="true") == [
        ["2026-11-16", "hamburg", 5, 2],
        ["2026-11-16", "hong_kong", 1, 1],
        ["2026-11-23", "hamburg", 2, 2],
    ]


def test_shares_of_the_first_names_of_a_list_are_of_their_probes(known: Store) -> None:
    """Only probes have a rank; the roll-up has no ranks."""
    columns = "period cdn counted instant"
    every = table(known, "share_over_time", columns)
    assert table(known, "share_over_time", columns, top="4000000000") == [
        row for row in every if row[2] or row[1] == "Amazon"
    ]
    assert table(known, "share_over_time", columns, top="0") == every


def test_changes_are_from_the_day_and_the_week_before(known: Store) -> None:
    columns = (
        "cdn newest_day counted iack_share counted_day_before change_day counted_week_before "
        "share_week_before change_week"
    )
    assert table(known, "share_changes", columns) == [
        ["Amazon", "2026-11-27", 0, None, 0, None, 0, None, None],
        ["Cloudflare", "2026-11-27", 2, 1, 0, None, 6, 0.5, 0.5],
        # The week before has a value, but the newest day has no value, so the change is unknown.
        ["Google", "2026-11-27", 0, None, 0, None, 1, 1, None],
        ["Others", "2026-11-27", 0, None, 0, None, 2, 1, None],
    ]


def test_coverage_counts_probes_without_origin(known: Store) -> None:
    columns = "period vantage runs repetitions probes sent answered timeout blocked answered_share"
    assert table(known, "coverage_over_time", columns, until="2026-11-20") == [
        ["2026-11-20", "hamburg", 1, 2, 12, 11, 9, 1, 1, near(9 / 11)],
        ["2026-11-20", "hong_kong", 1, 1, 1, 1, 1, 0, 0, 1],
    ]


def test_delay_bands_are_near_the_exact_quantiles(known: Store) -> None:
    (row,) = table(known, "delay_bands", "probes p25_us p50_us p75_us", cdn="Cloudflare", step="month")
    assert row[0] == 5
    # Exact: 3200, 4200, 5200; a sketch of five values picks neighbours within 0.5 %.
    assert 3_184 <= row[1] <= 4_221 and 4_179 <= row[2] <= 5_226 and 5_174 <= row[3] <= 40_200
    assert table(known, "delay_bands", "probes", cdn="Amazon") == []


def test_outcomes_and_amplification(known: Store) -> None:
    columns = "period outcome probes all_probes share"
    assert table(known, "outcomes_over_time", columns, cdn="Amazon") == [
        ["2026-11-20", "closed", 1, 1, 1],
    ]
    assert sum(row[2] for row in table(known, "outcomes_over_time", columns, until="2026-11-20")) == 13
    found = table(known, "amplification_over_time", "above_3 above_3_share", vantage="hong_kong")
    assert found == [[0, 0]]  # 3,756 bytes are exactly three times 1,252


def test_a_name_and_its_addresses(known: Store) -> None:
    columns = "period vantage probes iack ack_to_sh_us_p50"
    assert table(known, "name_history", columns, domain="a.example") == [
        ["2026-11-20", "hamburg", 2, 2, 3_700],
        ["2026-11-20", "hong_kong", 1, 1, 40_000],
        ["2026-11-27", "hamburg", 1, 1, 5_200],
    ]
    columns = "address vantage newest_cdn probes iack other_answers without_answer newest_outcome"
    found = table(known, "name_addresses", columns, domain="g.example")
    assert [row[1:] for row in found] == [
        ["hamburg", "Cloudflare", 1, 0, 1, 0, "coalesced"],
        ["hamburg", "Cloudflare", 1, 1, 0, 0, "iack"],
    ]
    assert table(known, "name_addresses", columns, domain="nosuch.example") == []


def test_runs_of_a_vantage_point(known: Store) -> None:
    columns = "run repetition first_sent last_sent probes sent answered timeout blocked paused"
    first, last = "2026-11-20 06:00:00", "2026-11-20 06:00:05"
    assert table(known, "vantage_runs", columns, vantage="hamburg") == [
        [RUN_2, 1, "2026-11-27 06:00:00", "2026-11-27 06:00:00", 2, 2, 2, 0, 0, 0],
        [RUN_1, 2, first, first, 2, 2, 2, 0, 0, 0],
        [RUN_1, 1, first, last, 11, 10, 8, 1, 1, 0],
    ]
    assert len(table(known, "vantage_runs", columns, vantage="hamburg", runs="1")) == 1


def test_names_and_the_newest_load(known: Store) -> None:
    assert table(known, "known_names", "kind name first_day last_day") == [
        ["cdn", "Amazon", "2026-11-20", "2026-11-20"],
        ["cdn", "Cloudflare", "2026-11-20", "2026-11-27"],
        ["cdn", "Google", "2026-11-20", "2026-11-20"],
        ["cdn", "Others", "2026-11-20", "2026-11-20"],
        ["vantage", "hamburg", "2026-11-20", "2026-11-27"],
        ["vantage", "hong_kong", "2026-11-20", "2026-11-20"],
    ]
    ((probes, planned, until_ms),) = table(known, "newest_load", "probes planned_probes data_until_ms")
    assert (probes, planned) == (16, 0)
    assert until_ms // 1000 == 1_795_154_400 + 7 * 86_400
    spans = [
        f"{kind}_{end}_ms" for kind in ("watch", "downloads", "handshakes") for end in ("since", "until")
    ]
    assert table(known, "newest_load", " ".join(spans)) == [[None] * 6]


def test_a_run_in_a_row_and_its_table_1(known: Store) -> None:
    columns = "run vantages repetitions first_day names probes counted instant iack_share delays delay_p50_us"
    assert table(known, "run_summary", columns) == [
        [RUN_2, 1, 1, "2026-11-27", 2, 2, 2, 2, 1, 2, pytest.approx(3000, rel=0.005)],
    ]
    # The median of 1,000, 3,200 twice, 4,200 and 40,000.
    assert table(known, "run_summary", columns, run=RUN_1) == [
        [RUN_1, 2, 2, "2026-11-20", 10, 13, 10, 7, near(0.7), 5, pytest.approx(3200, rel=0.005)],
    ]
    # Cloudflare's shares are 1/3, 1/2 and, at another vantage point, 1/1; Amazon closed.
    assert table(known, "table1", "run cdn names iack_share_max variation counted instant", run="") == [
        [RUN_2, "Cloudflare", 2, 1, 0, 2, 2],
        [RUN_1, "Amazon", 0, None, None, 0, 0],
        [RUN_1, "Cloudflare", 3, 1, near(2 / 3), 1, 1],
        [RUN_1, "Google", 1, 1, 0, 1, 1],
        [RUN_1, "Others", 2, 1, 0, 2, 2],
    ]
