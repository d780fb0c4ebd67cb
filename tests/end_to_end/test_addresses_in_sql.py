"""The store's AS data for an address, from the run's tables, equals the AS data in the run's probe rows."""

from __future__ import annotations

from tests.end_to_end.conftest import FinishedCampaign


def test_sql_gives_every_probe_its_origin(finished: FinishedCampaign) -> None:
    wrong = finished.site.sql(
        "SELECT ip, asn, cdn, address_info(ip, sent_at) AS found FROM quic_probe "
        f"WHERE run = '{finished.run}' AND sent_at IS NOT NULL "
        "AND NOT (isNotDistinctFrom(asn, found.asn) AND isNotDistinctFrom(toString(cdn), found.cdn))"
    )
    assert wrong == []
    named = finished.site.sql(
        "SELECT DISTINCT cdn, address_organisation(ip, sent_at) AS organisation FROM quic_probe "
        f"WHERE run = '{finished.run}' AND sent_at IS NOT NULL AND cdn IS NOT NULL ORDER BY cdn"
    )
    assert [row["organisation"] for row in named] == [f"Lab {row['cdn']}" for row in named]
    assert len(named) >= 7


def test_the_list_of_the_run_joins_with_its_answers(finished: FinishedCampaign) -> None:
    lines = finished.site.lines(
        "query",
        "list_share",
        "--param",
        f"run={finished.run}",
        "--param",
        "tops=1000,1000000",
        "--format",
        "JSONEachRow",
    )
    found = {(row["measure"], row["top"]): row for row in lines}
    # Here, Tranco and CrUX have the same names. A tenth of the names are in CrUX's first thousand.
    assert found["rank", 1_000_000]["names_listed"] == found["bucket", 1_000_000]["names_listed"]
    assert found["rank", 1_000_000]["counted"] == found["bucket", 1_000_000]["counted"] > 0
    tenth = found["bucket", 1_000_000]["names_listed"] / 10
    assert tenth <= found["bucket", 1_000]["names_listed"] < tenth + 1
