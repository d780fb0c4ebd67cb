"""What the centre's tasks do: fetch lists and tables, open a run, wait for its rows, report on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from datetime import date as Date
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from firstflight.schedule.operators import FirstflightOperator, come_back, in_one_sentence
from firstflight.schedule.vantage_points import declared

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firstflight.runs import Run

FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


class FetchForDay(FirstflightOperator):
    """The `targets` or `as_data` stage for the day of the DAG's run; its asset's event says what came."""

    def __init__(self, *, stage: str, asset: Asset, **kwargs: Any) -> None:
        super().__init__(outlets=[asset], **kwargs)
        self.stage = stage

    def execute(self, context: Context) -> dict[str, Any]:
        """Fetch, check and keep the list or table; gives the asset event's extra."""
        from firstflight.schedule import site
        from firstflight.schedule.vantage_points import declared

        day = day_of(context)
        with in_one_sentence():
            changes = {"campaign": {"name": f"{self.stage}-{day}"}}
            # A list of its own run, because several runs may use it, and it may be fetched when none does.
            run: Run = site.new_run(day, declared().vantage, changes)
            # Status 1 says as well that some lines were rejected, and the rest is done.
            self.firstflight(context, "stage", self.stage, "--run", run.id, judged=False)
            if not run.done(self.stage):
                raise self.failed("stage", self.stage)
            report = run.report(self.stage)
            assert report is not None
            extra: dict[str, Any] = {
                "run": run.id,
                "date": str(day),
                "rows": report.rows_out,
                "rejected": len(report.rejected),
                "id": _identity(run, self.stage),
                "counts": dict(report.counts),
            }
        context["outlet_events"][self.outlets[0]].extra = extra
        return extra


def day_of(context: Context) -> Date:
    """The day (UTC) that a daily run is for: of its logical date, else today."""
    at = context["dag_run"].logical_date or datetime.now(UTC)
    return at.astimezone(UTC).date()


def _identity(run: Run, stage: str) -> str:
    """What tells this list or table from others: Tranco's list id, or the hash of the table in force."""
    report = run.report(stage)
    assert report is not None
    if stage == "targets":
        import pyarrow.parquet as pq

        ids = pq.read_table(run.targets, columns=["list_id"])["list_id"].unique().to_pylist()
        return ", ".join(str(value) for value in ids)
    return next(sha[:16] for name, sha in report.outputs.items() if name.endswith("rib.pyasn"))


class Open(FirstflightOperator):
    """Base: makes a run at the centre and offers its inputs to the vantage points; gives the run's id."""

    def offer(self, context: Context, run: Run, taken: dict[str, dict[str, Any]], **more: Any) -> str:
        """Take the finished stages named in `taken` (stage -> asset event's extra), and publish the run."""
        from firstflight.runs import Run
        from firstflight.schedule import inputs, site

        for stage, event in taken.items():
            site.take_stage(run, stage, Run.open(event["run"]))
        shown = {
            stage: {key: e.get(key) for key in ("run", "date", "id", "rows")} for stage, e in taken.items()
        }
        manifest = {**run.manifest, **more, "dag_run": context["dag_run"].run_id, "inputs": shown}
        run.write_manifest(manifest)
        size = sum(entry["bytes"] for entry in inputs.publish(run))
        self.log.info("run %s: inputs of %d bytes for the vantage points", run.id, size)
        return run.id


class OpenScan(Open):
    """A run of the newest list and table."""

    def __init__(self, *, targets: Asset, as_data: Asset, **kwargs: Any) -> None:
        super().__init__(inlets=[targets, as_data], **kwargs)
        self.assets = {"targets": targets, "as_data": as_data}

    def execute(self, context: Context) -> str:
        """Skips a run whose list or table is older than the parameter max_age_days allows."""
        from firstflight.schedule import site

        params = context["params"]
        newest = {stage: newest_event(context, asset) for stage, asset in self.assets.items()}
        for stage, event in newest.items():
            age = datetime.now(UTC).date() - Date.fromisoformat(event["date"])
            if age.days > params["max_age_days"]:
                raise AirflowSkipException(
                    f"the newest {stage} is of {event['date']}, {age.days} days old, and max_age_days is "
                    f"{params['max_age_days']}: run the DAG {stage} for a newer day, or allow more"
                )
        # All that are declared, whoever takes part: turns at a prefix go by this list (ledger.py).
        points = declared().vantage
        if params["rate"] is not None:
            rate = float(params["rate"])
            points = tuple(p.model_copy(update={"scan_rate": min(rate, p.scan_rate)}) for p in points)
        changes: dict[str, dict[str, Any]] = {
            "campaign": {
                "name": context["dag"].dag_id,
                "repetitions": params["repetitions"],
                "repetition_interval_s": params["repetition_interval_minutes"] * 60,
            },
            "probe": {"families": params["families"]},
        }
        with in_one_sentence():
            run = site.new_run(Date.fromisoformat(newest["targets"]["date"]), points, changes)
            return self.offer(context, run, newest, vantage_points=params["vantage_points"])


