"""Creates a run at the centre: selects list, table and vantage points, and publishes the run's inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from datetime import date as Date
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowSkipException

from orchestration import stages
from orchestration.airflow import due, events
from orchestration.airflow.dag_run import day_of, is_planned, period_of
from orchestration.airflow.operators import FirstflightOperator, airflow_errors
from orchestration.site.vantage_points import declared

if TYPE_CHECKING:
    from airflow.sdk import Context

    from firstflight.run.run import Run


# Only scans of names scan networks.
NO_SCAN = {"enabled": False}


class Open(FirstflightOperator):
    """Base: creates a run at the centre and offers its inputs to the vantage points; returns the run's id.

    `inputs`: stage -> asset; the newest event of the asset names the run that has finished the stage. Only
    events count that the DAG with the stage's name published. The first asset gives the new run its date and
    its list, unless the run fetches a list.
    """

    def __init__(self, *, inputs: Mapping[str, Asset] | None = None, **kwargs: Any) -> None:
        assets = dict(inputs or {})
        super().__init__(inlets=[*assets.values()], **kwargs)
        self.assets = assets

    @contextmanager
    def preparing(self, context: Context, run: Run, **about: Any) -> Iterator[None]:
        """Record the trigger in the manifest while the run is prepared; mark the run as failed on errors.

        `uploads clean` can then remove a failed attempt's files.
        """
        run.write_manifest({**run.manifest, **about, "dag_run": context["dag_run"].run_id})
        try:
            yield
        except BaseException:
            run.write_manifest({**run.manifest, "state": "failed"})
            raise

    def offer(self, context: Context, run: Run, taken: Mapping[str, events.Extra], **more: Any) -> str:
        """Link the finished stages named in `taken` (stage -> asset event's extra) and publish the run."""
        from firstflight.run.run import Run
        from orchestration.site import inputs, site

        for stage, event in taken.items():
            site.take_stage(run, stage, Run.with_id(str(event["run"])))
        shown = {
            stage: {key: e.get(key) for key in ("run", "date", "id", "rows")} for stage, e in taken.items()
        }
        manifest = {**run.manifest, **more, "dag_run": context["dag_run"].run_id, "inputs": shown}
        run.write_manifest(manifest)
        size = sum(entry["bytes"] for entry in inputs.publish(run))
        self.log.info("run %s: inputs of %d bytes for the vantage points", run.id, size)
        return run.id

    def published(self, context: Context) -> dict[str, events.Extra]:
        """Return the newest event of each stage's asset."""
        return {stage: newest_event(context, asset, stage) for stage, asset in self.assets.items()}

    def newest(self, context: Context) -> dict[str, events.Extra]:
        """Return the newest event of each stage's asset; skip the task if they must not start a run."""
        triggers = [event for found in context["triggering_asset_events"].values() for event in found]
        taken = self.published(context)
        today, max_age_days = datetime.now(UTC).date(), context["params"]["max_age_days"]
        reason = events.why_no_scan(taken, triggers, today, max_age_days)
        if reason is not None:
            raise AirflowSkipException(reason)
        return taken

    def listed(self, taken: Mapping[str, events.Extra]) -> events.Extra:
        """Return the event of the run that supplies the list and the date of the new run."""
        return taken[next(iter(self.assets))]

    def fetch_list(self, context: Context, run: Run) -> None:
        """Fetch a run's separate list; AirflowException if that fails."""
        self.firstflight(context, "stage", stages.LIST, "--run", run.id, check=False)
        if not run.done(stages.LIST):
            raise self.failed("stage", stages.LIST)


class OpenScan(Open):
    """Creates a scan run with the newest list and table.

    `shares`: section of the settings -> DAG parameter that overrides its share; 0 disables its stage.
    """

    def __init__(self, *, shares: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shares = dict(shares or {})

    def execute(self, context: Context) -> str:
        """Create the run; skip if list or table is too old, or only a backfill of older ones started it."""
        from orchestration.site import site

        params = context["params"]
        with airflow_errors():
            taken = self.newest(context)
            day = Date.fromisoformat(self.listed(taken)["date"])
        # All declared vantage points, even if they do not take part: turns depend on this list
        # (shared_limits.py).
        points = declared().vantage
        if params["rate"] is not None:
            rate = float(params["rate"])
            points = tuple(p.model_copy(update={"scan_rate": min(rate, p.scan_rate)}) for p in points)
        changes: dict[str, dict[str, Any]] = {
            **stages.enabling(),
            "probe": {"families": params["families"]},
        }
        if not due.is_scan_due(params["scan_networks"], day):
            changes["scan"] = NO_SCAN
        for section, parameter in self.shares.items():
            if (share := params[parameter]) is not None:
                changes[section] = {"enabled": share > 0} | ({"share": float(share)} if share > 0 else {})
        with airflow_errors():
            changes["campaign"] = campaign_of(context)
            run = site.new_run(day, points, changes)
            with self.preparing(context, run):
                return self.offer(context, run, taken, vantage_points=params["vantage_points"])


class OpenWatch(Open):
    """Creates or returns the day's run for scheduled periods; creates a separate run for a manual period."""

    def execute(self, context: Context) -> str:
        """Return the run's id; fetch the watched names (watch.toml) if the run is new."""
        from orchestration.site import site

        begins = period_of(context).begins
        name = context["dag"].dag_id
        manual = not is_planned(context)
        points = [point.watching(manual=manual) for point in declared().vantage]

        def make() -> Run:
            taken = self.published(context)
            # The limits are for one watch: a manual watch takes precedence over the scheduled one.
            watch: dict[str, Any] = {"precedence": "normal" if manual else "low"}
            if context["params"]["minute_s"] is not None:
                watch["minute_s"] = context["params"]["minute_s"]
            changes = {"campaign": {"name": name}, "watch": watch}
            run = site.new_run(begins.date(), points, changes, site.WATCH_FILE)
            with self.preparing(context, run):
                self.fetch_list(context, run)
                self.offer(context, run, taken, kind=stages.RunPlan.WATCH.value)
            return run

        with airflow_errors():
            if manual:
                return make().id
            return site.run_of_day(name, begins.date(), make).id


class OpenSurvey(Open):
    """Creates a survey's run, with the day's list of downloads.toml and the newest table."""

    def execute(self, context: Context) -> str:
        """Create the run and fetch its list; skip if the table is too old."""
        from orchestration.site import site

        params = context["params"]
        with airflow_errors():
            taken = self.newest(context)
            main = stages.main(stages.RunPlan.SURVEY).name
            changes = {"campaign": campaign_of(context), "scan": NO_SCAN, **stages.enabling(main)}
            run = site.new_run(day_of(context), declared().vantage, changes, site.DOWNLOADS_FILE)
            more = {"kind": stages.RunPlan.SURVEY.value, "vantage_points": params["vantage_points"]}
            with self.preparing(context, run):
                self.fetch_list(context, run)
                return self.offer(context, run, taken, **more)


class OpenDownloads(Open):
    """Creates the run of downloads, with the files of the newest crawl, its list, and the newest table."""

    def execute(self, context: Context) -> str:
        """Create the run; skip if crawl or table is too old, or only a backfill of older ones started it."""
        from orchestration.site import site

        with airflow_errors():
            taken = self.newest(context)
            listed = self.listed(taken)
            day = Date.fromisoformat(str(listed["date"]))
            main = stages.main(stages.RunPlan.DOWNLOADS).name
            changes = {"campaign": campaign_of(context), "scan": NO_SCAN, **stages.enabling(main)}
            run = site.new_run(day, declared().vantage, changes, site.DOWNLOADS_FILE)
            chosen = context["params"]["vantage_points"]
            more = {"kind": stages.RunPlan.DOWNLOADS.value, "vantage_points": chosen}
            with self.preparing(context, run):
                return self.offer(context, run, {stages.LIST: listed, **taken}, **more)


class OpenCrawl(Open):
    """Creates the run for a crawl for the day of the DAG run, with the list of downloads.toml."""

    def execute(self, context: Context) -> str:
        """Create the run and fetch its list; return the run's id."""
        from orchestration.site import site

        day = day_of(context)
        name: dict[str, Any] = {"name": context["dag"].dag_id}
        changes = {"campaign": name, **stages.enabling(*stages.names(stages.measuring_once()))}
        with airflow_errors():
            run = site.new_run(day, declared().vantage, changes, site.DOWNLOADS_FILE)
            with self.preparing(context, run, kind="crawl", date=str(day)):
                self.fetch_list(context, run)
        return run.id


def campaign_of(context: Context) -> dict[str, Any]:
    """Return the campaign's settings by a DAG run's parameters; UsageError if it would take too long."""
    params = context["params"]
    interval_s = params["repetition_interval_minutes"] * 60
    due.check_length(interval_s, params["repetitions"])
    return {
        "name": context["dag"].dag_id,
        "repetitions": params["repetitions"],
        "repetition_interval_s": interval_s,
    }


def newest_event(context: Context, asset: Asset, dag: str | None = None) -> events.Extra:
    """Return the extra of the asset's event with the newest date; FirstflightError if never published.

    Only events of the DAG `dag` count (`None`: the DAG of the same name).
    """
    published = events.published_by(dag or asset.name, context["inlet_events"][asset])
    return events.newest(asset.name, published, dag)
