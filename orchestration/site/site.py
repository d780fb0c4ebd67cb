"""Creates a site's runs at the centre, from site.toml, watch.toml and downloads.toml.

They are settings files (firstflight/settings) without [[vantage]], which vantage_points.toml declares, and
without dates, which the schedule sets. A scheduled run is an ordinary run: `firstflight runs`, `stage` and
`trace` work on it.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import date as Date
from datetime import timedelta
from pathlib import Path
from typing import Any

from firstflight import settings
from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.layout import RunLayout
from firstflight.run.provenance import tool_version
from firstflight.run.run import Run, runs_root
from firstflight.system import files, lock, path_names
from orchestration.site.offer import FILES
from orchestration.site.vantage_points import SiteVantagePoint, site_folder

FILE = "site.toml"
WATCH_FILE = "watch.toml"
DOWNLOADS_FILE = "downloads.toml"
CRUX_OUT_ON = 15  # day of the month by which the previous month's list is published


def settings_for(
    day: Date,
    points: Iterable[SiteVantagePoint],
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    file: str = FILE,
) -> tuple[settings.Settings, str]:
    """Return the settings for a run on this day at these vantage points, and the text of the site's `file`.

    `changes` (section -> key -> value) override the file. UsageError: one sentence per fault.
    """
    path = site_folder() / file
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    if "vantage" in data:
        raise UsageError(f"{path}: [[vantage]] belongs in vantage_points.toml: move it there")
    if data.get("campaign", {}).get("before_repetition"):
        raise UsageError(f"{path}: campaign.before_repetition does not work on a schedule: remove it")
    if data.get("download", {}).get("draw") == "survey":
        raise UsageError(
            f'{path}: download.draw = "survey" does not work on a schedule, which surveys TCP options in '
            "separate runs: remove it"
        )
    # A day's watch is prepared on the day before, when the day's list does not exist yet.
    of_list = day - timedelta(days=1) if file == WATCH_FILE else day
    _date(data, "targets", "source", ("file", "crux"), of_list, given=("date", "list_id"))
    _date(data, "as_data", "rib", ("file",), day, given=("date",))
    _more_dates(data, day)
    for section, values in (changes or {}).items():
        data.setdefault(section, {}).update(values)
    data["vantage"] = [_vantage(point, file) for point in points]
    return settings.check(data, str(path), path.resolve().parent), text


def _date(
    data: dict[str, Any],
    section: str,
    key: str,
    dateless: tuple[str, ...],
    day: Date,
    *,
    given: tuple[str, ...],
) -> None:
    """Set a section's `date` to `day`, if its source `key` has dates and the file does not select one.

    `dateless`: sources without dates. `given`: keys of the file that select a date.
    """
    values = data.get(section, {})
    if values.get(key) not in (None, *dateless) and not any(name in values for name in given):
        values["date"] = day


def _more_dates(data: dict[str, Any], day: Date) -> None:
    """Set the month of the CrUX list, published about the 10th of the next month, and the day of AS names."""
    targets, as_data = data.get("targets", {}), data.get("as_data", {})
    if "crux" in str(targets.get("source")) and "crux_month" not in targets:
        back = 1 if day.day >= CRUX_OUT_ON else 2
        months = day.year * 12 + day.month - 1 - back
        targets["crux_month"] = f"{months // 12}{months % 12 + 1:02}"
    if as_data.get("as2org") == "caida" and "as2org_date" not in as_data:
        as_data["as2org_date"] = day


def _vantage(point: SiteVantagePoint, file: str) -> dict[str, Any]:
    watch = file == WATCH_FILE
    common = set(settings.VantagePoint.model_fields)
    if watch:  # a watch has no turns; a survey is not divided and has the first shard's turns
        common.discard("shards")
    return {
        **point.model_dump(mode="json", include=common, exclude_none=True),
        "rate": point.watch_rate if watch else point.scan_rate,
        "ports": point.watch_ports if watch else point.scan_ports,
    }


def new_run(
    day: Date,
    points: Iterable[SiteVantagePoint],
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    file: str = FILE,
) -> Run:
    """Create a run at the centre, with settings that are valid at every vantage point.

    Copies its lists into the run; the settings name them by paths relative to the run's folder.
    """
    in_force, text = settings_for(day, points, changes, file)
    run = Run.create(in_force, text)
    try:
        stored = in_force.model_dump(mode="json")
        for key in ("blocklist", "optout"):
            paths = getattr(in_force.probe, key)
            stored["probe"][key] = [_copied(path, run, key, n) for n, path in enumerate(paths)]
        for number, (section, key) in enumerate(FILES):
            if (path := getattr(getattr(in_force, section), key)) is not None:
                stored[section][key] = _copied(path, run, key, number)
        files.write_json(run.layout.settings, stored)
        run.write_manifest({**run.manifest, "settings_sha256": files.sha256_of(run.layout.settings)})
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)  # it is not published yet
        raise
    return Run(run.path)


def _copied(path: Path, run: Run, kind: str, number: int) -> str:
    copy = run.layout.list_copy(kind, number, path.name)
    with files.replacing(copy) as part:
        shutil.copyfile(path, part)
    return str(copy.relative_to(run.path))


def take_stage(run: Run, stage: str, source: Run) -> None:
    """Link the finished stage of another run into `run`: the files as hard links, with the report.

    InputError if the stage of the other run is not done.
    """
    if not source.done(stage):
        raise InputError(
            f"run {source.id} at the centre has no finished stage {stage}: run the DAG {stage} again"
        )
    report = source.report(stage)
    assert report is not None
    folder = run.layout.stage(stage)
    with files.explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for name in report.outputs:
            target = path_names.inside(run.path, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                target.hardlink_to(path_names.inside(source.path, name))
    # Last, because the report marks the stage as done.
    files.write_text(run.layout.report(stage), source.layout.report(stage).read_text(encoding="utf-8"))


def run_of_day(name: str, day: Date, make: Callable[[], Run]) -> Run:
    """Return the day's run called `name`; call `make` to create it if it does not exist.

    After an upgrade a new run is created, because vantage points require the version that created the run.
    Tasks may call this concurrently; only one of the calls creates the run.
    """
    with lock.locked(runs_root() / f"{name}.lock", f"the runs called {name}", 300, FirstflightError):
        index = runs_root() / f"{name}-{day}.json"
        if index.is_file():
            path = runs_root() / path_names.run_id(str(files.read_json(index)["run"]))
            if RunLayout(path).manifest.is_file():
                run = Run(path)
                if run.manifest["tool_version"] == tool_version():
                    return run
        run = make()
        files.write_json(index, {"run": run.id})
        return run
