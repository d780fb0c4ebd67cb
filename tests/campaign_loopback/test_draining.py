"""A campaign that is interrupted after the last probe, while its capture stops: the capture is dissected."""

from __future__ import annotations

import json
import os
import signal
import time

import pyarrow.parquet as pq

from tests import drawn
from tests.processes import halt, running
from tests.waiting import PATIENCE_S, until

from .world import CampaignWorld

VANTAGES = '[[vantage]]\nname = "east"\ninterface = "lo"\n'


@drawn.parametrize("killed", [True, False], 1)
def test_a_campaign_interrupted_while_its_capture_ends_resumes(world: CampaignWorld, killed: bool) -> None:
    before = set(world.runs())
    process = world.start_campaign("--config", str(world.settings("draining.toml", vantages=VANTAGES)))
    (run,) = until(lambda: set(world.runs()) - before, "a run folder")
    folder = run / "east" / "1"
    until((folder / "capture" / "capture.json").is_file, "a capture")
    stage = json.loads((folder / "probe" / "report.json").read_text())["pid"]
    (tcpdump,) = running(stage, "tcpdump")
    # The stage has done all probes and waits for tcpdump.
    halt(tcpdump)
    until((folder / "probe" / "summary.json").is_file, "the end of the prober")
    if killed:
        os.kill(stage, signal.SIGKILL)
    else:
        process.send_signal(signal.SIGINT)
        time.sleep(1)  # time for the stage to receive it; a shorter time would only weaken the test
    os.kill(tcpdump, signal.SIGCONT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (1 if killed else 130), err

    done = world.campaign("--resume", run.name)
    assert done.returncode == 0, done.stderr
    assert [file.name for file in (folder / "capture").glob("probe*")] == ["probe.pcap"]
    sent = [row for row in world.rows(run, "east", 1) if row["sent_at"] is not None]
    captured = pq.ParquetFile(folder / "dissect" / "quic_connection.parquet").metadata.num_rows
    # If the stage was killed, tcpdump does not read the packets that wait in the kernel.
    assert captured <= len(sent) if killed else captured == len(sent)
