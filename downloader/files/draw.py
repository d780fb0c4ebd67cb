"""Samples the files in a run's downloads: a fixed number of names per CDN, by the run's seed.

A hash of seed and name selects a name, so all repetitions and vantage points select the same names. If a CDN
has too few names, all are selected, and no other group makes up for the rest.

With a survey, the draw is as in the ANRW 2023 paper (sections 4.1 and 6.2): two target sets of names that
accept all three TCP options. The vantage point's survey in the same repetition decides, so two vantage points
or repetitions can have different targets.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from downloader.files import targets
from downloader.files.survey import Survey
from downloader.files.targets import RejectedLine, Target
from downloader.option_sets import BOTH, QUIC, TCP
from firstflight.as_map import OTHERS
from firstflight.errors import InputError
from firstflight.sampling import number

FOUND = "found"
GROUPS = ("Akamai", "Amazon", "Cloudflare", "Google", "Microsoft")
"""The CDNs that are groups of the paper. In a survey's draw, names of all other CDNs belong to `Others`."""
# Line 1 in a target list is its header.
_FIRST_LINE = 2


def of_crawl(path: Path, dns_answer: Path) -> tuple[list[Target], list[RejectedLine]]:
    """Return the files that a crawl found (download_file.parquet), and the rows that are not valid targets.

    A target's address is the name's first IPv4 address in `dns_answer`, as the vantage point itself resolved
    it: a CDN directs each location to a nearby edge. Raise InputError if a file does not exist.
    """
    if not path.is_file():
        raise InputError(f"there is no {path}: run the crawl stage first, or name a list in download.targets")
    addresses = _addresses(dns_answer)
    columns = ["domain", "url", "outcome"]
    found: list[Target] = []
    rejected: list[RejectedLine] = []
    for line, row in enumerate(pq.read_table(path, columns=columns).to_pylist(), start=_FIRST_LINE):
        if row["outcome"] == FOUND:
            domain = row["domain"]
            try:
                found.append(targets.of(line, row["url"], addresses.get(domain, ""), domain))
            except ValueError as error:
                rejected.append(RejectedLine(line, str(error)))
    return found, rejected


def _addresses(path: Path) -> dict[str, str]:
    """Return the first IPv4 address of each name in the resolve stage's record file."""
    if not path.is_file():
        raise InputError(f"there is no {path}: run the resolve stage first")
    rows = pq.read_table(
        path,
        columns=["domain", "address"],
        filters=[("qtype", "=", "A"), ("status", "=", "NOERROR"), ("answer_rank", "=", 0)],
    )
    pairs = zip(rows["domain"].to_pylist(), rows["address"].to_pylist(), strict=True)
    return {domain: address for domain, address in pairs if address is not None}


def of_list(path: Path) -> tuple[list[Target], list[RejectedLine]]:
    """Return the targets and the rejected lines in a list (targets.read)."""
    found: list[Target] = []
    rejected: list[RejectedLine] = []
    for entry in targets.read(path):
        if isinstance(entry, RejectedLine):
            rejected.append(entry)
        else:
            found.append(entry)
    return found, rejected


def sampled_targets(
    found: Iterable[Target],
    cdn_of: Callable[[str], str | None],
    seed: int,
    per_cdn: int | None,
    others: int | None,
) -> tuple[list[Target], Counter[str]]:
    """Return the sampled targets in the order of the list, and the number of targets in each group.

    `cdn_of` returns an address's CDN; addresses without a CDN belong to the group `Others`. `per_cdn`
    and `others` limit the sample of each CDN and of `Others`; `None`: no limit.
    """
    groups: dict[str, list[Target]] = defaultdict(list)
    for target in found:
        groups[(cdn_of(target.ip) if target.ip else None) or OTHERS].append(target)
    chosen: list[Target] = []
    for cdn, members in groups.items():
        limit = others if cdn == OTHERS else per_cdn
        members.sort(key=lambda target: number(seed, target.domain))
        chosen += members[:limit]
    return sorted(chosen, key=lambda target: target.line), Counter(
        {cdn: len(members) for cdn, members in groups.items()}
    )


def of_survey(
    found: Iterable[Target],
    survey: Survey,
    cdn_of: Callable[[str], str | None],
    seed: int,
    per_cdn: int | None,
    others: int | None,
    quic: int | None,
) -> tuple[list[Target], Counter[str]]:
    """Return the targets of both target sets in the order of the list, and the number in each group.

    The TCP target set has the `sampled_targets` of the names that accept all options, in the paper's groups.
    The QUIC target set has up to `quic` of these names that speak HTTP/3; `None`: no limit. First it has the
    names that are in the TCP target set. These are in both.
    """
    supporting = [target for target in found if survey.supports_options(target)]

    def group(ip: str) -> str | None:
        cdn = cdn_of(ip)
        return cdn if cdn in GROUPS else None

    of_tcp, groups = sampled_targets(supporting, group, seed, per_cdn, others)
    lines_of_tcp = {target.line for target in of_tcp}
    capable = [target for target in supporting if survey.speaks_http3(target)]
    capable.sort(key=lambda target: (target.line not in lines_of_tcp, number(seed, target.domain)))
    lines_of_quic = {target.line for target in capable[:quic]}
    chosen = []
    for target in supporting:
        in_tcp, in_quic = target.line in lines_of_tcp, target.line in lines_of_quic
        if in_tcp or in_quic:
            chosen.append(
                replace(target, target_set=BOTH if in_tcp and in_quic else QUIC if in_quic else TCP)
            )
    return sorted(chosen, key=lambda target: target.line), groups
