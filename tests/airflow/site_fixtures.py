"""Fixtures of a running site: the site, its fetched lists, a scan, a crawl, a watch, and a stolen secret."""

from __future__ import annotations

import bz2
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lab.site.processes import alive, descendants, identities
from tests.airflow.site import RunningSite, raised, wait_for
from tests.airflow.stolen_secret import edge, send
from tests.campaign_loopback.stopping import halted

VANTAGES = {
    "hamburg": ("198.18.0.11", "2001:db8:0:11::1"),
    "los_angeles": ("198.18.0.12", "2001:db8:0:12::1"),
}
KILLED = "hamburg"
WATCHING = "los_angeles"
DAILY = ("targets", "as_data")
OPTOUT_STATUS = (sys.executable, "-P", "-m", "cli", "optout", "status")
FILES = ("cloudflare-1.mirrors.test", "no-sack.mirrors.test", "promise.mirrors.test")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    """The site, all DAGs paused."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_LAB", str(folder / "lab"))
        with raised(folder / "site", *(f"--vantage={name}" for name in VANTAGES)) as found:
            yield found


@dataclass(frozen=True)
class FirstTry:
    """The log of a task's first try; the number and state of its latest try when the source was repaired."""

    log: str
    number: int
    state: str


@pytest.fixture(scope="module")
def first_tries(site: RunningSite) -> dict[str, FirstTry]:
    """Fetch the lists, after the list host has answered 500 and served a truncated routing table.

    Returns the first tries of `targets` and `as_data`. `downloads` counts the table, and waits for a crawl.
    """
    site.pause("downloads", False)
    web = site.folder / "lab" / "web"
    config, master = web / "nginx.conf", _master(web)
    original = config.read_text()
    config.write_text(
        original.replace("location = /daily_list_id {", "location = /daily_list_id { return 500;")
    )
    _reload(master)
    table = sorted(web.rglob("bgpdata/*/RIBS/rib.*.bz2"))[-1]
    published = table.read_bytes()
    table.write_bytes(bz2.compress(bz2.decompress(published)[:-40]))
    for dag in DAILY:
        site.pause(dag, False)
    logs = {}
    for dag in DAILY:
        wait_for(partial(_tried_once, site, dag), 90, partial(runs_of, site, dag))
        logs[dag] = site.log(dag, runs_of(site, dag)[0]["dag_run_id"], "fetch")
    config.write_text(original)
    _reload(master)
    table.write_bytes(published)
    tries = {}
    for dag in DAILY:
        task = fetch_task(site, dag)
        tries[dag] = FirstTry(logs[dag], task["try_number"], str(task["state"]))
    for dag in DAILY:
        wait_for(partial(_fetched, site, dag), 90, partial(runs_of, site, dag))
        site.pause(dag, True)  # a new day may start during the tests
    return tries


def _reload(master: int) -> None:
    """Make nginx reload its configuration, and wait until no process serves with the old one."""
    old = [process for process in identities(descendants([master])) if process[0] != master]
    os.kill(master, signal.SIGHUP)
    wait_for(lambda: not alive(old), 30, lambda: alive(old))


def fetch_task(site: RunningSite, dag: str) -> dict[str, Any]:
    """The task instance `fetch` of the DAG's first run."""
    return site.tasks(dag, runs_of(site, dag)[0]["dag_run_id"])["fetch"]


def _master(web: Path) -> int:
    """The process number, outside the lab, of the nginx that serves lists and tables."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if line.startswith("nginx: master") and f"-p {web.resolve()}/" in line:
            return int(entry.parent.name)
    raise AssertionError(f"no nginx serves {web}")


def _tried_once(site: RunningSite, dag: str) -> bool:
    runs = runs_of(site, dag)
    states = [site.tasks(dag, run["dag_run_id"])["fetch"] for run in runs]
    return any(task["state"] == "up_for_retry" or task["try_number"] > 1 for task in states)


def _fetched(site: RunningSite, dag: str) -> bool:
    return any(run["state"] == "success" for run in runs_of(site, dag))


def runs_of(site: RunningSite, dag: str) -> list[dict[str, Any]]:
    found = site.ask("GET", f"/dags/{dag}/dagRuns")["dag_runs"]
    assert isinstance(found, list)
    return found


@dataclass(frozen=True)
class AirflowScan:
    """The scan of this test: Airflow's id, and the run's."""

    dag_run: str
    run: str
    killed: list[int]


@pytest.fixture(scope="module")
def watch_dag(site: RunningSite, first_tries: dict[str, FirstTry]) -> None:
    """cdn_watch, unpaused and without a running DAG run."""
    del first_tries
    site.pause("cdn_watch", False)

    def scheduled() -> list[str]:
        return [run["dag_run_id"] for run in runs_of(site, "cdn_watch") if run["run_type"] == "scheduled"]

    # A run for the rest of the hour starts immediately. Marking it as failed keeps it from delaying others.
    wait_for(lambda: bool(scheduled()), 60, lambda: runs_of(site, "cdn_watch"))
    for run in scheduled():
        site.mark_failed("cdn_watch", run)


@pytest.fixture(scope="module")
def watched(site: RunningSite, watch_dag: None) -> str:
    """A manually triggered DAG run of cdn_watch with a short period.

    The period begins after two minutes: on a busy machine, a task may start a minute late.
    """
    del watch_dag
    return trigger_watch(site, WATCHING, begins_after_s=120)


def trigger_watch(site: RunningSite, vantage: str, *, begins_after_s: float) -> str:
    """Trigger a watch of half a minute, in which a minute has ten seconds; return the DAG run's id."""
    times = {"period_minutes": 0.5, "minute_s": 10, "begins_after_s": begins_after_s}
    return site.trigger("cdn_watch", vantage_points=[vantage], **times)


