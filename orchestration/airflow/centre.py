"""Operators of the centre: fetch lists and tables, load the centre's part, wait for all rows, report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowSkipException

from orchestration.airflow.dag_run import day_of
from orchestration.airflow.operators import FirstflightOperator, airflow_errors, reschedule

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firstflight.run.run import Run

FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


class FetchForDay(FirstflightOperator):
    """Runs the `targets` or `as_data` stage for the day of the DAG run; publishes an asset event."""

    def __init__(self, *, stage: str, asset: Asset, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], **kwargs)
        self.stage = stage

    def execute(self, context: Context) -> dict[str, Any]:
        """Fetch, check and store the list or table; return the asset event's extra."""
        from orchestration.site import site
        from orchestration.site.vantage_points import declared

        day = day_of(context)
        with airflow_errors():
            changes = {"campaign": {"name": f"{self.stage}-{day}"}}
            # A separate run for the list, because any number of runs may use it.
            run: Run = site.new_run(day, declared().vantage, changes)
            about = {"kind": self.stage, "date": str(day), "dag_run": context["dag_run"].run_id}
            run.write_manifest({**run.manifest, **about})
            # Status 1 can also mean that some lines were rejected and the rest is done.
            self.firstflight(context, "stage", self.stage, "--run", run.id, check=False)
            if not run.done(self.stage):
                raise self.failed("stage", self.stage)
            extra = _extra(run, self.stage, str(day))
        context["outlet_events"][self.outlets[0]].extra = extra
        return extra


class CrawlFiles(FirstflightOperator):
    """Runs the crawl stage of an opened run; publishes an asset event."""

    template_fields: Sequence[str] = ("run",)

    def __init__(self, *, run: Any, asset: Asset, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], **kwargs)
        self.run = run

    def execute(self, context: Context) -> dict[str, Any]:
        """Start or continue the crawl; return the asset event's extra. A stopped crawl publishes nothing."""
        from firstflight.run.run import Run

        with airflow_errors():
            run = Run.with_id(str(self.run))
            stops = run.layout.stop_file.exists
            self.firstflight(context, "stage", "crawl", "--run", run.id, resumes=True, stops=stops)
            if not run.done("crawl"):
                raise AirflowSkipException(f"run {run.id} is stopped: there are no files for downloads")
            ended = {"state": "done", "ended_at": datetime.now(UTC).isoformat()}
            run.write_manifest({**run.manifest, **ended})
            extra = _extra(run, "crawl", str(run.manifest["date"]))
        context["outlet_events"][self.outlets[0]].extra = extra
        return extra


def _extra(run: Run, stage: str, day: str) -> dict[str, Any]:
    """Return the extra of the asset event for a finished stage."""
    report = run.report(stage)
    assert report is not None
    return {
        "run": run.id,
        "date": day,
        "rows": report.rows_out,
        "rejected": len(report.rejected),
        "id": _identity(run, stage),
        "counts": dict(report.counts),
    }


def _identity(run: Run, stage: str) -> str:
    """Return the list id of a list or of a crawl's list (Tranco's), or the hash of a table."""
    report = run.report(stage)
    assert report is not None
    if stage != "as_data":
        import pyarrow.parquet as pq

        ids = pq.read_table(run.layout.targets, columns=["list_id"])["list_id"].unique().to_pylist()
        return ", ".join(str(value) for value in ids)
    return next(sha[:16] for name, sha in report.outputs.items() if name.endswith("rib.pyasn"))


class LoadCentre(FirstflightOperator):
    """Loads the centre's part of a run into the store: the run's row and its list."""

    template_fields: Sequence[str] = ("run",)

    def __init__(self, *, run: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def execute(self, context: Context) -> None:
        """Load the run's part; idempotent."""
        from firstflight.run.run import Run

        with airflow_errors():
            run = Run.with_id(str(self.run))
            self.firstflight(context, "stage", "load", "--run", run.id)


class Gather(FirstflightOperator):
    """Waits until the tasks of all vantage points have finished, or the deadline has passed."""

    template_fields: Sequence[str] = ("run",)

    def __init__(self, *, run: Any, ends: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.ends = list(ends)  # task ids, the last of each vantage point

    poll_every = timedelta(seconds=10)

    def execute(self, context: Context) -> None:
        """Check the tasks' states; reschedule, without occupying a slot, until the deadline at the latest."""
        from firstflight.run.run import Run
        from orchestration.airflow import due as due_times

        dag_run = context["dag_run"]
        states = context["ti"].get_task_states(dag_id=dag_run.dag_id, run_ids=[dag_run.run_id])
        of_run = states.get(dag_run.run_id, {})
        waiting = sorted(task for task in self.ends if not _is_finished(task, of_run))
        if not waiting:
            return
        with airflow_errors():
            run = Run.with_id(str(self.run))
            due = due_times.report(
                datetime.fromisoformat(str(run.manifest["started_at"])),
                run.settings.campaign.repetition_interval_s,
                run.settings.campaign.repetitions,
                context["params"]["report_after_minutes"],
                run.stopped_at(),
            )
        if datetime.now(UTC) >= due:
            self.log.warning("the report no longer waits for %s", ", ".join(waiting))
            return
        self.log.info("waiting until %s for %s", f"{due:%Y-%m-%d %H:%M} UTC", ", ".join(waiting))
        raise reschedule(min(due, datetime.now(UTC) + self.poll_every))


def _is_finished(task: str, states: dict[str, Any]) -> bool:
    """Return whether a task, or each instance of a mapped one (TASK_0, TASK_1, ...), has finished."""
    states_of_task = [
        state for name, state in states.items() if name == task or name.rpartition("_")[0] == task
    ]
    return bool(states_of_task) and all(str(state) in FINISHED for state in states_of_task)


class ReportRun(FirstflightOperator):
    """Records a run's outcome and its missing parts, and creates its report."""

    template_fields: Sequence[str] = ("run",)

    def __init__(self, *, run: Any, late: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.late = late

    def execute(self, context: Context) -> dict[str, Any]:
        """Query the store for the run's rows; return rows per vantage point, and missing parts."""
        from firstflight.run.run import Run
        from orchestration.site import outcome

        if self.run is None or str(self.run) == "None":
            raise AirflowSkipException("no run was opened")
        # Retries a UsageError, because the store's configuration (its password) may be corrected meanwhile.
        with airflow_errors(retry_usage=True):
            run = Run.with_id(str(self.run))
            found = outcome.of(run)
            if self.late and outcome.is_written(run, found):
                raise AirflowSkipException("no rows have arrived since the report was made")
            outcome.write(run, found)
        self.firstflight(context, "stage", "load", "--run", run.id)
        for sentence in found.sentences():
            (self.log.warning if found.missing else self.log.info)(sentence)
        outcome.make_page(run, lambda *arguments: self.firstflight(context, *arguments))
        extra: dict[str, Any] = {
            "run": run.id,
            "rows": found.rows,
            "missing": [str(m) for m in found.missing],
        }
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = extra
        return extra
