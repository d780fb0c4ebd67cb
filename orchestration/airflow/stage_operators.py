"""Operators for a vantage point: fetch a run's inputs, run its stages one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, TriggerRule, chain
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from firstflight.shard import WHOLE, parse
from orchestration import stages
from orchestration.airflow.dag_run import period_of
from orchestration.airflow.operators import FirstflightOperator, airflow_errors, reschedule
from orchestration.stages import RunPlan

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firstflight.layout import StageKey
    from firstflight.run.run import Run

# Retries of a stage that may fail, because later stages wait for it.
FEW_RETRIES = 3
# Interval of checks for a stop while a repetition is not due yet; each check starts a process.
POLL_WHILE_WAITING = timedelta(hours=1)


class FetchInputs(FirstflightOperator):
    """Fetches a run's settings, targets, AS data and lists to the vantage point; returns the run's id."""

    template_fields: Sequence[str] = ("run",)

    def __init__(self, *, vantage: str, run: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vantage = vantage
        self.run = run

    def execute(self, context: Context) -> str:
        """Fetch the files that this machine does not have yet."""
        del context
        from orchestration.site import inputs

        with airflow_errors():
            run = inputs.fetch(
                str(self.run), inputs.local_vantage_point(self.vantage), *centre_of(str(self.run))
            )
        return run.id


class StageOperator(FirstflightOperator):
    """Runs a stage at a vantage point, or for a single shard, unless it is done.

    `needs`: a stage that must be done before this one starts, if the trigger rule does not ensure that.
    """

    template_fields: Sequence[str] = ("run", "repetition")

    def __init__(
        self,
        *,
        stage: str,
        vantage: str,
        run: Any,
        repetition: Any,
        shard: str = str(WHOLE),
        needs: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.needs = needs
        self.shard = shard
        self.stage = stage
        self.vantage = vantage
        self.run = run
        self.repetition = repetition

    def execute(self, context: Context) -> dict[str, Any]:
        """Run the stage; return the counts."""
        from firstflight.run.run import Run
        from orchestration.runner import key_options

        with airflow_errors():
            run = Run.with_id(str(self.run))
            key = run.key(self.vantage, int(self.repetition), parse(self.shard))
            stage = stages.named(self.stage)
            if not stage.is_enabled(run.settings):
                self.log.info("%s.enabled is false in the run's settings: nothing to do", stage.enabled_by)
                return {"rows": 0}
            stops = partial(self._is_stopped, run)
            if stage.sends:
                if stops():
                    return self._skip(f"run {run.id} is stopped: nothing was sent", run, key)
                if (too_late := self._wait_until_due(run, key)) is not None:
                    return self._skip(too_late, run, key)
            if self.needs is not None and not run.done(self.needs, key):
                raise AirflowFailException(f"stage {self.needs} of {key} has failed: clear its task first")
            if stage.name == stages.LOAD:
                return self._load(context, run, key)
            if stage.needs_capture and not captured(run, key):
                self.log.info("there is no capture to dissect")
                return {"rows": 0}
            arguments = ("stage", self.stage, "--run", run.id, *key_options(key), *self._more(context))
            self.firstflight(context, *arguments, resumes=True, stops=stops)
            return self._counts(run, key)

    def _counts(self, run: Run, key: StageKey) -> dict[str, Any]:
        report = run.report(self.stage, key)
        return {"rows": report.rows_out, **report.counts} if report is not None else {}

    def _skip(self, reason: str, run: Run, key: StageKey) -> dict[str, Any]:
        """Skip the task, and with it all later ones, if the key has measured nothing.

        Otherwise the task succeeds, and later stages process and load the rows.
        """
        if not has_begun(run, key):
            raise AirflowSkipException(reason)
        self.log.info(reason)
        return self._counts(run, key)

    def _is_stopped(self, run: Run) -> bool:
        """Return whether the run is stopped, here or at the centre."""
        from orchestration.site import inputs

        return inputs.is_stopped(run, *centre_of(run.id))

    def _more(self, context: Context) -> list[str]:
        """Return additional options for this stage."""
        del context
        return []

    def _load(self, context: Context, run: Run, key: StageKey) -> dict[str, Any]:
        """Load this run's part and all other pending uploads."""
        from orchestration.site import pending_uploads

        # Faults of other parts are logged and do not fail this task.
        self.firstflight(context, "uploads", "load", check=False)
        if not pending_uploads.is_loaded(run, key):
            raise self.failed("uploads", "load")
        report = run.report(stages.LOAD, key)
        counts: dict[str, Any] = dict(report.counts) if report is not None else {}
        for outlet in self.outlets:
            extra: dict[str, Any] = dict(key.columns())
            context["outlet_events"][outlet].extra = {**extra, "rows": counts}
        return counts

    def _wait_until_due(self, run: Run, key: StageKey) -> str | None:
        """Reschedule until the repetition is due; return why it must not begin if it was due days ago."""
        from orchestration.airflow import due as times

        started = datetime.fromisoformat(str(run.manifest["started_at"]))
        due = times.repetition(started, run.settings.campaign.repetition_interval_s, key.repetition)
        now = datetime.now(UTC)
        main = stages.main(stages.plan_of(run)).name
        if any(run.report(stage, key) is not None for stage in (self.stage, main)):
            return None  # continue it
        if now > due + times.TOO_LATE:
            return f"repetition {key.repetition} was due at {due:%Y-%m-%d %H:%M} UTC: too late"
        if now < due:
            self.log.info("repetition %d begins at %s", key.repetition, f"{due:%Y-%m-%d %H:%M:%S} UTC")
            # In several intervals, because the run may be stopped meanwhile.
            raise reschedule(min(due, now + POLL_WHILE_WAITING))
        return None


