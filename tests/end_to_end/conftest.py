"""Labs and campaigns for all end-to-end tests, which check the same runs in different ways."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from lab.system.link_log import LinkLog
from tests.end_to_end import oracle
from tests.end_to_end.site import ROOT, VANTAGES, LabFolders, raised, without_behaviour

REPETITIONS = 2
PROBE_COLUMNS = (
    "vantage, repetition, domain, ip, port, outcome, asn, cdn, attempts, src_ip, src_port, client_cid, "
    "ack_us, sh_us, ack_to_sh_us, sh_to_handshake_us, address_rank, retried, hello_retry, discarded, "
    "after_close, amplification, gap_before_sh, since_last_probe_s, list_id, resolver, tool_version, "
    "ruleset, capture_file, source_file, toUnixTimestamp64Nano(sent_at) AS sent_ns"
)


@dataclass(eq=False)
class FinishedCampaign:
    """A finished campaign with all records."""

    site: LabFolders
    run: str

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Return all rows of quic_probe."""
        return self.site.sql(f"SELECT {PROBE_COLUMNS} FROM quic_probe WHERE run = '{self.run}'")

    @cached_property
    def truth(self) -> dict[tuple[str, str, str], dict[str, Any]]:
        """Return lines of `lab truth` by (vantage, domain, ip); omit names without address."""
        lines = self.site.lines("lab", "truth", "--format", "jsonl")
        return {(t["vantage"], t["domain"], t["ip"]): t for t in lines if t["ip"] is not None}

    @cached_property
    def at_vantage(self) -> dict[oracle.Key, oracle.Reading]:
        """Return tshark's readings of the captures at the vantage points."""
        folder = self.site.folder / "runs" / self.run
        found: dict[oracle.Key, oracle.Reading] = {}
        for vantage in VANTAGES:
            for repetition in range(1, REPETITIONS + 1):
                found |= oracle.read(folder / vantage / str(repetition) / "capture" / "probe.pcap")
        return found

    @cached_property
    def at_edges(self) -> dict[oracle.Key, oracle.Reading]:
        """Return tshark's readings of the captures at the edges' interfaces."""
        found: dict[oracle.Key, oracle.Reading] = {}
        for capture in sorted((self.site.lab / "captures").glob("*.pcap")):
            found |= oracle.read(capture)
        return found

    @cached_property
    def link_log(self) -> LinkLog:
        """Return the link emulator's log of the campaign."""
        return LinkLog(self.site.lab / "lateness.csv")


@dataclass(frozen=True)
class FinishedDownloads:
    """A finished campaign with downloads: each kind's records, and each name's truth."""

    site: LabFolders
    run: str
    truth: dict[str, dict[str, Any]]

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """Return all rows of a kind of record."""
        return self.site.sql(f"SELECT * FROM {kind} WHERE run = '{self.run}'")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabFolders]:
    """A separate lab, with captures at the edges, removed at the end."""
    for program in ("tshark", "tcpdump", "named", "nginx", "bird"):
        assert shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin"), (
            f"{program} is missing: make setup"
        )
    with raised(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture(scope="session")
def finished(site: LabFolders) -> FinishedCampaign:
    """Run the whole campaign in the lab with programs that have no access to the behaviour file."""
    with without_behaviour(site) as blind:
        printed = blind.firstflight(
            "campaign", "run", "--config", str(blind.config()), "--repetitions", str(REPETITIONS)
        )
    return FinishedCampaign(site, printed.splitlines()[-1])


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> FinishedDownloads:
    """Run a campaign with crawl, option survey and downloads in a lab, and remove the lab."""
    with raised(tmp_path_factory.mktemp("downloads")) as site:
        truth = {line["domain"]: line for line in site.lines("lab", "truth", "--downloads")}
        (site.folder / "downloads.txt").write_text((ROOT / "lab" / "downloads.txt").read_text())
        config = site.folder / "downloads.toml"
        settings = (ROOT / "lab" / "downloads.toml").read_text(encoding="utf-8")
        config.write_text(settings.replace("../var/lab", str(site.lab)), encoding="utf-8")
        with without_behaviour(site) as blind:
            printed = blind.firstflight("campaign", "run", "--config", str(config), timeout=500)
    return FinishedDownloads(site, printed.splitlines()[-1], truth)
