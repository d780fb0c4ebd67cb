"""A campaign's lifecycle: start, signals, stop file, and final state."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from datetime import UTC, datetime

from firstflight.errors import FirstflightError
from firstflight.run.run import Run
from orchestration import runner, stages
from orchestration.local.campaign import LocalCampaign
from orchestration.local.console import Console
from orchestration.local.manifest import totals, write_state

# How often the stop file is checked.
POLL_EVERY_S = 0.2


def run_campaign(run: Run, kind: Callable[[Run, Console], LocalCampaign] = LocalCampaign) -> int:
    """Run a campaign's remaining stages and record the outcome in the manifest. Returns the exit status.

    0 done; 1 a vantage point or a later stage failed, or input lines were rejected (the rest is done); the
    failed stage's status if targets, AS data or every vantage point failed; 130 after a signal or with the
    stop file, when all processes have ended gracefully.
    """
    with run.lock():
        write_state(run, "running", message=None)
        return asyncio.run(_run_until_done(run, kind))


async def _run_until_done(run: Run, kind: Callable[[Run, Console], LocalCampaign]) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    stopping = False

    def stop() -> None:
        nonlocal stopping
        if not stopping:  # a second signal must not abort the graceful shutdown
            stopping = True
            task.cancel()

    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, stop)
    looking = asyncio.create_task(_look_for_stop_file(run, stop))
    async with Console() as console:
        campaign = kind(run, console)
        try:
            await campaign.run_all()
            counts = totals(run)
        except asyncio.CancelledError:
            task.uncancel()
            how = "stopped" if run.layout.stop_file.exists() else "interrupted"
            write_state(run, how, ended_at=_now())
            console.print_line(f"{how} gracefully; {campaign.resume_hint}")
            return runner.EXIT_INTERRUPTED
        except FirstflightError as error:
            write_state(run, "failed", ended_at=_now(), message=str(error))
            raise
        finally:
            looking.cancel()
    state = "failed" if campaign.failures else "done"
    message = "; ".join(campaign.failures) or None
    write_state(run, state, ended_at=_now(), counts=counts, message=message)
    # Load again, because the run's row has its final state only now.
    try:
        status = await runner.run_to_end(
            runner.stage_argv((), None, [stages.LOAD], run.path), run.layout.log(stages.LOAD)
        )
    except asyncio.CancelledError:
        task.uncancel()
        console.print_line(f"stopped while its row was loaded: repeat with `firstflight load {run.id}`")
        return runner.EXIT_INTERRUPTED
    return campaign.exit_status or (1 if status else 0)


async def _look_for_stop_file(run: Run, stop: Callable[[], None]) -> None:
    """Call `stop` when the run's stop file exists."""
    while not run.layout.stop_file.exists():
        await asyncio.sleep(POLL_EVERY_S)
    stop()


def _now() -> str:
    return datetime.now(UTC).isoformat()
