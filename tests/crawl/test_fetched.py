"""Tranco lists and RouteViews tables over HTTPS, from the lab's hosts under their real names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from firstflight.as_map import Mapper
from firstflight.runs import Run
from lab import list_host
from tests.lab_services.conftest import Running
from tests.lab_services.world import Done

from .conftest import MakeRun


def stage(running: Running, run: Run, name: str) -> Done:
    """`firstflight stage NAME` inside the lab, where the environment trusts public authorities only."""
    argv = [sys.executable, "-m", "cli", "stage", name, "--run", str(run.path)]
    return running.world.run(argv, env={"FIRSTFLIGHT_RUNS": str(run.path.parent)})


def trusting(running: Running) -> str:
    return f'ca_bundle = "{running.state / "certificates" / "ca.pem"}"'


def names_of(run: Run) -> tuple[list[str], set[str]]:
    columns = pq.read_table(run.targets).to_pydict()
    assert columns["rank"] == sorted(columns["rank"])
    return columns["domain"], set(columns["list_id"])


def test_list_of_a_day_is_fetched_once(running: Running, make_run: MakeRun, tmp_path: Path) -> None:
    wanted = f'source = "tranco"\ndate = {list_host.MAIN_DAY}\ntop = 50'
    run = make_run(targets=wanted, network=trusting(running))
    done = stage(running, run, "targets")
    assert done.status == 0, done.stderr
    names, ids = names_of(run)
    assert names == [name for _, name in running.internet.names][:50]
    cache = tmp_path / "cache" / "tranco"
    assert {path.name for path in cache.iterdir()} == {
        f"daily-{list_host.MAIN_DAY}.id",
        f"{ids.copy().pop()}.csv",
    }
    # Without a trusted authority nothing can be fetched: this one comes from the cache.
    again = make_run(targets=wanted.replace("50", "60"))
    done = stage(running, again, "targets")
    assert done.status == 0, done.stderr
    assert names_of(again)[1] == ids
    assert len(names_of(again)[0]) == 60
    by_id = make_run(targets=f'source = "tranco"\nlist_id = "{ids.pop()}"\ntop = 7')
    assert stage(running, by_id, "targets").status == 0
    assert names_of(by_id)[0] == names[:7]


@pytest.mark.parametrize(
    ("wanted", "trusted", "says"),
    [
        (f"date = {list_host.MAIN_DAY}", False, "certificate is not trusted"),
        (
            "date = 2019-01-01",
            True,
            "cannot fetch the Tranco list of 2019-01-01: tranco-list.eu does not have it",
        ),
        ('list_id = "00000"', True, "cannot fetch the Tranco list 00000: tranco-list.eu does not have it"),
    ],
)
def test_lists_that_cannot_be_had(
    running: Running, make_run: MakeRun, tmp_path: Path, wanted: str, trusted: bool, says: str
) -> None:
    run = make_run(f'source = "tranco"\n{wanted}\ntop = 5', network=trusting(running) if trusted else "")
    done = stage(running, run, "targets")
    assert (done.status, says in done.stderr, done.stderr.count("\n")) == (1, True, 1), done.stderr
    assert not run.targets.exists()
    assert not list((tmp_path / "cache" / "tranco").iterdir())


def test_host_that_is_not_there(make_run: MakeRun, running: Running) -> None:
    run = make_run(f'source = "tranco"\ndate = {list_host.MAIN_DAY}\ntop = 5', network=trusting(running))
    argv = ["unshare", "--net", sys.executable, "-m", "cli", "stage", "targets", "--run", str(run.path)]
    done = running.world.run(argv)
    assert done.status == 1
    assert "cannot fetch the Tranco list of" in done.stderr and "Traceback" not in done.stderr


def test_tables_of_a_day_are_fetched_once(running: Running, make_run: MakeRun, tmp_path: Path) -> None:
    wanted = f'rib = "routeviews"\ndate = {list_host.MAIN_DAY}'
    run = make_run(as_data=wanted, network=trusting(running))
    done = stage(running, run, "as_data")
    assert done.status == 0, done.stderr
    about = json.loads((run.as_data / "as_data.json").read_text())
    urls = [source["url"] for source in about["sources"]]
    assert urls[0].startswith("https://archive.routeviews.org/bgpdata/")
    assert urls[1].startswith("https://archive.routeviews.org/route-views6/bgpdata/")
    mapper = Mapper(run.as_data)
    wrong = [
        endpoint
        for endpoint in running.internet.endpoints
        if mapper.origin(endpoint.ip) != (endpoint.asn, endpoint.cdn)
    ]
    assert running.internet.endpoints and not wrong
    again = make_run(as_data=wanted)
    done = stage(running, again, "as_data")
    assert done.status == 0, done.stderr
    assert not list((tmp_path / "cache").rglob("*.part"))


def test_day_without_a_table(running: Running, make_run: MakeRun) -> None:
    run = make_run(as_data='rib = "routeviews"\ndate = 2019-01-01', network=trusting(running))
    done = stage(running, run, "as_data")
    assert done.status == 1
    assert "cannot fetch https://archive.routeviews.org/bgpdata/2019.01/RIBS/" in done.stderr
    assert "Traceback" not in done.stderr
