"""The measured Table 1 equals the declared Table 1."""

from __future__ import annotations

import pytest

from tests.end_to_end.conftest import FinishedCampaign
from tests.paper import TABLE_1


def test_table1_is_as_declared(finished: FinishedCampaign) -> None:
    declared = {line["cdn"]: line for line in finished.site.lines("lab", "truth", "--table1")}
    measured = {row["cdn"]: row for row in finished.site.sql("SELECT * FROM table1")}
    assert set(measured) == set(declared) == set(TABLE_1)
    for cdn, row in measured.items():
        assert row["domains"] == declared[cdn]["domains"], cdn
        assert row["iack_share_max"] == pytest.approx(declared[cdn]["iack_share_max"], abs=1e-6), cdn
        assert row["variation"] == pytest.approx(declared[cdn]["variation"], abs=1e-6), cdn


def test_shares_are_the_papers_to_the_nearest_name(finished: FinishedCampaign) -> None:
    for row in finished.site.sql("SELECT cdn, domains, iack_share_max FROM table1"):
        half_a_name = 0.5 / row["domains"]
        assert abs(row["iack_share_max"] - TABLE_1[row["cdn"]] / 100) <= half_a_name + 1e-9, row


def test_one_cdn_varies_between_repetitions(finished: FinishedCampaign) -> None:
    shares = finished.site.sql(
        "SELECT cdn, uniqExact(iack_share) AS kinds FROM iack_by_cdn "
        f"WHERE run = '{finished.run}' GROUP BY cdn HAVING kinds > 1"
    )
    assert [row["cdn"] for row in shares] == ["Amazon"]


def test_report_prints_measured_and_declared_values(finished: FinishedCampaign) -> None:
    truth = finished.site.folder / "table1_truth.jsonl"
    truth.write_text(finished.site.firstflight("lab", "truth", "--table1"), encoding="utf-8")
    printed = finished.site.firstflight("report", "table1", "--run", finished.run, "--truth", str(truth))
    for cdn in TABLE_1:
        assert cdn in printed


def test_trace_shows_the_packets_of_a_row(finished: FinishedCampaign) -> None:
    row = next(r for r in finished.rows if r["outcome"] == "iack" and r["cdn"] == "Cloudflare")
    place = (finished.run, row["vantage"], row["domain"], row["ip"])
    printed = finished.site.firstflight("trace", *place, "--repetition", str(row["repetition"]))
    assert f"ack_us {row['ack_us']}, sh_us {row['sh_us']}" in printed
    packets = [line.split() for line in printed.splitlines() if "->" in line or "<-" in line]
    assert packets[0][1:3] == ["->", "initial"]
    assert packets[0][0] == "0.0"
    first_answer = next(packet for packet in packets if packet[1] == "<-")
    assert "ack" in first_answer
    assert "crypto" not in first_answer
    # Times are from the capture's timestamps, in us with one decimal.
    probe = finished.at_vantage[row["src_ip"], row["src_port"], row["ip"], row["client_cid"]]
    assert probe.ack_ns is not None
    assert float(first_answer[0]) == pytest.approx((probe.ack_ns - probe.sent_ns) / 1000, abs=0.1)
