"""One campaign of crawl, option survey and downloads: every row equals `lab truth --downloads`."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from tests.end_to_end.conftest import FinishedDownloads

VANTAGES = ("hamburg", "los_angeles")
SETS = ("warmup", "bl", "ws14", "all14", "quiche")
COMPARED = ("done", "stopped_limit")
# Lower bounds of the half-open bins of anrw_table2.
BINS = {
    "below_05": 0.0,
    "from_05": 0.5,
    "from_06": 0.6,
    "from_07": 0.7,
    "from_08": 0.8,
    "from_09": 0.9,
    "from_10": 1.0,
    "from_11": 1.1,
    "from_12": 1.2,
    "from_13": 1.3,
    "from_15": 1.5,
    "from_20": 2.0,
}


def differences(row: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    """Return the columns in a row that differ from the truth: name -> (row's, truth's)."""
    return {name: (row[name], wanted) for name, wanted in truth.items() if row[name] != wanted}


def test_the_crawl_finds_what_the_truth_says(downloads: FinishedDownloads) -> None:
    rows = downloads.rows("download_file")
    assert sorted(row["domain"] for row in rows) == sorted(downloads.truth)
    assert {
        row["domain"]: found
        for row in rows
        if (found := differences(row, downloads.truth[row["domain"]]["download_file"]))
    } == {}


def test_the_survey_finds_the_options_of_each_host(downloads: FinishedDownloads) -> None:
    rows = downloads.rows("tcp_option")
    assert sorted((row["vantage"], row["domain"]) for row in rows) == sorted(
        (vantage, domain) for vantage in VANTAGES for domain in downloads.truth
    )
    wanted = {
        domain: {"ip": line["ip"], "asn": line["asn"], "cdn": line["cdn"], **line["tcp_option"]}
        for domain, line in downloads.truth.items()
    }
    assert {
        (row["vantage"], row["domain"]): found
        for row in rows
        if (found := differences(row, wanted[row["domain"]]))
    } == {}
    # Each option is missing in some rows; otherwise, the comparison above could not fail.
    for option in ("window_scaling", "sack", "timestamps", "ecn"):
        assert {row[option] for row in rows} == {True, False}


def test_each_planned_download_is_one_row_as_the_truth_says(downloads: FinishedDownloads) -> None:
    rows = downloads.rows("download")
    assert sorted((row["vantage"], row["domain"], row["set"]) for row in rows) == sorted(
        (vantage, domain, name) for vantage in VANTAGES for domain in downloads.truth for name in SETS
    )
    wrong = {}
    for row in rows:
        line = downloads.truth[row["domain"]]
        wanted = {"ip": line["ip"], "asn": line["asn"], "cdn": line["cdn"], **line["download"][row["set"]]}
        if found := differences(row, wanted):
            wrong[row["vantage"], row["domain"], row["set"]] = found
    assert wrong == {}
    for row in rows:
        if row["outcome"] in COMPARED:
            assert row["download_throughput_bps"] > 0
            # The window scale of the SYN-ACK is null if one side does not offer it.
            scaled = row["set"] in ("ws14", "all14") and row["domain"] != "no-scaling.mirrors.test"
            assert (row["wscale_server"] is not None) == scaled


def test_table1_counts_the_names_of_the_truth(downloads: FinishedDownloads) -> None:
    rows = downloads.site.firstflight("report", "downloads", "--run", downloads.run)
    line = next(line.split() for line in rows.splitlines() if line.startswith("hamburg "))
    successful = [
        truth["cdn"] or "Others"
        for truth in downloads.truth.values()
        if any(
            download["outcome"] in COMPARED
            for name, download in truth["download"].items()
            if name not in ("warmup", "quiche")
        )
    ]
    groups = ("Akamai", "Amazon", "Cloudflare", "Google", "Microsoft", "Others")
    announced = [truth for truth in successful if truth in groups]
    assert [int(cell) for cell in line[2:]] == [len(announced), *map(announced.count, groups)]


def test_table2_says_what_the_rows_say(downloads: FinishedDownloads) -> None:
    by_run: dict[tuple[str, str, int], dict[str, dict[str, Any]]] = {}
    for row in downloads.rows("download"):
        if row["outcome"] in COMPARED:
            by_run.setdefault((row["vantage"], row["domain"], row["repetition"]), {})[row["set"]] = row
    shown = {
        (row["set"], row["versus"]): row
        for row in downloads.site.sql(f"SELECT * FROM anrw_table2 WHERE run = '{downloads.run}'")
    }
    assert set(shown) == set(permutations(SETS, 2))
    counted = 0
    for (name, versus), row in shown.items():
        both = [(sets[name], sets[versus]) for sets in by_run.values() if name in sets and versus in sets]
        pairs = [
            (download, other_download)
            for download, other_download in both
            if download["body_bytes"] == other_download["body_bytes"]
        ]
        ratios = [
            download["anrw_throughput_bps"] / other_download["anrw_throughput_bps"]
            for download, other_download in pairs
            if not (download["client_limited"] or other_download["client_limited"])
        ]
        assert (row["pairs"], row["limited"]) == (len(ratios), len(pairs) - len(ratios))
        if not ratios:
            assert row["faster"] is None
            continue
        counted += len(ratios)
        assert row["faster"] == pytest.approx(sum(ratio > 1 for ratio in ratios) / len(ratios))
        bins = dict.fromkeys(BINS, 0)
        for ratio in ratios:
            bins[max((bound, column) for column, bound in BINS.items() if bound <= ratio)[1]] += 1
        shares = {column: count / len(ratios) for column, count in bins.items()}
        assert {column: row[column] for column in BINS} == pytest.approx(shares)
    assert counted > 0
