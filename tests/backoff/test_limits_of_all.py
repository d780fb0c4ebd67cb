"""Connections at an edge from four vantage points that share its prefix's limit."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from socket import IPPROTO_UDP
from statistics import median

from lab.system.link_log import LinkLog
from tests.backoff.site import config, connections, rows, sets
from tests.end_to_end.site import VANTAGES, LabFolders

LIMIT = 5  # probes a second to a prefix, from all vantage points
SECOND_NS = 10**9


def prefix_of(ip: str) -> str:
    """Return the /24 of an IPv4 address."""
    return ip.rpartition(".")[0]


def names_of_one_prefix(site: LabFolders) -> list[str]:
    """Return the names in the /24 with the most names that send instant ACKs."""
    truth = site.lines("lab", "truth", "--format", "jsonl")
    names: dict[str, set[str]] = defaultdict(set)
    for line in truth:
        if line["outcome"] == "iack" and line["cdn"] == "Cloudflare" and ":" not in line["ip"]:
            names[prefix_of(line["ip"])].add(line["domain"])
    largest = max(names, key=lambda prefix: len(names[prefix]))
    return sorted(names[largest])


def test_a_prefix_never_gets_more_than_its_limit(site: LabFolders) -> None:
    names = names_of_one_prefix(site)
    assert len(names) > 10
    file = config(site, "limits", names, VANTAGES)
    options = sets(
        campaign__shared_limits=True,
        campaign__clock_slack_s=0.4,
        probe__per_prefix_rate=LIMIT,
        probe__per_address_rate=0,
        probe__families=[4],
        # A long timeout avoids second attempts, which would count.
        probe__timeout_s=60,
        handshake__enabled=False,
    )
    run = site.firstflight("campaign", "run", "--config", str(file), *options).splitlines()[-1]
    found = {vantage: rows(site, run, vantage) for vantage in VANTAGES}
    for of_one in found.values():
        assert {row["domain"] for row in of_one} == set(names)
        assert {(row["outcome"], row["attempts"]) for row in of_one} == {("iack", 1)}

    source = {of_one[0]["src_ip"]: vantage for vantage, of_one in found.items()}
    assert len(source) == len(VANTAGES)
    prefix = prefix_of(found["hamburg"][0]["ip"])
    probes = [row for of_one in found.values() for row in of_one if prefix_of(row["ip"]) == prefix]
    at_edge = [
        connection
        for connection in connections(site, site.lab / "captures" / "cloudflare.pcap")
        if connection["client_ip"] in source and prefix_of(connection["server_ip"]) == prefix
    ]
    assert len(at_edge) == len(probes)
    # The limit applies where probes are sent, so the test uses arrivals at the link, before the delays.
    log = LinkLog(site.lab / "lateness.csv")
    flows = [
        ((row["src_ip"], row["ip"], IPPROTO_UDP, row["src_port"], 443), row["sent_at"]) for row in probes
    ]
    times = sorted((log.first_since(flow, sent).arrived_ns, flow[0]) for flow, sent in flows)
    assert wrong_limit(times) == []
    assert "more" in wrong_limit([(at // 2, who) for at, who in times]), "twice the limit"
    assert wrong_limit([(at * 2, who) for at, who in times]) == ["unused"], "half the limit"


def wrong_limit(times: list[tuple[int, str]]) -> list[str]:
    """Return how arrivals, as (time in ns, source), break a limit that the sources use in turns.

    The limit applies to the times of the prober's decisions. A late kernel timestamp adds at most one probe
    to a second, and does not change the median.
    """
    most = max(sum(1 for at, _ in times if start <= at < start + SECOND_NS) for start, _ in times)
    gaps: dict[bool, list[int]] = {True: [], False: []}
    for (before, who), (after, other) in pairwise(times):
        gaps[who == other].append(after - before)
    # Each vantage point has the whole limit during its turn. Turns do not overlap.
    share = median(gaps[True]) * LIMIT / SECOND_NS
    wrong = {
        "more": most > LIMIT + 1 or share <= 0.95,
        "unused": share >= 1.5,
        "together": median(gaps[False]) <= SECOND_NS / LIMIT,
    }
    return [name for name, found in wrong.items() if found]
