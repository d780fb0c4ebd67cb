"""What a vantage point needs of a run, from the centre by HTTPS: settings, targets, AS data, lists.

At the centre `publish` writes RUN/inputs.json, which names every file with its hash; the plugin
(orchestration/airflow/plugin.py) offers those files and no others. At the vantage point `fetch` makes a run
of the same id in its own folder of runs; `offer` says what it takes from a centre. Why it is done this way:
docs/design.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstflight.errors import FirstflightError
from firstflight.layout import RunLayout
from firstflight.run.provenance import tool_version
from firstflight.run.run import Run, runs_root
from firstflight.system import files, path_names
from firstflight.system.clock import Offset
from firstflight.system.progress import print_line
from orchestration import stages
from orchestration.site import offer as offers
from orchestration.site import vantage_points
from orchestration.site.centre_client import PATH, SOON_S, Centre, CentreUnreachable
from orchestration.site.offer import Offer, OfferedFile
from orchestration.site.vantage_points import VantagePoint

if TYPE_CHECKING:
    import requests


class NotTheSame(FirstflightError):
    """Clock or code here are not the centre's; nothing is measured until they are."""


def publish(run: Run) -> list[dict[str, Any]]:
    """Write RUN/inputs.json at the centre and return its files: name, bytes, sha256."""
    folders = [run.layout.stage(name) for name in stages.names(stages.at_centre())] + [run.layout.lists]
    paths = [run.layout.settings, run.layout.config]
    paths += sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir())
    names = {path: str(path.relative_to(run.path)) for path in paths}
    listed = [
        {
            "name": names[path],
            "bytes": path.stat().st_size,
            "sha256": files.sha256_of(path),
        }
        for path in paths
        # Record files are the centre's to load, and the largest of all.
        if offers.may_be_offered(names[path]) and (path.suffix != ".parquet" or path == run.layout.targets)
    ]
    inputs = {"manifest": run.manifest, "files": listed}
    offers.check(inputs, run.id)
    files.write_json(run.layout.inputs, inputs)
    return listed


def published(run_id: str, name: str | None = None) -> Path | None:
    """The file of a run that the centre offers under that name (None: the list); None if there is none."""
    try:
        layout = RunLayout(runs_root() / path_names.run_id(run_id))
        if not layout.inputs.is_file():
            return None
        if name is None:
            return layout.inputs
        listed = offers.check(files.read_json(layout.inputs), run_id).files
        return path_names.inside(layout.root, name) if any(entry.name == name for entry in listed) else None
    except (path_names.UnsafeName, offers.BadOffer):
        return None


def fetch(
    run_id: str,
    vantage: VantagePoint,
    centre: str,
    token: Callable[[], str],
    session: requests.Session | None = None,
) -> Run:
    """Make the run `run_id` at this vantage point, or complete it; what is there already stays.

    `centre` is the URL before /firstflight/v1, `token` gives a fresh token (`centre_token.sign`).
    CentreUnreachable, NotTheSame, UnsafeName, BadOffer: one sentence.
    """
    import requests

    run = Run(runs_root() / path_names.run_id(run_id))
    with session or requests.Session() as session:
        source = Centre(session, centre, run_id, token)
        offset, inputs = source.inputs(lambda offset: check_clock(offset, vantage))
        # Before all else: another version may describe its inputs otherwise.
        check_code(str(inputs["manifest"].get("tool_version")), vantage)
        offer = offers.check(inputs, run_id)
        offset_s = None if offset is None else round(offset.offset_us / 1e6, 1)
        clock = "not compared" if offset_s is None else f"{offset_s:+.1f} s"
        fetched = sum(_fetch_file(source, run, entry) for entry in offer.files)
        if not run.layout.manifest.is_file():
            _settle(run, offer, vantage, f"{centre.rstrip('/')}{PATH}/")
            # Last: with its manifest the folder counts as a run.
            here = {"vantage": vantage.name, "clock_offset_s": offset_s}
            files.write_json(run.layout.manifest, {**inputs["manifest"], **here})
        print_line(f"inputs: {len(offer.files)} files, {fetched} of them fetched; clock {clock}")
    return run


def is_stopped(run: Run, centre: str, token: Callable[[], str]) -> bool:
    """Whether the run is stopped (docs/campaign.md), here or at the centre; then its stop file lies here too.

    While the centre does not answer, what is known here holds.
    """
    import requests

    if not run.layout.stop_file.exists():
        with requests.Session() as session, suppress(CentreUnreachable):
            if Centre(session, centre, run.id, token, SOON_S).is_stopped():
                files.write_text(run.layout.stop_file, "")
    return run.layout.stop_file.exists()


def check_clock(offset: Offset, vantage: VantagePoint) -> None:
    """Refuse to measure with a clock that is too far off the centre's (NotTheSame)."""
    if offset.exceeds():
        raise NotTheSame(
            f"the clock of {vantage.name} is {offset}: nothing was sent; set it (chronyc tracking) and the "
            "task will go on"
        )


def check_code(centre_version: str, vantage: VantagePoint) -> None:
    """Refuse to measure with other code than the centre's (NotTheSame)."""
    if centre_version != tool_version():
        raise NotTheSame(
            f"{vantage.name} has firstflight {tool_version()} and the run was made by {centre_version}: "
            "nothing was sent; bring both to one version (docs/operations.md) and the task will go on"
        )


def _fetch_file(source: Centre, run: Run, entry: OfferedFile) -> int:
    """Bring one file into the run, from the cache when it is known; 1 if it came over the network."""
    target = path_names.inside(run.path, entry.name)
    cached = path_names.inside(runs_root() / "cache", entry.sha256)
    if target.is_file():
        return 0
    came = 0
    if not cached.is_file():
        with files.replacing(cached) as part:
            source.stream(entry.name, part, entry.bytes)
            if files.sha256_of(part) != entry.sha256:
                raise CentreUnreachable(
                    f"{entry.name} came from the centre cut short or changed: it is fetched again"
                )
        came = 1
    with files.explain_os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.name in (offers.SETTINGS, offers.CONFIG):
            shutil.copyfile(cached, target)  # changed below, so not the cache's own
        else:
            target.hardlink_to(cached)
    return came


def _settle(run: Run, offer: Offer, vantage: VantagePoint, clock: str) -> None:
    """Lay over the run's settings what is this place's own; `clock`: the address of the centre's Date.

    BadOffer if the settings are not for this place to follow; then none are left here.
    """
    path = run.layout.settings
    try:
        stored = offers.check_settings(files.read_json(path), offer, run.path)
    except FirstflightError:
        path.unlink(missing_ok=True)
        raise
    if vantage.blocked:
        path_there = run.layout.lists / f"blocked-{vantage.name}.conf"
        name = str(path_there.relative_to(run.path))
        files.write_text(path_there, "".join(f"{network}\n" for network in vantage.blocked))
        blocklist = stored.setdefault("probe", {}).setdefault("blocklist", [])
        if name not in blocklist:
            blocklist.append(name)
    if vantage.resolver is not None:
        stored.setdefault("resolve", {})["resolver"] = vantage.resolver
    stored["store"] = {"url": None}  # FIRSTFLIGHT_STORE of this place
    stored["network"] = {"ca_bundle": None}  # that of the environment
    stored["centre"] = {"command": []}  # for the centre's own stages, there
    if stored.setdefault("clock", {}).get("reference") is None:
        stored["clock"]["reference"] = clock
    files.write_json(path, stored)


def here(name: str) -> VantagePoint:
    """The vantage point `name` as this place's vantage_points.toml declares it."""
    return vantage_points.declared().named(name)
