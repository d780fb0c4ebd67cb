"""Processes in a campaign that receive a signal at a critical time."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from orchestration import runner


def test_a_process_whose_start_is_cancelled_has_time_to_end(tmp_path: Path) -> None:
    """The signal may arrive in any turn of the event loop. The process ignores SIGINT from its start."""

    async def cancelled(turns: int, log: Path) -> None:
        argv = ["sh", "-c", "sleep 0.2; echo ended"]
        task = asyncio.ensure_future(runner.run_to_end(argv, log))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        _, pending = await asyncio.wait([task])
        assert not pending and task.cancelled()

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for turns in range(1, 9):
            log = tmp_path / str(turns)
            asyncio.run(cancelled(turns, log))
            assert log.read_text() == "ended\n", f"cancelled in turn {turns}"
    finally:
        signal.signal(signal.SIGINT, before)