class TimedStageOperator(StageOperator):
    """Runs a stage for the period of the DAG run; every try passes the same period."""

    def _wait_until_due(self, run: Run, key: StageKey) -> None:
        """Do not wait: the stage keeps its times itself, and records the slots that it missed."""

    def _more(self, context: Context) -> list[str]:
        begins, length_s, _ = period_of(context)
        return ["--start", f"{begins:%Y-%m-%dT%H:%M:%SZ}", "--period", f"{length_s:g}"]


def stage_tasks(
    plan: RunPlan, common: Mapping[str, Any], sends: Mapping[str, Any], *, rows: Asset
) -> list[StageOperator]:
    """Create a task for each scheduled stage in a plan at one vantage point, one after the other.

    If a stage that may fail does fail, the next stage still runs, unless the stage before both has failed.

    `common`: arguments of every task (vantage point, run, repetition, shard, queue); `sends`: further
    arguments of tasks that send; `rows`: the asset that the last task, which loads, publishes.
    """
    tasks: list[StageOperator] = []
    may_fail: StageOperator | None = None
    for stage in stages.scheduled(plan):
        kind = TimedStageOperator if stage.timed else StageOperator
        more = sends if stage.sends else {}
        more = {**common, **more, "outlets": [rows] if stage.name == stages.LOAD else []}
        if stage.may_fail:
            more["retries"] = FEW_RETRIES
        if may_fail is not None:
            more |= {"trigger_rule": TriggerRule.ALL_DONE_MIN_ONE_SUCCESS, "needs": tasks[-2].stage}
        task = kind(task_id=stage.name, stage=stage.name, **more)
        if may_fail is not None:
            tasks[-2] >> task
        may_fail = task if stage.may_fail else None
        tasks.append(task)
    chain(*tasks)
    return tasks


def has_begun(run: Run, key: StageKey) -> bool:
    """Return whether later stages may have rows to process or load.

    The key's main stage has started, or another stage in `stages.beginning` is done.
    """
    main, *others = stages.names(stages.beginning(stages.plan_of(run)))
    return run.report(main, key) is not None or any(run.done(other, key) for other in others)


def captured(run: Run, key: StageKey) -> bool:
    """Return whether a key has a capture: not with `capture.enabled` false, or with nothing to probe."""
    from firstflight import capture_files

    return bool(capture_files.records(run.layout.stage("capture", key)))


def centre_of(run: str) -> tuple[str, Callable[[], str]]:
    """Return the centre's address from the worker's configuration, and a function that signs tokens."""
    from airflow.sdk.configuration import conf

    from orchestration.site import centre_token

    secret = str(conf.get("api_auth", "jwt_secret"))
    return str(conf.get("edge", "api_url")).partition("/edge_worker/")[0], lambda: centre_token.sign(
        secret, run
    )
