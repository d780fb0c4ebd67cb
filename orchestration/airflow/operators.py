"""What a task does, in Airflow's terms: run a `firstflight` command, its output in the task's log.

Tasks of a vantage point carry `queue` and `executor` both: with the queue alone Airflow would run them at the
centre without a word (tests/airflow holds every DAG to it).
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
)

from firstflight.errors import FirstflightError, Interrupted, UsageError
from orchestration.airflow.dag_run import period_of
from orchestration.site.vantage_points import VantagePoint, declared

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firstflight.layout import StageKey
    from firstflight.run.run import Run
    from orchestration.runner import Child

EDGE_EXECUTOR = "EdgeExecutor"
CENTRE_EXECUTOR = "LocalExecutor"

# Two minutes, four, eight, ... an hour: a database or a vantage point that is away for a night is waited for.
# The variable is for those who cannot wait, such as tests.
RETRY_DELAY_S = float(os.environ.get("FIRSTFLIGHT_RETRY_DELAY_S", "120"))
# Between looks whether a run is stopped whose next repetition is a day away; each look starts a process.
WHILE_WAITING = timedelta(hours=1)
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
                raise come_back(datetime.now(UTC) + LOOK_AGAIN)
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


class FetchInputs(FirstflightOperator):
    """Bring a run's settings, targets, AS data and lists to the vantage point; gives the run's id."""

    template_fields: Sequence[str] = ("run",)

    def __init__(self, *, vantage: str, run: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vantage = vantage
        self.run = run

    def execute(self, context: Context) -> str:
        """Fetch; what is there already is not fetched again."""
        del context
        from orchestration.site import inputs

        with in_one_sentence():
            run = inputs.fetch(str(self.run), inputs.here(self.vantage), *centre_of(str(self.run)))
        return run.id


def centre_of(run: str) -> tuple[str, Callable[[], str]]:
    """The centre's address as a vantage point's worker knows it, and what signs tokens for that run."""
    from airflow.sdk.configuration import conf

    from orchestration.site import centre_token

    secret = str(conf.get("api_auth", "jwt_secret"))
    return str(conf.get("edge", "api_url")).partition("/edge_worker/")[0], lambda: centre_token.sign(
        secret, run
    )


class StageOperator(FirstflightOperator):
    """One stage of a run at a vantage point; what is done already is not done again."""

    template_fields: Sequence[str] = ("run", "repetition")

    def __init__(self, *, stage: str, vantage: str, run: Any, repetition: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stage = stage
        self.vantage = vantage
        self.run = run
        self.repetition = repetition

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the stage; gives its counts."""
        from firstflight.run.run import Run
        from orchestration import stages

        with in_one_sentence():
            run = Run.with_id(str(self.run))
            key, stage = run.key(self.vantage, int(self.repetition)), stages.named(self.stage)
            stops = partial(self._is_stopped, run)
            if stage.sends:
                if stops():
                    return self._skip_stopped(run, key)
                self._wait_until_due(run, key)
            if stage.name == stages.LOAD:
                return self._load(context, run, key)
            if stage.needs_capture and not captured(run, key):
                self.log.info("there is no capture to dissect")
                return {"rows": 0}
            place = ("--vantage", key.vantage, "--repetition", str(key.repetition))
            more = ("stage", self.stage, "--run", run.id, *place, *self._more(context))
            self.firstflight(context, *more, resumes=True, stops=stops)
            return self._counts(run, key)

    def _counts(self, run: Run, key: StageKey) -> dict[str, Any]:
        report = run.report(self.stage, key)
        return {"rows": report.rows_out, **report.counts} if report is not None else {}

    def _skip_stopped(self, run: Run, key: StageKey) -> dict[str, Any]:
        """Of a stopped run: what was measured goes on to be dissected and loaded, what was not begun is
        skipped."""
        sentence = f"run {run.id} is stopped: nothing was sent"
        if run.report(self.stage, key) is None:
            raise AirflowSkipException(sentence)
        self.log.info(sentence)
        return self._counts(run, key)

    def _is_stopped(self, run: Run) -> bool:
        """Whether the run is stopped, here or at the centre."""
        from orchestration.site import inputs

        return inputs.is_stopped(run, *centre_of(run.id))

    def _more(self, context: Context) -> list[str]:
        """Options besides those of every stage."""
        del context
        return []

    def _load(self, context: Context, run: Run, key: StageKey) -> dict[str, Any]:
        """Load this run's part, and whatever else waits in the spool."""
        from orchestration import stages
        from orchestration.site import pending_uploads

        # What another part lacks is said in the log, and does not fail this one.
        self.firstflight(context, "spool", "load", judged=False)
        if not pending_uploads.is_loaded(run, key):
            raise self.failed("spool", "load")
        report = run.report(stages.LOAD, key)
        counts: dict[str, Any] = dict(report.counts) if report is not None else {}
        for outlet in self.outlets:
            extra: dict[str, Any] = dict(key.columns())
            context["outlet_events"][outlet].extra = {**extra, "rows": counts}
        return counts

    def _wait_until_due(self, run: Run, key: StageKey) -> None:
        """Come back when the repetition is due; skip one that should have begun days ago."""
        from orchestration.airflow import due as times

        started = datetime.fromisoformat(str(run.manifest["started_at"]))
        due = times.repetition(started, run.settings.campaign.repetition_interval_s, key.repetition)
        now = datetime.now(UTC)
        if run.report(self.stage, key) is not None:
            return  # begun: it goes on
        if now > due + times.TOO_LATE:
            raise AirflowSkipException(
                f"repetition {key.repetition} was due at {due:%Y-%m-%d %H:%M} UTC: too late"
            )
        if now < due:
            self.log.info("repetition %d begins at %s", key.repetition, f"{due:%Y-%m-%d %H:%M:%S} UTC")
            # Not in one sleep: a run may be stopped meanwhile.
            raise come_back(min(due, now + WHILE_WAITING))


def captured(run: Run, key: StageKey) -> bool:
    """Whether a capture was taken there: none is without `capture.enabled`, or when there was nothing to
    probe."""
    from firstflight import capture

    return bool(capture.records(run.layout.stage("capture", key)))


def come_back(at: datetime) -> Exception:
    """To raise: the task gives its place up and starts again at that time or soon after; not a new try."""
    at = max(at, datetime.now(UTC) + AWAY)
    again: Exception = AirflowRescheduleException(at)  # type: ignore[no-untyped-call]
    return again


class WatchOperator(StageOperator):
    """The watch stage for the period of the DAG's run; every try says the same period."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(stage="watch", **kwargs)

    def _wait_until_due(self, run: Run, key: StageKey) -> None:
        """The stage keeps its times itself, and writes down what it comes too late for."""

    def _more(self, context: Context) -> list[str]:
        begins, length_s, _ = period_of(context)
        return ["--start", f"{begins:%Y-%m-%dT%H:%M:%SZ}", "--period", f"{length_s:g}"]


@contextlib.contextmanager
def in_one_sentence(*, again: bool = False) -> Iterator[None]:
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
