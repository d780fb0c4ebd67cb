"""A stop file stops a campaign in order. Finished probes can be loaded; --resume does the others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

from lab.site.processes import descendants
from scanner.driver.segments import closed_segments
from store.location import EmbeddedLocation, locked_store
from tests.engines.segments import rows_of
from tests.processes import go_on_when_interrupted, halt, handles
from tests.waiting import PATIENCE_S, until

from .stopping import halted, stop
from .world import CampaignWorld, addresses, interrupt

# Finishes a campaign that only lacks the last load.
ONLY_THE_LAST_LOAD = """
import sys
from firstflight.run.run import Run
from orchestration.local import lifecycle
from orchestration.local.campaign import LocalCampaign

class AllDone(LocalCampaign):
    async def run_all(self):
        pass

sys.exit(lifecycle.run_campaign(Run.open(sys.argv[1]), AllDone))
"""


def test_a_stopped_loaded_and_resumed_run_has_every_row_once(world: CampaignWorld) -> None:
    campaign = world.start_campaign("--config", str(world.settings("slow.toml", rate=8)))
    until(world.runs, "a run folder")
    (run,) = world.runs()
    engines = []
    for vantage in ("east", "west"):
        folder = run / vantage / "1" / "probe"
        until(partial(closed_segments, folder / "segments"), f"a closed segment in {folder}")
        engines.append(halted(folder))
    assert "stopped" in stop(world, run, engines)
    out, messages = campaign.communicate(timeout=PATIENCE_S)
    assert (campaign.returncode, out.splitlines()[-1]) == (130, run.name), messages
    assert f"stopped gracefully; continue with: firstflight campaign run --resume {run.name}" in messages

    entry = json.loads(world.firstflight("runs", "--format", "jsonl", run.name).stdout)
    assert entry["state"] == "stopped"
    loaded = 0
    for vantage in ("east", "west"):
        (stage,) = [s for s in entry["stages"] if s["stage"] == "probe" and s["vantage"] == vantage]
        rows = world.rows(run, vantage, 1)
        assert stage["state"] == "interrupted"
        assert 0 < len(rows) == stage["rows_out"] < len(addresses())
        assert len(rows) + stage["facts"]["not_probed"] == len(addresses())
        # The engines completed outstanding probes, so each row has its real outcome and no row is missing.
        assert len(rows_of(run / vantage / "1" / "probe" / "segments")) == len(rows)
        loaded += len(rows)
    # Targets left for --resume are no probes yet.
    assert (entry["probes"], entry["probe_stages_done"]) == (loaded, 0)
    assert sum(entry["counts"].values()) - entry["counts"]["sent"] == loaded
    shown = world.firstflight("runs", run.name).stdout
    assert f"{loaded} probes, 0 of 2" in shown
    assert f"{len(addresses()) - stage['rows_out']} not probed" in shown
    world.firstflight("load", run.name)
    count = f"SELECT count() FROM quic_probe WHERE run = '{run.name}'"
    assert world.sql(count) == f"{loaded}\n"

    # While the file exists, the run does not continue.
    alone = ["stage", "probe", "--run", run.name, "--vantage", "east", "--repetition", "1"]
    assert "was stopped by" in world.firstflight(*alone, expect=130).stderr

    done = world.campaign("--resume", run.name)
    assert done.returncode == 0, done.stderr
    assert not (run / "stop").exists()
    for vantage in ("east", "west"):
        rows = world.rows(run, vantage, 1)
        assert Counter(row["domain"] for row in rows) == Counter(list(addresses()))
    assert world.sql(count) == f"{2 * len(addresses())}\n"
    about = json.loads((run / "manifest.json").read_text())
    assert about["state"] == "done" and about["counts"]["targets"] == 2 * len(addresses())


def test_stopping_what_does_not_run_is_reported(world: CampaignWorld) -> None:
    (run,) = world.runs()
    assert "not running" in world.firstflight("runs", "stop", run.name).stderr
    assert (run / "stop").exists()
    (run / "stop").unlink()
    world.firstflight("runs", "stop", expect=2)
    world.firstflight("runs", "stop", "20000101T000000Z-000000", expect=2)


def test_a_clock_that_is_off_is_recorded_and_reported(world: CampaignWorld) -> None:
    (run,) = world.runs()
    ahead_ns = time.time_ns() - 300 * 10**9  # the centre's clock is five minutes slower than this one
    repeat_probe = ["stage", "probe", "--again", "--run", run.name, "--vantage", "east", "--repetition", "1"]
    done = world.firstflight(*repeat_probe, "--centre-clock", str(ahead_ns))
    assert "this machine's clock is 30" in done.stderr and "ahead of the campaign's clock" in done.stderr
    (offset,) = {row["clock_offset_us"] for row in world.rows(run, "east", 1)}
    # The measured difference includes the start of the process, a few seconds at most.
    elapsed_us = (time.time_ns() - ahead_ns) // 1000
    assert isinstance(offset, int) and 299.9e6 < offset < elapsed_us
    (others,) = {row["clock_offset_us"] for row in world.rows(run, "west", 1)}
    assert isinstance(others, int) and abs(others) < 100e6


def test_a_signal_while_the_final_state_is_loaded_ends_in_order(world: CampaignWorld) -> None:
    (run,) = world.runs()
    argv = [sys.executable, "-P", "-c", ONLY_THE_LAST_LOAD, run.name]

    def loads() -> list[int]:
        found = [pid for pid in descendants([campaign.pid]) if b"\0load\0" in command_of(pid)]
        return [pid for pid in found if handles(pid, signal.SIGINT)]

    # The store is locked, so the load cannot finish. The test halts the load as soon as it starts.
    with locked_store(EmbeddedLocation(world.folder / "store"), 0):
        campaign = subprocess.Popen(
            argv,
            env=world.environment,
            cwd=world.folder,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        (load,) = until(loads, "the last load")
        halt(load)
        assert json.loads((run / "manifest.json").read_text())["state"] == "done"
        interrupt(campaign)
        go_on_when_interrupted([load])
        _, messages = campaign.communicate(timeout=PATIENCE_S)
    assert campaign.returncode == 130, messages
    assert "Traceback" not in messages
    assert f"stopped while its row was loaded: repeat with `firstflight load {run.name}`" in messages
    world.firstflight("load", run.name)


def command_of(pid: int) -> bytes:
    """Return a process's arguments, each terminated by a zero byte; empty if it has exited."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
