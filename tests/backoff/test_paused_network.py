"""A network that stops answering during a campaign is paused, and probed again later."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from lab.system.link_log import LinkLog
from tests.backoff.site import (
    CLOUDFLARE,
    FASTLY,
    config,
    connections,
    left_ns,
    names_of,
    rows,
    sets,
    start_campaign,
)
from tests.end_to_end.site import LabFolders
from tests.engines.segments import rows_of
from tests.processes import halt
from tests.waiting import PATIENCE_S, until

SECOND_NS = 10**9
OPTIONS = sets(
    # The rate is low, so that names remain even if the server stops late and the network is paused late.
    probe__rate=5,
    probe__timeout_s=2,
    probe__families=[4],
    backoff__control=["site-001.fastly.test", "site-002.cloudflare.test"],
    backoff__control_every_s=1,
    backoff__baseline_s=2,
    backoff__window_s=30,
    backoff__least_probes=10,
    backoff__resume_after_s=6,
)


def server_of(host: str, site: LabFolders) -> int:
    """Return the PID of an edge's quiche server in this lab."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if words[0].endswith("firstflight-edge") and any(
            str(site.lab) in word and Path(word).name.startswith(host) for word in words[1:]
        ):
            found.append(int(folder.name))
    (pid,) = found
    return pid


def test_a_network_that_falls_silent_is_paused_flagged_and_probed_again(site: LabFolders) -> None:
    file = config(site, "paused", names_of(site, (CLOUDFLARE, FASTLY)), ["hamburg"])
    runs = site.folder / "runs"
    others = set(runs.iterdir()) if runs.is_dir() else set()

    def probing() -> list[Path]:
        """Return the folder of the probe stage after its start."""
        found = runs.glob("*/hamburg/1/probe/segments")
        return [path.parent for path in found if path.parents[3] not in others]

    def answered(folder: Path) -> int:
        """Return the number of rows of Cloudflare's names in closed segments."""
        return sum(1 for row in rows_of(folder / "segments") if "cloudflare" in row["domain"])

    campaign = start_campaign(site, file, OPTIONS)
    pid = server_of("cloudflare", site)
    try:
        (folder,) = until(lambda: campaign.poll() is not None or probing(), "the probe stage") and probing()
        until(lambda: campaign.poll() is not None or answered(folder) >= 15, "15 of Cloudflare's names")
        halt(pid)
        until(lambda: campaign.poll() is not None or (folder / "pauses.json").is_file(), "a paused network")
        assert campaign.poll() is None
    finally:
        os.kill(pid, signal.SIGCONT)
    printed, messages = campaign.communicate(timeout=PATIENCE_S)
    assert campaign.returncode == 0, messages
    run = printed.splitlines()[-1]
    assert f"AS{CLOUDFLARE} was paused: its share of timeout rose" in messages

    (pause,) = json.loads((folder / "pauses.json").read_text())
    assert (pause["asn"], pause["sign"]) == (CLOUDFLARE, "timeout")
    assert pause["suspect_from_ns"] < pause["paused_at_ns"]
    # Probing may resume after six seconds, and resumes in the next round. The default is half an hour.
    assert 6e9 <= pause["resumed_at_ns"] - pause["paused_at_ns"] < 60e9

    found = rows(site, run, "hamburg")
    targets = (folder / "targets.csv").read_text().splitlines()[1:]
    assert len(targets) > 90
    domains = sorted(line.split(",")[1] for line in targets)
    assert sorted(row["domain"] for row in found) == domains, "every target must have one row"
    for row in found:
        suspect = pause["suspect_from_ns"] <= row["sent_at"] < pause["resumed_at_ns"]
        flag = pause["paused_at_ns"] if row["asn"] == CLOUDFLARE and suspect else None
        assert row["network_paused_at"] == flag, row
        if row["outcome"] == "timeout":
            assert row["network_paused_at"] is not None
    flagged = [row for row in found if row["network_paused_at"] is not None]
    later = [row for row in found if row["asn"] == CLOUDFLARE and row["sent_at"] > pause["resumed_at_ns"]]
    assert any(row["outcome"] == "timeout" for row in flagged) and later
    assert {row["outcome"] for row in later} <= {"iack", "coalesced"}
    assert {row["outcome"] for row in found if row["asn"] == FASTLY} <= {"iack", "coalesced"}

    slots = rows(site, run, "hamburg", "watch_slot")
    # The prober skips planned probes to a paused network, and records the time with its clock. At the first
    # such time, it had read the command. According to the link's timestamps, no connection in the edge's
    # capture left later. The prober's clock is at most 100 us slow compared with the kernel's.
    obeyed_ns = min(
        slot["planned_at"] + (slot["late_us"] + 101) * 1000 for slot in slots if slot["reason"] == "paused"
    )
    assert pause["suspect_from_ns"] < obeyed_ns < pause["resumed_at_ns"]
    log = dict(LinkLog(site.lab / "lateness.csv").flows())
    left = sorted(
        left_ns(log, connection)
        for connection in connections(site, site.lab / "captures" / "cloudflare.pcap")
        if connection["start_time_ns"] > pause["suspect_from_ns"]
    )

    def during(times: list[int]) -> list[int]:
        return [at for at in times if obeyed_ns < at < pause["resumed_at_ns"]]

    assert left and during(left) == []
    # A pause that is a second too short is detected.
    after = [at for at in left if at >= pause["resumed_at_ns"]]
    early_ns = after[0] - pause["resumed_at_ns"] + SECOND_NS
    assert during([at - early_ns for at in after])

    fate = {(slot["asn"], slot["state"], slot["reason"]) for slot in slots}
    assert (CLOUDFLARE, "skipped", "paused") in fate and (CLOUDFLARE, "probed", None) in fate
    assert {state for asn, state, _ in fate if asn == FASTLY} <= {"probed", "skipped"}
    assert (FASTLY, "skipped", "paused") not in fate
    assert all(slot["purpose"] == "control" for slot in slots)
    in_store = site.sql(f"SELECT count() AS n FROM watch_slot WHERE run = '{run}'")
    assert in_store == [{"n": len(slots)}]
