"""One campaign of crawl, option survey and downloads: every row equals `lab truth --downloads`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import pytest

from tests.end_to_end.site import ROOT, LabFolders, raised, without_behaviour

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


@dataclass(frozen=True)
class FinishedDownloads:
    """A finished campaign: each kind's records, and each name's truth."""

    site: LabFolders
    run: str
    truth: dict[str, dict[str, Any]]

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """Return all rows of a kind of record."""
        return self.site.sql(f"SELECT * FROM {kind} WHERE run = '{self.run}'")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedDownloads]:
    with raised(tmp_path_factory.mktemp("downloads")) as site:
        truth = {line["domain"]: line for line in site.lines("lab", "truth", "--downloads")}
        (site.folder / "downloads.txt").write_text((ROOT / "lab" / "downloads.txt").read_text())
        config = site.folder / "downloads.toml"
        settings = (ROOT / "lab" / "downloads.toml").read_text(encoding="utf-8")
        config.write_text(settings.replace("../var/lab", str(site.lab)), encoding="utf-8")
        with without_behaviour(site) as blind:
            printed = blind.firstflight("campaign", "run", "--config", str(config), timeout=500)
        yield FinishedDownloads(site, printed.splitlines()[-1], truth)


def differences(row: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    """Return the columns in a row that differ from the truth: name -> (row's, truth's)."""
    return {name: (row[name], wanted) for name, wanted in truth.items() if row[name] != wanted}


def test_the_crawl_finds_what_the_truth_says(done: FinishedDownloads) -> None:
    rows = done.rows("download_file")
    assert sorted(row["domain"] for row in rows) == sorted(done.truth)
    assert {
        row["domain"]: found
        for row in rows
        if (found := differences(row, done.truth[row["domain"]]["download_file"]))
    } == {}


def test_the_survey_finds_the_options_of_each_host(done: FinishedDownloads) -> None:
    rows = done.rows("tcp_option")
    assert sorted((row["vantage"], row["domain"]) for row in rows) == sorted(
        (vantage, domain) for vantage in VANTAGES for domain in done.truth
    )
    wanted = {
        domain: {"ip": line["ip"], "asn": line["asn"], "cdn": line["cdn"], **line["tcp_option"]}
        for domain, line in done.truth.items()
    }
    assert {
        (row["vantage"], row["domain"]): found
        for row in rows
        if (found := differences(row, wanted[row["domain"]]))
    } == {}
    # Each option is missing in some rows; otherwise, the comparison above could not fail.
    for option in ("window_scaling", "sack", "timestamps", "ecn"):
        assert {row[option] for row in rows} == {True, False}


def test_each_planned_download_is_one_row_as_the_truth_says(done: FinishedDownloads) -> None:
    rows = done.rows("download")
    assert sorted((row["vantage"], row["domain"], row["set"]) for row in rows) == sorted(
        (vantage, domain, name) for vantage in VANTAGES for domain in done.truth for name in SETS
    )
    wrong = {}
    for row in rows:
        line = done.truth[row["domain"]]
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


def test_table1_counts_the_names_of_the_truth(done: FinishedDownloads) -> None:
    rows = done.site.firstflight("report", "downloads", "--run", done.run)
    line = next(line.split() for line in rows.splitlines() if line.startswith("hamburg "))
    successful = [
        truth["cdn"] or "Others"
        for truth in done.truth.values()
        if any(
            download["outcome"] in COMPARED
            for name, download in truth["download"].items()
            if name not in ("warmup", "quiche")
        )
    ]
    groups = ("Akamai", "Amazon", "Cloudflare", "Google", "Microsoft", "Others")
    announced = [truth for truth in successful if truth in groups]
    assert [int(cell) for cell in line[2:]] == [len(announced), *map(announced.count, groups)]


def test_table2_says_what_the_rows_say(done: FinishedDownloads) -> None:
    by_run: dict[tuple[str, str, int], dict[str, dict[str, Any]]] = {}
    for row in done.rows("download"):
        if row["outcome"] in COMPARED:
            by_run.setdefault((row["vantage"], row["domain"], row["repetition"]), {})[row["set"]] = row
    shown = {
        (row["set"], row["versus"]): row
        for row in done.site.sql(f"SELECT * FROM anrw_table2 WHERE run = '{done.run}'")
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
