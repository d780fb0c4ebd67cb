"""Every row of the campaign matches the lab's declared behaviour."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median

from firstflight.run import accounting
from tests.end_to_end.conftest import REPETITIONS, FinishedCampaign
from tests.end_to_end.site import COPIED, VANTAGES


def test_every_row_is_as_declared(finished: FinishedCampaign) -> None:
    wrong = []
    for row in finished.rows:
        expected = finished.truth[row["vantage"], row["domain"], row["ip"]]
        wrong += [
            (
                row["vantage"],
                row["repetition"],
                row["domain"],
                row["ip"],
                column,
                row[column],
                expected[column],
            )
            for column in ("outcome", "asn", "cdn")
            if row[column] != expected[column]
        ]
    assert not wrong


def test_every_name_is_probed_once_per_vantage_and_repetition(finished: FinishedCampaign) -> None:
    probes = Counter((r["vantage"], r["repetition"], r["domain"], r["ip"]) for r in finished.rows)
    assert max(probes.values()) == 1
    probed = defaultdict(set)
    for vantage, repetition, domain, ip in probes:
        probed[vantage, repetition, ":" in ip].add(domain)
    with_address = defaultdict(set)
    for _, domain, ip in finished.truth:
        with_address[":" in ip].add(domain)
    for vantage in VANTAGES:
        for repetition in range(1, REPETITIONS + 1):
            for v6 in (False, True):
                assert probed[vantage, repetition, v6] == with_address[v6]


def test_all_outcomes_occur(finished: FinishedCampaign) -> None:
    outcomes = {row["outcome"] for row in finished.rows}
    # send_failed does not occur on a healthy machine; tests/prober provokes it.
    assert outcomes == {*accounting.SENT, *accounting.NOT_SENT} - {"send_failed"}


def test_names_without_address_have_a_dns_row(finished: FinishedCampaign) -> None:
    expected = {
        t["domain"]: t["dns_status"]
        for t in finished.site.lines("lab", "truth", "--format", "jsonl")
        if t["ip"] is None
    }
    assert set(expected.values()) == {"NOERROR", "NXDOMAIN", "SERVFAIL"}
    found = finished.site.sql(
        "SELECT domain, vantage, repetition, groupUniqArray(status) AS kinds "
        f"FROM dns_answer WHERE run = '{finished.run}' AND qtype = 'A' GROUP BY domain, vantage, repetition"
    )
    statuses = defaultdict(set)
    for row in found:
        statuses[row["domain"]].update(row["kinds"])
    for domain, status in expected.items():
        # NODATA is an answer without records of this type; its response code is also NOERROR.
        assert statuses[domain] <= {status, "NODATA"} and statuses[domain], domain
        if status != "NOERROR":
            assert statuses[domain] == {status}, domain


def test_the_median_of_each_cdn_is_the_declared_one(finished: FinishedCampaign) -> None:
    measured: dict[str, list[int]] = defaultdict(list)
    declared: dict[str, list[int]] = defaultdict(list)
    for row in finished.rows:
        expected = finished.truth[row["vantage"], row["domain"], row["ip"]]
        if row["outcome"] == "iack" and row["attempts"] == 1 and row["cdn"] and expected["ack_to_sh_us"]:
            measured[row["cdn"]].append(row["ack_to_sh_us"])
            declared[row["cdn"]].append(expected["ack_to_sh_us"])
    for cdn, values in measured.items():
        assert is_declared(cdn, values, declared[cdn]), cdn
        for fault_us in (1000, -1000):
            assert not is_declared(cdn, [value + fault_us for value in values], declared[cdn]), cdn


PAPER_US = {"Cloudflare": 3200, "Amazon": 6400, "Akamai": 20_900, "Google": 30_300}


def is_declared(cdn: str, values: list[int], declared: list[int]) -> bool:
    """Return whether the median equals the declared median, and the paper's median where known."""
    wanted = [median(declared), *(PAPER_US[cdn] for _ in range(cdn in PAPER_US))]
    return all(abs(median(values) - expected_us) <= 500 for expected_us in wanted)


def test_provenance_is_in_every_row(finished: FinishedCampaign) -> None:
    sources = {
        "hamburg": ("198.18.0.11", "2001:db8:0:11::1"),
        "los_angeles": ("198.18.0.12", "2001:db8:0:12::1"),
        "sao_paulo": ("198.18.0.13", "2001:db8:0:13::1"),
        "hong_kong": ("198.18.0.14", "2001:db8:0:14::1"),
    }
    for row in finished.rows:
        for column in ("list_id", "resolver", "tool_version", "ruleset", "source_file"):
            assert row[column], (column, row)
        assert row["tool_version"].endswith(f"+{COPIED}"), "another program wrote the row"
        if row["outcome"] == "blocked":
            sent = (row["sent_ns"], row["src_ip"], row["capture_file"], row["attempts"])
            assert sent == (None, None, None, 0)
        else:
            assert row["capture_file"]
            assert row["src_ip"] in sources[row["vantage"]]
        assert (row["since_last_probe_s"] is None) == (
            row["outcome"] == "blocked" or first_in_run(finished, row)
        )


def first_in_run(finished: FinishedCampaign, row: dict[str, object]) -> bool:
    """Return whether no earlier repetition of this vantage point probed the same name and address."""
    return not any(
        r["repetition"] < row["repetition"]
        and (r["vantage"], r["domain"], r["ip"]) == (row["vantage"], row["domain"], row["ip"])
        for r in finished.rows
        if r["domain"] == row["domain"]
    )
