"""Transfers a run's inputs from the centre to a vantage point by HTTPS: settings, targets, AS data, lists.

At the centre `publish` writes RUN/inputs.json, which lists every file with its hash; the plugin
(orchestration/airflow/plugin.py) offers only those files. At the vantage point `fetch` creates a run with the
same id in the local folder of runs; `offer` checks the centre's answers. docs/design gives the reasons.
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
from firstflight.system import files, lock, path_names
from firstflight.system.network.clock import Offset
from firstflight.system.reporting.progress import print_line
from orchestration import stages
from orchestration.site import ceilings, vantage_points
from orchestration.site import offer as offers
from orchestration.site.centre_client import PATH, SOON_S, CentreClient, CentreUnreachable
from orchestration.site.offer import Offer, OfferedFile
from orchestration.site.vantage_points import SiteVantagePoint

if TYPE_CHECKING:
    import requests

# After an outage two tasks of a worker fetch the same run concurrently, and the first may take long.
_FETCHED_BY_ANOTHER_S = 600.0


class Mismatch(FirstflightError):
    """The local clock or code differs from the centre's; measurements wait until they agree."""


def publish(run: Run) -> list[dict[str, Any]]:
    """Write RUN/inputs.json at the centre and return the files: name, bytes, sha256."""
    folders = [run.layout.stage(name) for name in stages.names(stages.once_per_run())] + [run.layout.lists]
    paths = [run.layout.settings, run.layout.config]
    paths += sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir())
    read = (run.layout.targets, run.layout.crawl("download_file"))
    names = {path: str(path.relative_to(run.path)) for path in paths}
    offered = [
        {
            "name": names[path],
            "bytes": path.stat().st_size,
            "sha256": files.sha256_of(path),
        }
        for path in paths
        # Record files are large, and only the centre loads them: offer only the files that stages read.
        if offers.may_be_offered(names[path]) and (path.suffix != ".parquet" or path in read)
    ]
    inputs = {"manifest": run.manifest, "files": offered}
    offers.check(inputs, run.id)
    files.write_json(run.layout.inputs, inputs)
    return offered


def published(run_id: str, name: str | None = None) -> Path | None:
    """Return the path of an offered file, or of inputs.json without a name; `None` if it is not offered."""
    try:
        layout = RunLayout(runs_root() / path_names.run_id(run_id))
        if not layout.inputs.is_file():
            return None
        if name is None:
            return layout.inputs
        offered = offers.check(files.read_json(layout.inputs), run_id).files
        return path_names.inside(layout.root, name) if any(entry.name == name for entry in offered) else None
    except (path_names.UnsafeName, offers.BadOffer):
        return None


def fetch(
    run_id: str,
    vantage: SiteVantagePoint,
    centre: str,
    token: Callable[[], str],
    session: requests.Session | None = None,
) -> Run:
    """Create the run `run_id` at this vantage point, or complete it; existing files are kept.

    settings.json has the centre's settings with this vantage point's local values, such as its blocked
    networks; it never has the centre's settings without them. `centre` is the URL before /firstflight/v1,
    `token` returns a fresh token (`centre_token.sign`). Raises CentreUnreachable, Mismatch, UnsafeName or
    BadOffer.
    """
    import requests

    run = Run(runs_root() / path_names.run_id(run_id))
    with session or requests.Session() as session:
        source = CentreClient(session, centre, run_id, token)
        offset, inputs = source.inputs(lambda offset: check_clock(offset, vantage))
        # First, because another version may use another format of inputs.json.
        check_code(str(inputs["manifest"].get("tool_version")), vantage)
        offer = offers.check(inputs, run_id)
        offset_s = None if offset is None else round(offset.offset_us / 1e6, 1)
        compared = "not compared" if offset_s is None else f"{offset_s:+.1f} s"
        with lock.locked(
            _cache() / f"{run.id}.lock", f"the folder of {run.id}", _FETCHED_BY_ANOTHER_S, FirstflightError
        ):
            _check_space(offer)
            fetched = _complete(run, offer, source, vantage, f"{centre.rstrip('/')}{PATH}/")
            _check_downloads(run, offer)
            if not run.layout.manifest.is_file():
                # Last, because the manifest makes the folder a run.
                here = {"vantage": vantage.name, "clock_offset_s": offset_s}
                files.write_json(run.layout.manifest, {**inputs["manifest"], **here})
        print_line(f"inputs: {len(offer.files)} files, {fetched} of them fetched; clock {compared}")
    return run


def is_stopped(run: Run, centre: str, token: Callable[[], str]) -> bool:
    """Return whether the run is stopped; copy a stop at the centre to a local stop file.

    While the centre does not answer, only the local stop file counts (docs/campaign/steps.md).
    """
    import requests

    if not run.layout.stop_file.exists():
        with requests.Session() as session, suppress(CentreUnreachable):
            if CentreClient(session, centre, run.id, token, SOON_S).is_stopped():
                files.write_text(run.layout.stop_file, "")
    return run.layout.stop_file.exists()


def check_clock(offset: Offset, vantage: SiteVantagePoint) -> None:
    """Raise Mismatch if the local clock is too far off the centre's."""
    if offset.is_beyond():
        raise Mismatch(
            f"the clock of {vantage.name} is {offset}: nothing was sent; set it (chronyc tracking) and the "
            "task continues"
        )


