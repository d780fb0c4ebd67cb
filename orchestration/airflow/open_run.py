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


class Open(FirstflightOperator):
    """Base: creates a run at the centre and offers its inputs to the vantage points; returns the run's id."""

    @contextmanager
    def preparing(self, context: Context, run: Run, **about: Any) -> Iterator[None]:
        """Record the trigger in the manifest while the run is prepared; mark the run as failed on errors.

        `uploads clean` can then remove what a failed attempt left.
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

    def newest(self, context: Context, assets: Mapping[str, Asset]) -> dict[str, events.Extra]:
        """Return the newest event of each stage's asset; skip the task if they must not start a run."""
        taken = {stage: newest_event(context, asset, stage) for stage, asset in assets.items()}
        triggers = [
            event.extra or {} for each in context["triggering_asset_events"].values() for event in each
        ]
        today, max_age_days = datetime.now(UTC).date(), context["params"]["max_age_days"]
        reason = events.why_no_scan(taken, triggers, today, max_age_days)
        if reason is not None:
            raise AirflowSkipException(reason)
        return taken

    def fetch_list(self, context: Context, run: Run) -> None:
        """Run the `targets` stage of a run with a separate list; return the exception of a failure."""
        self.firstflight(context, "stage", "targets", "--run", run.id, check=False)
        if not run.done("targets"):
            raise self.failed("stage", "targets")


class OpenScan(Open):
    """Creates a scan run with the newest list and table."""

    def __init__(self, *, targets: Asset, as_data: Asset, **kwargs: Any) -> None:
        super().__init__(inlets=[targets, as_data], **kwargs)
        self.assets = {"targets": targets, "as_data": as_data}

    def execute(self, context: Context) -> str:
        """Create the run; skip if list or table is too old, or only a backfill of older ones started it."""
        from orchestration.site import site

        params = context["params"]
        with airflow_errors():
            taken = self.newest(context, self.assets)
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
        if (share := params["handshake_share"]) is not None:
            changes["handshake"] = {"enabled": share > 0} | ({"share": float(share)} if share > 0 else {})
        with airflow_errors():
            changes["campaign"] = campaign_of(context)
            run = site.new_run(Date.fromisoformat(taken["targets"]["date"]), points, changes)
            with self.preparing(context, run):
                return self.offer(context, run, taken, vantage_points=params["vantage_points"])


class OpenWatch(Open):
    """Creates or returns the day's run for scheduled periods; creates a separate run for a manual period."""

    def __init__(self, *, as_data: Asset, **kwargs: Any) -> None:
        super().__init__(inlets=[as_data], **kwargs)
        self.as_data = as_data

    def execute(self, context: Context) -> str:
        """Return the run's id; fetch the watched names (watch.toml) if the run is new."""
        from orchestration.site import site

        begins = period_of(context).begins
        name = context["dag"].dag_id
        manual = not is_planned(context)
        points = [point.watching(manual=manual) for point in declared().vantage]

        def make() -> Run:
            event = newest_event(context, self.as_data)
            # The limits are for one watch: a manual watch takes precedence over the scheduled one.
            watch: dict[str, Any] = {"gives_way": not manual}
            if context["params"]["minute_s"] is not None:
                watch["minute_s"] = context["params"]["minute_s"]
            changes = {"campaign": {"name": name}, "watch": watch}
            run = site.new_run(begins.date(), points, changes, site.WATCH_FILE)
            with self.preparing(context, run):
                self.fetch_list(context, run)
                self.offer(context, run, {"as_data": event}, kind="watch")
            return run

        with airflow_errors():
            if manual:
                return make().id
            return site.run_of_day(name, begins.date(), make).id


class OpenSurvey(Open):
    """Creates the run of a survey, with the list of downloads.toml of its day and the newest table."""

    def __init__(self, *, as_data: Asset, **kwargs: Any) -> None:
        super().__init__(inlets=[as_data], **kwargs)
        self.as_data = as_data

    def execute(self, context: Context) -> str:
        """Create the run and fetch its list; skip if the table is too old."""
        from orchestration.site import site

        params = context["params"]
        with airflow_errors():
            taken = self.newest(context, {"as_data": self.as_data})
            changes = {"campaign": campaign_of(context), **stages.enabling("tcp_options")}
            run = site.new_run(day_of(context), declared().vantage, changes, site.DOWNLOADS_FILE)
            more = {"kind": stages.Plan.SURVEY.value, "vantage_points": params["vantage_points"]}
            with self.preparing(context, run):
                self.fetch_list(context, run)
                return self.offer(context, run, taken, **more)


class OpenDownloads(Open):
    """Creates the run of downloads, with the files of the newest crawl, its list, and the newest table."""

    def __init__(self, *, crawl: Asset, as_data: Asset, **kwargs: Any) -> None:
        super().__init__(inlets=[crawl, as_data], **kwargs)
        self.assets = {"crawl": crawl, "as_data": as_data}

    def execute(self, context: Context) -> str:
        """Create the run; skip if crawl or table is too old, or only a backfill of older ones started it."""
        from orchestration.site import site

        with airflow_errors():
            taken = self.newest(context, self.assets)
            day = Date.fromisoformat(str(taken["crawl"]["date"]))
            changes = {"campaign": campaign_of(context), **stages.enabling("download")}
            run = site.new_run(day, declared().vantage, changes, site.DOWNLOADS_FILE)
            chosen = context["params"]["vantage_points"]
            more = {"kind": stages.Plan.DOWNLOADS.value, "vantage_points": chosen}
            with self.preparing(context, run):
                return self.offer(context, run, {"targets": taken["crawl"], **taken}, **more)


class OpenCrawl(Open):
    """Creates the run of a crawl for the day of the DAG run, with the list of downloads.toml."""

    def execute(self, context: Context) -> str:
        """Return the run's id, once its list is there."""
        from orchestration.site import site

        day = day_of(context)
        name: dict[str, Any] = {"name": context["dag"].dag_id}
        changes = {"campaign": name, **stages.enabling("crawl")}
        with airflow_errors():
            run = site.new_run(day, declared().vantage, changes, site.DOWNLOADS_FILE)
            with self.preparing(context, run, kind="crawl", date=str(day)):
                self.fetch_list(context, run)
        return run.id


def campaign_of(context: Context) -> dict[str, Any]:
    """Return the campaign's settings by the parameters of a DAG run; UsageError if it would take too long."""
    params = context["params"]
    interval_s = params["repetition_interval_minutes"] * 60
    due.check_length(interval_s, params["repetitions"])
    return {
        "name": context["dag"].dag_id,
        "repetitions": params["repetitions"],
        "repetition_interval_s": interval_s,
    }


def newest_event(context: Context, asset: Asset, dag: str | None = None) -> events.Extra:
    """Return the extra of the asset's event with the newest date; FirstflightError if never published."""
    return events.newest(asset.name, [event.extra or {} for event in context["inlet_events"][asset]], dag)
