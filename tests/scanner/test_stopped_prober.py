"""A prober that exits normally, and a supervisor that is stopped twice: by the stop file and by signals."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from firstflight.errors import Interrupted
from firstflight.system.noted_signals import STOPPING
from scanner.driver import process
from scanner.driver.feed import Feed
from scanner.driver.prober import PROBER
from tests.waiting import until


def run(
    tmp_path: Path, script: str, *numbers: signal.Signals, stop_file: bool = False, longest_s: float = 30
) -> None:
    """Supervise a shell script. When the script has created `started`, send these signals to this process."""
    sent = False

    def watch() -> None:
        nonlocal sent
        if numbers and not sent:
            sent = True
            until((tmp_path / "started").exists, "the start of the script")
            for number in numbers:
                signal.raise_signal(number)
            if stop_file:
                raise Interrupted("the stop file")

    process.run(["sh", "-c", script], tmp_path / "log", Feed(), watch, PROBER, longest_s=longest_s)


@pytest.fixture(autouse=True)
def handlers() -> object:
    before = {number: signal.getsignal(number) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    "numbers", [(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGTERM) * 2]
)
@pytest.mark.parametrize("stop_file", [False, True])
def test_signals_stop_the_prober_once(
    tmp_path: Path, numbers: tuple[signal.Signals, ...], stop_file: bool
) -> None:
    ended = tmp_path / "ended"
    trap = f"trap 'echo in order > {ended}; exit 130' INT; touch {tmp_path}/started"
    reason = "the stop file" if stop_file else "stopped by a signal; finished results are kept"
    with pytest.raises(Interrupted, match=reason):
        run(tmp_path, f"{trap}; while :; do sleep 0.05; done", *numbers, stop_file=stop_file)
    assert ended.read_text() == "in order\n"
    # Later signals do not interrupt the writes that follow.
    for number in STOPPING:
        signal.raise_signal(number)


def test_a_prober_with_long_timeouts_gets_time_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE_S", 0.5)
    ended = tmp_path / "ended"
    trap = f"trap 'sleep 2; echo in order > {ended}; exit 130' INT; touch {tmp_path}/started"
    with pytest.raises(Interrupted):
        run(tmp_path, f"{trap}; while :; do sleep 0.05; done", signal.SIGINT, longest_s=300)
    assert ended.exists()


def test_a_prober_that_ends_gives_the_handlers_back(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in STOPPING]
    run(tmp_path, "exit 1")
    assert [signal.getsignal(number) for number in STOPPING] == before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("status", "own"), [(3, 3), (4, 1), (101, 1)])
def test_a_prober_that_fails_is_reported_with_its_reason(tmp_path: Path, status: int, own: int) -> None:
    with pytest.raises(process.EngineFailed, match=r"^the prober failed: no space left$") as failed:
        run(tmp_path, f"echo begins >&2; echo no space left >&2; exit {status}")
    assert failed.value.exit_status == own


def test_a_signal_at_the_very_end_is_not_lost(tmp_path: Path) -> None:
    pid_file, go = tmp_path / "pid", tmp_path / "go"

    def has_ended() -> bool:
        status = Path(f"/proc/{int(pid_file.read_text())}/status").read_text(encoding="utf-8")
        return "\nState:\tZ" in status

    def watch() -> None:
        until(lambda: pid_file.is_file() and pid_file.read_text().endswith("\n"), "the start of the script")
        signal.raise_signal(signal.SIGINT)
        go.touch()
        until(has_ended, "the script's end")  # before the next check

    script = f"echo $$ > {pid_file}; while [ ! -e {go} ]; do sleep 0.01; done"
    with pytest.raises(Interrupted, match="stopped by a signal"):
        process.run(["sh", "-c", script], tmp_path / "log", Feed(), watch, PROBER, longest_s=30)
