"""What a vantage point needs of a run, from the centre by HTTPS: settings, targets, AS data, lists.

At the centre `publish` writes RUN/inputs.json, which names every file with its hash; the plugin
(firstflight/schedule/plugin.py) offers those files and no others. At the vantage point `fetch` makes a run of
the same id in its own folder of runs, its spool. Why it is done this way: docs/design.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstflight import files
from firstflight.errors import FirstflightError
from firstflight.progress import say
from firstflight.runs import CENTRE_STAGES, RUN_ID, Run, runs_root, tool_version
from firstflight.schedule import vantage_points
from firstflight.schedule.site import LISTS
from firstflight.schedule.vantage_points import VantagePoint

if TYPE_CHECKING:
    import requests

NAME = "inputs.json"
PATH = "/firstflight/v1"
# Beyond this a vantage point's times of day cannot be laid beside the others'.
MAX_CLOCK_OFFSET_S = 5.0
TIMEOUT_S = (10, 120)  # connect, read


class CentreUnreachable(FirstflightError):
    """The centre did not answer, or not as it should; the task is tried again."""


class NotTheSame(FirstflightError):
    """Clock or code here are not the centre's; nothing is measured until they are."""


def publish(run: Run) -> list[dict[str, Any]]:
    """Write RUN/inputs.json at the centre and return its files: name, bytes, sha256."""
    folders = [run.stage_dir(stage) for stage in CENTRE_STAGES] + [run.path / LISTS]
    paths = [run.path / "settings.json", run.path / "config.toml"]
    paths += sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir())
    listed = [
        {
            "name": str(path.relative_to(run.path)),
            "bytes": path.stat().st_size,
            "sha256": files.sha256_of(path),
        }
        for path in paths
        # Record files are the centre's to load, and the largest of all.
        if path.name != "lock" and (path.suffix not in (".part", ".parquet") or path == run.targets)
    ]
    files.write_json(run.path / NAME, {"manifest": run.manifest, "files": listed})
    return listed


def published(run_id: str, name: str | None = None) -> Path | None:
    """The file of a run that the centre offers under that name (None: the list); None if there is none."""
    folder = runs_root() / run_id
    if not RUN_ID.fullmatch(run_id) or not (folder / NAME).is_file():
        return None
    if name is None:
        return folder / NAME
    listed = files.read_json(folder / NAME)["files"]
    return folder / name if any(entry["name"] == name for entry in listed) else None


def fetch(
    run_id: str,
    vantage: VantagePoint,
    centre: str,
    token: Callable[[], str],
    session: requests.Session | None = None,
) -> Run:
    """Make the run `run_id` at this vantage point, or complete it; what is there already stays.

    `centre` is the URL before /firstflight/v1, `token` gives a fresh token (`centre_token.sign`).
    CentreUnreachable, NotTheSame: one sentence.
    """
    import requests

    with session or requests.Session() as session:
        source = _Centre(session, f"{centre.rstrip('/')}{PATH}/runs/{run_id}/inputs", token)
        offset_s, inputs = source.list()
        check_same(offset_s, str(inputs["manifest"]["tool_version"]), vantage)
        run = Run(runs_root() / run_id)
        fetched = 0
        for entry in inputs["files"]:
            fetched += _fetch_file(source, run, entry)
        if not (run.path / "manifest.json").is_file():
            _settle(run, vantage, f"{centre.rstrip('/')}{PATH}/")
            # Last: with its manifest the folder counts as a run.
            here = {"vantage": vantage.name, "clock_offset_s": round(offset_s, 1)}
            files.write_json(run.path / "manifest.json", {**inputs["manifest"], **here})
        say(f"inputs: {len(inputs['files'])} files, {fetched} of them fetched; clock {offset_s:+.1f} s")
    return run


def check_same(offset_s: float, centre_version: str, vantage: VantagePoint) -> None:
    """Refuse to measure with a wrong clock or other code than the centre's (NotTheSame)."""
    if abs(offset_s) > MAX_CLOCK_OFFSET_S:
        side = "ahead of" if offset_s > 0 else "behind"
        raise NotTheSame(
            f"the clock of {vantage.name} is {abs(offset_s):.0f} s {side} "
            "the centre's: nothing was sent; set it (chronyc tracking) and the task will go on"
        )
    if centre_version != tool_version():
        raise NotTheSame(
            f"{vantage.name} has firstflight {tool_version()} and the run was made by {centre_version}: "
            "nothing was sent; bring both to one version (docs/operations.md) and the task will go on"
        )


