"""A vantage point, started through a command that forwards no signals (as ssh), stops with its campaign."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests import drawn
from tests.orchestration.test_stage_input import SSH, has_ended
from tests.processes import go_on_when_interrupted
from tests.waiting import PATIENCE_S, until

from .stopping import halted_with
from .test_campaign import check_rows, manifest
from .world import CampaignWorld

VANTAGES = f'[[vantage]]\nname = "east"\ninterface = "lo"\ncommand = {json.dumps(SSH)}\n'


@drawn.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], 1)
def test_processes_over_ssh_end_with_their_campaign(world: CampaignWorld, signum: signal.Signals) -> None:
    before = set(world.runs())
    path = world.settings("ssh.toml", rate=12, vantages=VANTAGES)
    # The timeout is longer than an engine is halted.
    process = world.start_campaign("--config", str(path), "--set=probe.timeout_s=60")
    (run,) = until(lambda: set(world.runs()) - before, "a run folder")
    probe = run / "east" / "1" / "probe"
    engines = halted_with(10, [probe])

    def report() -> dict[str, object]:
        found: dict[str, object] = json.loads(Path(probe, "report.json").read_text())
        return found

    stage = report()["pid"]
    assert isinstance(stage, int)
    process.send_signal(signum)
    go_on_when_interrupted(engines)
    _, err = process.communicate(timeout=PATIENCE_S)
    if signum == signal.SIGKILL:
        until(lambda: has_ended(stage), "the end of the stage")
    else:
        assert process.returncode == 130, err
        assert manifest(run)["state"] == "interrupted"
    # The campaign has waited for it.
    assert report()["state"] == "interrupted" and all(map(has_ended, [stage, *engines]))
    done = world.campaign("--resume", run.name)
    assert done.returncode == 0, done.stderr
    check_rows(world, run, "east", 1)
