"""Operators of a vantage point: bring a run's inputs there, run its stages one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowSkipException

from orchestration import stages
from orchestration.airflow.dag_run import period_of
from orchestration.airflow.operators import FirstflightOperator, airflow_errors, reschedule
from orchestration.stages import Plan

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firstflight.layout import StageKey
    from firstflight.run.run import Run

# Between looks whether a run is stopped whose next repetition is a day away; each look starts a process.
WHILE_WAITING = timedelta(hours=1)


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

        with airflow_errors():
            run = inputs.fetch(str(self.run), inputs.here(self.vantage), *centre_of(str(self.run)))
        return run.id


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

        with airflow_errors():
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
            raise reschedule(min(due, now + WHILE_WAITING))


class TimedStageOperator(StageOperator):
    """A stage for the period of the DAG's run; every try says the same period."""

    def _wait_until_due(self, run: Run, key: StageKey) -> None:
        """The stage keeps its times itself, and records what it comes too late for."""

    def _more(self, context: Context) -> list[str]:
        begins, length_s, _ = period_of(context)
        return ["--start", f"{begins:%Y-%m-%dT%H:%M:%SZ}", "--period", f"{length_s:g}"]


def stage_tasks(
    plan: Plan, place: Mapping[str, Any], sends: Mapping[str, Any], *, rows: Asset
) -> list[StageOperator]:
    """A task for each stage of a plan at one vantage point, in the order of the table of stages.

    `place`: arguments of every task (vantage point, run, repetition, queue); `sends`: further ones of tasks
    that send; `rows`: the asset that the last task, which loads, publishes.
    """
    tasks = []
    for stage in [*stages.at_vantage(plan), *stages.afterwards(plan), stages.named(stages.LOAD)]:
        kind = TimedStageOperator if stage.timed else StageOperator
        more = sends if stage.sends else {}
        outlets = [rows] if stage.name == stages.LOAD else []
        tasks.append(kind(task_id=stage.name, stage=stage.name, outlets=outlets, **{**place, **more}))
    return tasks


def captured(run: Run, key: StageKey) -> bool:
    """Whether a capture was taken there: none is without `capture.enabled`, or when there was nothing to
    probe."""
    from firstflight import capture

    return bool(capture.records(run.layout.stage("capture", key)))


def centre_of(run: str) -> tuple[str, Callable[[], str]]:
    """The centre's address as a vantage point's worker knows it, and what signs tokens for that run."""
    from airflow.sdk.configuration import conf

    from orchestration.site import centre_token

    secret = str(conf.get("api_auth", "jwt_secret"))
    return str(conf.get("edge", "api_url")).partition("/edge_worker/")[0], lambda: centre_token.sign(
        secret, run
    )
