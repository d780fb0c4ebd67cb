"""A stage started through a command that forwards input but no signals stops in order with its campaign."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestration import runner
from tests.waiting import until

SSH = [sys.executable, "-P", str(Path(__file__).with_name("ssh_imitation.py"))]
# Writes its PID, then how it stopped. Like a stage, it needs some time to stop.
STAGE = """
import os, sys, time
from pathlib import Path
from orchestration.execute import end_with_campaign
folder = Path(sys.argv[1])
end_with_campaign()
try:
    (folder / "pid.part").write_text(str(os.getpid()))
    (folder / "pid.part").replace(folder / "pid")
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(0.5)
    (folder / "end").write_text("in order")
"""
CAMPAIGN = """
import asyncio, sys
from pathlib import Path
from orchestration import runner
asyncio.run(runner.run_to_end(sys.argv[2:], Path(sys.argv[1]) / "log", behind=True))
"""
TERMINAL = """
import sys
from orchestration import runner
runner.run_in_terminal(sys.argv[2:], behind=True)
"""


def has_ended(pid: int) -> bool:
    """Return whether a process has exited."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    # ProcessLookupError if the process is reaped during the read.
    except (FileNotFoundError, ProcessLookupError):
        return True
    return "\nState:\tZ" in status


@pytest.fixture
def stage() -> list[str]:
    return [sys.executable, "-P", "-c", STAGE]


@pytest.mark.parametrize("prefix", [SSH, [], ["sh", "-c", '"$@"', "sh"]])
def test_a_stage_whose_campaign_is_stopped_is_waited_for(
    tmp_path: Path, prefix: list[str], stage: list[str]
) -> None:
    async def stopped() -> None:
        argv = [*prefix, *stage, str(tmp_path)]
        campaign = asyncio.ensure_future(runner.run_to_end(argv, tmp_path / "log", behind=True))
        while not (tmp_path / "pid").exists():
            assert not campaign.done(), (tmp_path / "log").read_text()
            await asyncio.sleep(0.05)
        campaign.cancel()
        await asyncio.wait([campaign])
        assert campaign.cancelled()

    asyncio.run(stopped())
    assert (tmp_path / "end").read_text() == "in order"


@pytest.mark.parametrize("program", [CAMPAIGN, TERMINAL])
@pytest.mark.parametrize("prefix", [SSH, []])
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stage_ends_with_its_campaign(
    tmp_path: Path, prefix: list[str], program: str, signum: signal.Signals, stage: list[str]
) -> None:
    argv = [sys.executable, "-P", "-c", program, str(tmp_path), *prefix, *stage, str(tmp_path)]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as campaign:
        until((tmp_path / "pid").exists, "the stage")
        campaign.send_signal(signum)
    pid = int((tmp_path / "pid").read_text())
    until(lambda: has_ended(pid), "the exit of the stage")
    assert (tmp_path / "end").read_text() == "in order"


def test_a_command_that_does_not_forward_its_input_gets_the_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: list[str]
) -> None:
    monkeypatch.setattr(runner, "CONNECT_S", 0.5)
    prefix = ["sh", "-c", 'exec "$@" < /dev/null', "sh"]
    test_a_stage_whose_campaign_is_stopped_is_waited_for(tmp_path, prefix, stage)


def test_an_input_that_no_process_has_open_is_not_watched(tmp_path: Path, stage: list[str]) -> None:
    """Such as with `cat FILE | firstflight stage ... --here`."""
    with subprocess.Popen([*stage, str(tmp_path)], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"something else\n")
        process.stdin.close()
        until((tmp_path / "pid").exists, "the stage")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        os.kill(process.pid, signal.SIGINT)
    assert (tmp_path / "end").read_text() == "in order"