class OpenWatch(Open):
    """The run of the day for scheduled periods, a run of its own for one that a person starts."""

    def __init__(self, *, as_data: Asset, **kwargs: Any) -> None:
        super().__init__(inlets=[as_data], **kwargs)
        self.as_data = as_data

    def execute(self, context: Context) -> str:
        """Fetches the watched names (watch.toml) when it makes a run."""
        from firstflight.schedule import site

        begins = period_of(context)[0]
        event = newest_event(context, self.as_data)
        name = context["dag"].dag_id
        by_hand = context["dag_run"].logical_date is None
        points = [point.watching(by_hand=by_hand) for point in declared().vantage]

        def make() -> Run:
            changes: dict[str, dict[str, Any]] = {"campaign": {"name": name}}
            minute_s = context["params"]["minute_s"]
            if minute_s is not None:
                changes["watch"] = {"minute_s": minute_s}
            run = site.new_run(begins.date(), points, changes, site.WATCH_FILE)
            self.firstflight(context, "stage", "targets", "--run", run.id, judged=False)
            if not run.done("targets"):
                raise self.failed("stage", "targets")
            self.offer(context, run, {"as_data": event}, kind="watch")
            return run

        with in_one_sentence():
            if by_hand:
                return make().id
            return site.run_of_day(name, begins.date(), make).id


def period_of(context: Context) -> tuple[datetime, float, int]:
    """When a watch's period begins (UTC), how many seconds it lasts, its number within its run.

    A scheduled one begins at the next full hour after it was due, and is the hour's; one that a person starts
    begins two minutes later, or as `begins_after_s` says.
    """
    dag_run, params = context["dag_run"], context["params"]
    if dag_run.logical_date is None:
        asked = (dag_run.run_after or datetime.now(UTC)).astimezone(UTC)
        begins = asked + timedelta(seconds=params["begins_after_s"])
        return begins, params["period_minutes"] * 60.0, 1
    due = dag_run.logical_date.astimezone(UTC)
    begins = due.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return begins, 3600.0, begins.hour + 1


def newest_event(context: Context, asset: Asset) -> dict[str, Any]:
    """The extra of the asset's event with the newest date: not always the last, as backfills come late."""
    extras: list[dict[str, Any]] = [event.extra or {} for event in context["inlet_events"][asset]]
    events = [extra for extra in extras if extra.get("run")]
    if not events:
        raise AirflowException(f"the asset {asset.name} was never published: run the DAG {asset.name} first")
    return max(reversed(events), key=lambda extra: str(extra["date"]))


class LoadCentre(FirstflightOperator):
    """The centre's part of a run into the store: its row, its list."""

    template_fields: Sequence[str] = ("run",)

    def __init__(self, *, run: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def execute(self, context: Context) -> None:
        """Load; doing it again changes nothing."""
        self.firstflight(context, "stage", "load", "--run", str(self.run))


class Gather(FirstflightOperator):
    """Wait until all vantage points have come to their end, or the deadline has passed."""

    template_fields: Sequence[str] = ("run",)

    def __init__(self, *, run: Any, ends: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.ends = list(ends)  # task ids, the last of each vantage point

    look_again = timedelta(seconds=10)

    def execute(self, context: Context) -> None:
        """Look, and come back in a while without holding a place; ends at the deadline in any case."""
        from firstflight.runs import Run

        dag_run = context["dag_run"]
        states = context["ti"].get_task_states(dag_id=dag_run.dag_id, run_ids=[dag_run.run_id])
        of_run = states.get(dag_run.run_id, {})
        waiting = sorted(task for task in self.ends if not _ended(task, of_run))
        if not waiting:
            return
        with in_one_sentence():
            run = Run.open(str(self.run))
        began = datetime.fromisoformat(str(run.manifest["started_at"]))
        due = began + timedelta(minutes=context["params"]["report_after_minutes"])
        if datetime.now(UTC) >= due:
            self.log.warning("the report does not wait any longer for %s", ", ".join(waiting))
            return
        self.log.info("waiting until %s for %s", f"{due:%H:%M} UTC", ", ".join(waiting))
        raise come_back(min(due, datetime.now(UTC) + self.look_again))


def _ended(task: str, states: dict[str, Any]) -> bool:
    """Whether a task, or each instance of a mapped one (TASK_0, TASK_1, ...), has come to its end."""
    own = [state for name, state in states.items() if name == task or name.rpartition("_")[0] == task]
    return bool(own) and all(str(state) in FINISHED for state in own)


class Report(FirstflightOperator):
    """Write down how a run ended, what is missing, and its report."""

    template_fields: Sequence[str] = ("run",)

    def __init__(self, *, run: Any, late: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.late = late

    def execute(self, context: Context) -> dict[str, Any]:
        """Ask the store what came in; gives rows per vantage point and what is missing."""
        from firstflight.runs import Run
        from firstflight.schedule import outcome

        if self.run is None or str(self.run) == "None":
            raise AirflowSkipException("no run was opened")
        with in_one_sentence():
            run = Run.open(str(self.run))
            before = run.manifest.get("missing")
            if self.late and before == []:
                raise AirflowSkipException("everything had come in when the report was made")
            found = outcome.of(run)
            if self.late and [str(m) for m in found.missing] == before:
                raise AirflowSkipException("nothing has come in since the report was made")
            outcome.write(run, found)
        self.firstflight(context, "stage", "load", "--run", run.id)
        for sentence in found.sentences():
            (self.log.warning if found.missing else self.log.info)(sentence)
        outcome.make_page(run, lambda *arguments: self.firstflight(context, *arguments))
        told: dict[str, Any] = {"run": run.id, "rows": found.rows, "missing": [str(m) for m in found.missing]}
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = told
        return told