def check_code(centre_version: str, vantage: SiteVantagePoint) -> None:
    """Raise Mismatch if the local code is not the centre's version."""
    if centre_version != tool_version():
        raise Mismatch(
            f"{vantage.name} has firstflight {tool_version()} and the run was made by {centre_version}: "
            "nothing was sent; install the same version on both (docs/how-to/upgrade-a-site.md) and the task "
            "continues"
        )


def _complete(run: Run, offer: Offer, source: CentreClient, vantage: SiteVantagePoint, clock: str) -> int:
    """Add the files that the run does not have yet; return how many were downloaded.

    `clock`: as in `_write_settings`.
    """
    if not run.layout.manifest.is_file():
        with files.explain_os_errors(run.layout.settings):
            run.layout.settings.unlink(missing_ok=True)
    fetched = 0
    targets = [path_names.inside(run.path, entry.name) for entry in offer.files]  # before any is written
    for entry, target in zip(offer.files, targets, strict=True):
        if target.is_file():
            continue
        cached, is_new = _cached(source, entry)
        fetched += is_new
        if entry.name == offers.SETTINGS:
            _write_settings(run, cached, offer, vantage, clock)
            continue
        with files.explain_os_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.name == offers.CONFIG:
                shutil.copyfile(cached, target)  # changed later, so no link to the cached file
            else:
                target.hardlink_to(cached)
    if not run.layout.settings.is_file():
        raise offers.BadOffer(
            f"the inputs of run {run.id} are refused, nothing was sent: {offers.SETTINGS} is not among them"
        )
    return fetched


def _check_downloads(run: Run, offer: Offer) -> None:
    """Raise BadOffer if files to download are above the ceilings; then no stage finds them here."""
    above = list(ceilings.faults_of_files(run.settings, run.layout, ceilings.of_this_machine()))
    if not above:
        return
    targets_file = run.settings.download.targets
    for path in (targets_file, run.layout.crawl("download_file")):
        if path is not None:
            path.unlink(missing_ok=True)
    raise offers.BadOffer(
        f"the inputs of run {offer.manifest.id} are refused, nothing was sent: {'; '.join(above)} "
        "(docs/reference/ceilings.md)"
    )


def _check_space(offer: Offer) -> None:
    """Raise BadOffer if the offered files that are not fetched yet need more than half of the free disk."""
    missing = {entry.sha256: entry.bytes for entry in offer.files}
    needed = sum(size for sha256, size in missing.items() if not (_cache() / sha256).is_file())
    free = shutil.disk_usage(runs_root()).free
    if needed > free // 2:
        raise offers.BadOffer(
            f"the inputs of run {offer.manifest.id} are refused, nothing was fetched: they need {needed} "
            f"bytes, more than half of the {free} that are free in {runs_root()}"
        )


def _cached(source: CentreClient, entry: OfferedFile) -> tuple[Path, bool]:
    """Return a file's path in the cache, and whether it was downloaded."""
    cached = path_names.inside(_cache(), entry.sha256)
    if cached.is_file():
        return cached, False
    with files.replacing(cached) as part:
        source.stream(entry.name, part, entry.bytes)
        if files.sha256_of(part) != entry.sha256:
            raise CentreUnreachable(
                f"{entry.name} arrived truncated or changed from the centre: it is fetched again"
            )
    return cached, True


def _cache() -> Path:
    return runs_root() / "cache"


def _write_settings(run: Run, fetched: Path, offer: Offer, vantage: SiteVantagePoint, clock: str) -> None:
    """Write the fetched settings, with this vantage point's local values, atomically.

    `clock`: the URL of the centre's Date. BadOffer if the settings must not be used at this vantage point.
    """
    read = files.read_json(fetched)
    if isinstance(read, dict) and vantage.resolver is not None:
        _section(read, "resolve").update(resolver=vantage.resolver, resolvers=[], port=53)
    most = ceilings.of_this_machine()
    stored = offers.check_settings(read, offer, run.path, vantage, most)
    name = str(write_blocked(run, vantage).relative_to(run.path))
    blocklist = stored.setdefault("probe", {}).setdefault("blocklist", [])
    if name not in blocklist:
        blocklist.append(name)
    stored["store"] = {"url": None}  # use the local FIRSTFLIGHT_STORE
    stored["network"] = {"ca_bundle": None}  # use the environment's
    stored["centre"] = {"command": []}  # only for stages at the centre
    # Ignore the centre's setting: this vantage point asks no other host for the time.
    _section(stored, "clock")["reference"] = clock
    files.write_json(run.layout.settings, stored)


def _section(stored: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a section, empty if it is new. A value that is not a table stays, and the check rejects it."""
    section = stored.setdefault(name, {})
    return section if isinstance(section, dict) else {}


def write_blocked(run: Run, vantage: SiteVantagePoint) -> Path:
    """Update the run's list of addresses that `vantage` never probes; return the path.

    Each stage that sends calls this when it starts, because networks may be declared after the fetch.
    """
    path = run.layout.lists / f"blocked-{vantage.name}.conf"
    text = "".join(f"{network}\n" for network in vantage.blocked)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        files.write_text(path, text)
    return path


def local_vantage_point(name: str) -> SiteVantagePoint:
    """Return the vantage point `name` of the local vantage_points.toml."""
    return vantage_points.declared().named(name)