@pytest.fixture(scope="module")
def scan(site: RunningSite, first_tries: dict[str, FirstTry], watched: str) -> AirflowScan:
    """quic_scan, triggered through the REST interface; kill -9 ends one worker while it probes."""
    del first_tries, watched  # first_tries is required; the watch probes during the scan
    site.pause("quic_scan", False)
    dag_run = site.trigger("quic_scan", repetitions=1, rate=40, report_after_minutes=60, handshake_share=0.05)
    segments = f"runs/*/{KILLED}/1/probe/segments/*.arrow"
    wait_for(
        lambda: len(list((site.folder / KILLED).glob(segments))) >= 2,
        90,
        lambda: site.describe("quic_scan", dag_run),
    )
    halt_prober(site, KILLED, dag_run)
    killed = site.kill_worker(KILLED)
    assert site.run_to_end("quic_scan", dag_run, 300) == "success", site.describe("quic_scan", dag_run)
    return AirflowScan(dag_run, str(site.xcom("quic_scan", dag_run, "open")), killed)


def halt_prober(site: RunningSite, place: str, dag_run: str) -> int:
    """Halt a scan's prober while it sends; return the process ID.

    Otherwise a busy machine may send everything before the test's next step.
    """
    run = str(site.xcom("quic_scan", dag_run, "open"))
    return halted(site.folder / place / "runs" / run / place / "1" / "probe")


@dataclass(frozen=True)
class Stolen:
    """A task of los_angeles that a thief with hamburg's secret has taken, its run, and its token."""

    dag_run: str
    run: str
    job: dict[str, Any]
    key: str  # its path in the workers' interface
    token: str


@pytest.fixture(scope="class")
def stolen(site: RunningSite, first_tries: dict[str, FirstTry]) -> Iterator[Stolen]:
    """A scan at los_angeles, whose worker takes no task; a thief takes the first one from hamburg."""
    del first_tries  # required, but unused
    other = "los_angeles"
    site.pause("quic_scan", False)
    site.maintenance(other, begins=True)
    idle = site.folder / "logs" / f"worker-{other}.log"
    wait_for(lambda: "Maintenance mode requested!" in idle.read_text(), 30, idle.read_text)
    dag_run = site.trigger("quic_scan", vantage_points=[other])
    task = f"{other}.fetch_inputs"
    wait_for(
        lambda: site.tasks("quic_scan", dag_run)[task]["state"] == "queued",
        120,
        lambda: site.describe("quic_scan", dag_run),
    )
    more = {"queues": [other], "free_concurrency": 9, "supports_task_instance_uuid": True}
    (answer,) = send(site, KILLED, edge("POST", f"jobs/fetch/{KILLED}", more))
    assert answer.status == 200 and answer.body["task_id"] == task, answer
    job = answer.body
    key = f"quic_scan/{task}/{dag_run}/{job['try_number']}/{job['map_index']}"
    run = str(site.xcom("quic_scan", dag_run, "open"))
    yield Stolen(dag_run, run, job, key, job["command"]["token"])
    site.mark_failed("quic_scan", dag_run)
    site.maintenance(other, begins=False)


@pytest.fixture(scope="module")
def crawled(site: RunningSite, first_tries: dict[str, FirstTry]) -> str:
    """A crawl's run, as its schedule starts it."""
    del first_tries  # required, but unused
    (site.folder / "downloads.txt").write_text("".join(f"{name}\n" for name in FILES))
    site.pause("crawl", False)
    wait_for(lambda: bool(runs_of(site, "crawl")), 60, lambda: runs_of(site, "crawl"))
    (started,) = runs_of(site, "crawl")
    dag_run = str(started["dag_run_id"])
    assert started["run_type"] == "scheduled"
    assert site.run_to_end("crawl", dag_run, 60) == "success", site.describe("crawl", dag_run)
    site.pause("crawl", True)  # a new week may start during the tests
    return str(site.xcom("crawl", dag_run, "open"))
