"""Base operator: runs a `firstflight` command, with its output in the task's log.

Tasks for a vantage point set both `queue` and `executor`: with only the queue, Airflow would silently run
them at the centre (tests/airflow checks every DAG for this).
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
from orchestration.site.vantage_points import SiteVantagePoint, declared

if TYPE_CHECKING:
    from airflow.sdk import Context

    from orchestration.runner import Child

EDGE_EXECUTOR = "EdgeExecutor"
CENTRE_EXECUTOR = "LocalExecutor"

# Retries after two minutes, four, eight, ... an hour, so that a database or vantage point may be down for a
# night. The variable shortens the delay for tests.
RETRY_DELAY_S = float(os.environ.get("FIRSTFLIGHT_RETRY_DELAY_S", "120"))
POLL_EVERY = timedelta(seconds=min(60.0, RETRY_DELAY_S))
# Airflow counts a task as killed if it is queued again before the scheduler has processed its last attempt
# (Airflow 3.3: "finished with state success, but the task instance's state attribute is running").
MIN_DELAY = timedelta(seconds=10)
RETRIES: dict[str, Any] = {
    "retries": 24,
    "retry_delay": timedelta(seconds=RETRY_DELAY_S),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(hours=1),
}

# Maximum active tasks in a DAG, for all vantage points and the centre.
ACTIVE_TASKS = 64


def at_vantage(vantage: SiteVantagePoint) -> dict[str, Any]:
    """Return the arguments that bind a task to a vantage point's worker, in its pool for tasks that send
    nothing."""
    return {"queue": vantage.queue, "executor": EDGE_EXECUTOR, "pool": vantage.work_pool}


class FirstflightOperator(BaseOperator):
    """Base: a task that runs `firstflight` commands and stops them gracefully when it is killed."""

    _child: Child | None = None

    def firstflight(
        self,
        context: Context,
        *arguments: str,
        resumes: bool = False,
        check: bool = True,
        stops: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run `firstflight ARGUMENTS`. AirflowException with its last message if it fails.

        With `check` False the caller decides by the command's results whether it failed. If the DAG is paused
        meanwhile, the command is stopped gracefully; with `resumes` the task continues when the DAG does,
        otherwise it fails and is retried. `stops` is polled and returns whether the run is stopped
        permanently. The command then exits by itself, and the task does not fail.
        """
        from orchestration.runner import EXIT_INTERRUPTED, Child

        self.log.info("firstflight %s", " ".join(arguments))
        self._child = Child(arguments, _provenance(context))
        paused = False

        def may_continue() -> bool:
            nonlocal paused
            paused = not stops() and is_paused(context)
            return not paused

        status = self._child.wait(self.log.info, may_continue)
        if status == EXIT_INTERRUPTED and stops():
            self.log.info("the run is stopped: its results are kept and loaded, and nothing more is sent")
            return
        if paused and status != 0:
            sentence = "the DAG is paused: the stage stopped gracefully and continues when the DAG is resumed"
            self.log.info(sentence)
            if resumes:
                raise reschedule(datetime.now(UTC) + POLL_EVERY)
            raise AirflowException(sentence)
        if status != 0 and check:
            raise self.failed(*arguments[:2])

    def failed(self, *words: str) -> AirflowException:
        """Return the exception for a failed command, with the last line that the command printed."""
        reason = self._child.last_line if self._child is not None else ""
        return AirflowException(f"{' '.join(words)}: {reason or 'ended without any output'}")

    def on_kill(self) -> None:
        """Stop the command gracefully; it may take longer than the few seconds that Airflow waits."""
        if self._child is not None:
            self._child.interrupt()


def reschedule(at: datetime) -> Exception:
    """Return the exception that frees the task's slot and starts the task again at `at`, without counting
    a retry."""
    at = max(at, datetime.now(UTC) + MIN_DELAY)
    reschedule_error: Exception = AirflowRescheduleException(at)  # type: ignore[no-untyped-call]
    return reschedule_error


@contextlib.contextmanager
def airflow_errors(*, retry_usage: bool = False) -> Iterator[None]:
    """Turn FirstflightErrors into Airflow's. Airflow retries a UsageError only with `retry_usage`."""
    try:
        yield
    except Interrupted as error:
        raise AirflowException(str(error)) from None
    except UsageError as error:
        raise (AirflowException if retry_usage else AirflowFailException)(str(error)) from None
    except FirstflightError as error:
        raise AirflowException(str(error)) from None


def is_paused(context: Context) -> bool:
    """Return whether the centre reports the task's DAG as paused; False while the centre does not answer."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import DagResult, GetDag

    try:
        answer = task_runner.SUPERVISOR_COMMS.send(GetDag(dag_id=context["dag"].dag_id))
    except Exception:  # any: measuring continues while the centre is unreachable
        return False
    return isinstance(answer, DagResult) and answer.is_paused


def _provenance(context: Context) -> dict[str, str]:
    """Return the variables by which a stage records where it ran (quic_probe.yaml: worker)."""
    ti = context["ti"]
    return {"FIRSTFLIGHT_WORKER": str(getattr(ti, "hostname", "") or _worker())}


def _worker() -> str:
    return os.environ.get("HOSTNAME") or socket.gethostname()


def vantage_points() -> tuple[SiteVantagePoint, ...]:
    """Return the declared vantage points; a fault in their file becomes the DAG's import error."""
    return declared().vantage