class _Centre:
    """The centre's interface for the inputs of one run."""

    def __init__(self, session: requests.Session, url: str, token: Callable[[], str]) -> None:
        self._session = session
        self._url = url
        self._token = token

    def list(self) -> tuple[float, dict[str, Any]]:
        """Seconds that the clock here is ahead of the centre's (to half a second), and inputs.json."""
        before = datetime.now(UTC)
        answer = self._get(self._url)
        after = datetime.now(UTC)
        told = answer.headers.get("Date")
        offset_s = 0.0
        if told is not None:
            here = before + (after - before) / 2
            # A Date header is cut to the second.
            offset_s = (here - parsedate_to_datetime(told)).total_seconds() - 0.5
        inputs = answer.json()
        assert isinstance(inputs, dict)
        return offset_s, inputs

    def stream(self, name: str, out: Path) -> None:
        """Write one input file to `out`."""
        answer = self._get(f"{self._url}/{name}", stream=True)
        with answer, out.open("wb") as file:
            shutil.copyfileobj(answer.raw, file, 1 << 20)

    def _get(self, url: str, *, stream: bool = False) -> requests.Response:
        import requests

        headers = {"Authorization": f"Bearer {self._token()}", "Accept-Encoding": "identity"}
        try:
            answer = self._session.get(url, headers=headers, stream=stream, timeout=TIMEOUT_S)
        except requests.RequestException as error:
            raise CentreUnreachable(f"the centre did not answer at {url}: {_short(error)}") from error
        if answer.status_code != 200:
            told = (
                answer.text[:200] if answer.headers.get("Content-Type", "").startswith("text/plain") else ""
            )
            raise CentreUnreachable(
                f"the centre answered {answer.status_code} at {url}" + (f": {told}" if told else "")
            )
        return answer


def _fetch_file(source: _Centre, run: Run, entry: dict[str, Any]) -> int:
    """Bring one file into the run, from the cache when it is known; 1 if it came over the network."""
    target = run.path / entry["name"]
    cached = runs_root() / "cache" / entry["sha256"]
    if target.is_file():
        return 0
    came = 0
    if not cached.is_file():
        with files.replacing(cached) as part:
            source.stream(entry["name"], part)
            if files.sha256_of(part) != entry["sha256"]:
                raise CentreUnreachable(
                    f"{entry['name']} came from the centre cut short or changed: it is fetched again"
                )
        came = 1
    with files.said_in_one_sentence(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry["name"] in ("settings.json", "config.toml"):
            shutil.copyfile(cached, target)  # changed below, so not the cache's own
        else:
            target.hardlink_to(cached)
    return came


def _settle(run: Run, vantage: VantagePoint, clock: str) -> None:
    """Lay over the run's settings what is this place's own; `clock`: the address of the centre's Date."""
    path = run.path / "settings.json"
    stored = files.read_json(path)
    if vantage.blocked:
        name = f"{LISTS}/blocked-{vantage.name}.conf"
        files.write_text(run.path / name, "".join(f"{network}\n" for network in vantage.blocked))
        if name not in stored["probe"]["blocklist"]:
            stored["probe"]["blocklist"].append(name)
    if vantage.resolver is not None:
        stored["resolve"]["resolver"] = vantage.resolver
    stored["store"] = {"url": None}  # FIRSTFLIGHT_STORE of this place
    stored["network"]["ca_bundle"] = None  # that of the environment
    if stored["clock"]["reference"] is None:
        stored["clock"]["reference"] = clock
    files.write_json(path, stored)


def here(name: str) -> VantagePoint:
    """The vantage point `name` as this place's vantage_points.toml declares it."""
    return vantage_points.declared().named(name)


def _short(error: Exception) -> str:
    return str(error).split("(Caused by ")[-1].strip("() ")[:200]
