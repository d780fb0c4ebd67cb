"""Three shards at a vantage point in the lab, as its edge and the link observe them. One shard is killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from firstflight.run.run import Run
from firstflight.shard import Shard, all_of
from lab.system.link_log import LinkLog
from tests.backoff.site import CLOUDFLARE, config, connections, left_ns, names_of, sets, start_campaign
from tests.campaign_loopback.stopping import halted_with
from tests.end_to_end.site import LabFolders
from tests.engines import record_rows
from tests.engines.segments import rows_of
from tests.engines.shared_limits import Sent, SharedLimits
from tests.waiting import PATIENCE_S, until

SHARDS = all_of(3)
KILLED = SHARDS[1]
LIMITS = SharedLimits(len(SHARDS), prefix_rate=4, address_rate=2, slack_s=0.1)
OPTIONS = sets(
    probe__per_prefix_rate=LIMITS.prefix_rate,
    probe__per_address_rate=LIMITS.address_rate,
    campaign__clock_slack_s=LIMITS.slack_s,
    # All processes use the same clock, so a late start must not warn.
    clock__warn_s=3600,
    probe__families=[4],
    # A long timeout avoids second attempts, which would count.
    probe__timeout_s=60,
    handshake__enabled=False,
)


def part(run: Path, shard: Shard) -> Path:
    """Return the folder for a shard's probe stage."""
    return run / "hamburg" / "1" / shard.folder / "probe"


def killed_and_resumed(site: LabFolders, file: Path) -> tuple[Path, set[str]]:
    """Run a campaign, kill a shard's stage and engine with SIGKILL, and resume the campaign.

    Returns the run's folder, and the connection IDs of the rows that the killed engine had written.
    """
    runs = site.folder / "runs"
    others = set(runs.iterdir()) if runs.is_dir() else set()

    def started_runs() -> list[Path]:
        found = [run for run in runs.glob("*Z-*") if run not in others] if runs.is_dir() else []
        return [run for run in found if (part(run, KILLED) / "segments").is_dir()]

    campaign = start_campaign(site, file, OPTIONS)
    (run,) = (
        until(lambda: campaign.poll() is not None or started_runs(), "the probe stage") and started_runs()
    )
    folder = part(run, KILLED)
    (engine,) = halted_with(1, [folder])
    for pid in (json.loads((folder / "report.json").read_text())["pid"], engine):
        os.kill(pid, signal.SIGKILL)
    _, messages = campaign.communicate(timeout=PATIENCE_S)
    assert campaign.returncode == 1 and f"shard {KILLED}: killed by SIGKILL" in messages, messages
    cids_before_kill = {row["client_cid"] for row in rows_of(folder / "segments")}
    site.firstflight("campaign", "run", "--resume", run.name)
    return run, cids_before_kill


def test_a_killed_shard_keeps_the_limits_of_the_edge_and_every_row_is_loaded_once(site: LabFolders) -> None:
    names = names_of(site, (CLOUDFLARE,))
    before_ns = time.time_ns()
    run, cids_before_kill = killed_and_resumed(site, config(site, "shards", names, ["hamburg"], len(SHARDS)))
    rows: list[dict[str, Any]] = [
        {**row, "who": shard.index}
        for shard in SHARDS
        for row in record_rows.read(part(run, shard) / "quic_probe.parquet")
    ]
    assert sorted(row["domain"] for row in rows) == names
    assert {row["attempts"] for row in rows} == {1}
    assert {row["outcome"] for row in rows} <= {"iack", "coalesced"}
    assert Counter(row["who"] for row in rows).keys() == {0, 1, 2}
    by_cid = {row["client_cid"]: row for row in rows}
    assert cids_before_kill and cids_before_kill < {
        row["client_cid"] for row in rows if row["who"] == KILLED.index
    }

    (client,) = {row["src_ip"] for row in rows}
    captured = [
        connection
        for connection in connections(site, site.lab / "captures" / "cloudflare.pcap")
        if connection["client_ip"] == client and connection["start_time_ns"] > before_ns
    ]
    settings, shard_of = Run(run).settings, dict[int, int]()
    for shard in SHARDS:
        first, last = map(int, settings.ports_at(settings.vantage_named("hamburg"), shard=shard).split("-"))
        shard_of |= dict.fromkeys(range(first, last + 1), shard.index)
    log = dict(LinkLog(site.lab / "lateness.csv").flows())
    sent, times = [], Counter[str]()
    for connection in captured:
        at_link_ns, row = left_ns(log, connection), by_cid[connection["client_scid"]]
        assert row["who"] == shard_of[connection["client_port"]]
        # Probes in flight when their engine was killed were sent again. Their first send time is unknown.
        was_sent_again = at_link_ns < row["sent_at"]
        assert not was_sent_again or row["who"] == KILLED.index
        times[row["client_cid"]] += not was_sent_again
        sent.append(Sent(at_link_ns, 0 if was_sent_again else row["sent_at"], row["who"], row["ip"]))
    assert times == dict.fromkeys(by_cid, 1)
    shared = {probe.ip: {other.who for other in sent if other.ip == probe.ip} for probe in sent}
    assert any(len(engines) > 1 for engines in shared.values())
    # Here, an address has at most two names; tests/campaign_loopback/test_shards.py covers more names.
    LIMITS.check(sent, dense={"prefix"})

    condition = f"WHERE run = '{run.name}'"
    files = (
        f"SELECT unit, state, version FROM load_file FINAL {condition} AND kind = 'quic_probe' ORDER BY unit"
    )
    files = f"(SELECT groupArray((unit, toString(state), version)) FROM ({files})) AS files"
    stored = f"SELECT count() AS rows, uniqExact(domain) AS names, {files} FROM quic_probe {condition}"
    (once,) = site.sql(stored)
    assert (once["rows"], once["names"]) == (len(names), len(names))
    assert [state for _, state, _ in once["files"]] == ["loaded"] * len(SHARDS)
    site.firstflight("load", run.name)
    assert site.sql(stored) == [once]
