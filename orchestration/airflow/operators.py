"""What a task does, in Airflow's terms: run a `firstflight` command, its output in the task's log.

Tasks of a vantage point carry `queue` and `executor` both: with the queue alone Airflow would run them at the
centre without a word (tests/airflow holds every DAG to it).
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
)

from firstflight.errors import FirstflightError, Interrupted, UsageError
from orchestration.site.vantage_points import VantagePoint, declared

if TYPE_CHECKING:
    from airflow.sdk import Context

    from orchestration.runner import Child

EDGE_EXECUTOR = "EdgeExecutor"
CENTRE_EXECUTOR = "LocalExecutor"

# Two minutes, four, eight, ... an hour: a database or a vantage point that is away for a night is waited for.
# The variable is for those who cannot wait, such as tests.
RETRY_DELAY_S = float(os.environ.get("FIRSTFLIGHT_RETRY_DELAY_S", "120"))
LOOK_AGAIN = timedelta(seconds=min(60.0, RETRY_DELAY_S))
# A task that is queued again before the scheduler has heard of the end of its last turn counts as killed
# (Airflow 3.3: "finished with state success, but the task instance's state attribute is running").
AWAY = timedelta(seconds=10)
RETRIES: dict[str, Any] = {
    "retries": 24,
    "retry_delay": timedelta(seconds=RETRY_DELAY_S),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(hours=1),
}

# Of one run: that of every vantage point, and the centre's own.
ACTIVE_TASKS = 64


def at_vantage(vantage: VantagePoint) -> dict[str, Any]:
    """Arguments that bind a task to a vantage point's worker, in the pool of what sends nothing."""
    return {"queue": vantage.queue, "executor": EDGE_EXECUTOR, "pool": vantage.work_pool}


class FirstflightOperator(BaseOperator):
    """Base: a task that runs `firstflight` commands and ends them in order when it is told to end."""

    _child: Child | None = None

    def firstflight(
        self,
        context: Context,
        *arguments: str,
        resumes: bool = False,
        judged: bool = True,
        stops: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run `firstflight ARGUMENTS`. AirflowException with its last words if it fails, unless the caller
        judges by what it left (`judged` false).

        When the DAG is paused meanwhile the command is ended in order; with `resumes` the task goes on when
        the DAG does, otherwise it counts as failed and is tried again. `stops` is asked as often, and tells
        whether the run is stopped for good: the command then ends by itself, and that is no failure.
        """
        from orchestration.runner import EXIT_INTERRUPTED, Child

        self.log.info("firstflight %s", " ".join(arguments))
        self._child = Child(arguments, _provenance(context))
        paused = False

        def may_go_on() -> bool:
            nonlocal paused
            paused = not stops() and is_paused(context)
            return not paused

        status = self._child.wait(self.log.info, may_go_on)
        if status == EXIT_INTERRUPTED and stops():
            self.log.info("the run is stopped: what was measured is kept and loaded, nothing more is sent")
            return
        if paused and status != 0:
            sentence = "the DAG is paused: the stage has ended in order and goes on when the DAG does"
            self.log.info(sentence)
            if resumes:
                raise reschedule(datetime.now(UTC) + LOOK_AGAIN)
            raise AirflowException(sentence)
        if status != 0 and judged:
            raise self.failed(*arguments[:2])

    def failed(self, *words: str) -> AirflowException:
        """To raise: the command has failed, with the sentence that it ended with."""
        said = self._child.last_line if self._child is not None else ""
        return AirflowException(f"{' '.join(words)}: {said or 'ended without a word'}")

    def on_kill(self) -> None:
        """End the command in order; Airflow gives it a few seconds, and it goes on ending after those."""
        if self._child is not None:
            self._child.interrupt()


def reschedule(at: datetime) -> Exception:
    """To raise: the task gives its place up and starts again at that time or soon after; not a new try."""
    at = max(at, datetime.now(UTC) + AWAY)
    again: Exception = AirflowRescheduleException(at)  # type: ignore[no-untyped-call]
    return again


@contextlib.contextmanager
def airflow_errors(*, again: bool = False) -> Iterator[None]:
    """Turn our errors into Airflow's: a UsageError is tried again only with `again`, the others are."""
    try:
        yield
    except Interrupted as error:
        raise AirflowException(str(error)) from None
    except UsageError as error:
        raise (AirflowException if again else AirflowFailException)(str(error)) from None
    except FirstflightError as error:
        raise AirflowException(str(error)) from None


def is_paused(context: Context) -> bool:
    """Whether the task's DAG is paused now, as the centre says; False while the centre does not answer."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import DagResult, GetDag

    try:
        answer = task_runner.SUPERVISOR_COMMS.send(GetDag(dag_id=context["dag"].dag_id))
    except Exception:  # whatever: measuring goes on while the centre is away
        return False
    return isinstance(answer, DagResult) and answer.is_paused


def _provenance(context: Context) -> dict[str, str]:
    """Variables from which a stage writes down where it ran (schemas/records/quic_probe.yaml: worker)."""
    ti = context["ti"]
    return {"FIRSTFLIGHT_WORKER": str(getattr(ti, "hostname", "") or _worker())}


def _worker() -> str:
    return os.environ.get("HOSTNAME") or socket.gethostname()


def vantage_points() -> tuple[VantagePoint, ...]:
    """The declared vantage points; what is wrong with their file becomes the DAG's import error."""
    return declared().vantage
