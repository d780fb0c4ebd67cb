"""Tranco lists and RouteViews tables over HTTPS, from the lab's hosts under their real names."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crawler.routing import as2org
from firstflight.as_map import Mapper
from firstflight.run.run import Run
from lab.hosts import crux_host, list_host
from tests.lab_services.conftest import RunningWorld
from tests.lab_services.world import CommandResult

from .conftest import MakeRun


def stage(running: RunningWorld, run: Run, name: str) -> CommandResult:
    """Run `firstflight stage NAME` inside the lab, in an environment that trusts only public authorities."""
    argv = [sys.executable, "-m", "cli", "stage", name, "--run", str(run.path)]
    return running.world.run(argv, env={"FIRSTFLIGHT_RUNS": str(run.path.parent)})


def trusting(running: RunningWorld) -> str:
    return f'ca_bundle = "{running.state / "certificates" / "ca.pem"}"'


def names_of(run: Run) -> tuple[list[str], set[str]]:
    columns = pq.read_table(run.layout.targets).to_pydict()
    assert columns["rank"] == sorted(columns["rank"])
    return columns["domain"], set(columns["list_id"])


def test_list_of_a_day_is_fetched_once(running: RunningWorld, make_run: MakeRun, tmp_path: Path) -> None:
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
    # Without a trusted authority, downloads fail, so this list is from the cache.
    second_run = make_run(targets=wanted.replace("50", "60"))
    done = stage(running, second_run, "targets")
    assert done.status == 0, done.stderr
    assert names_of(second_run)[1] == ids
    assert len(names_of(second_run)[0]) == 60
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
    running: RunningWorld, make_run: MakeRun, tmp_path: Path, wanted: str, trusted: bool, says: str
) -> None:
    run = make_run(f'source = "tranco"\n{wanted}\ntop = 5', network=trusting(running) if trusted else "")
    done = stage(running, run, "targets")
    assert (done.status, says in done.stderr, done.stderr.count("\n")) == (1, True, 1), done.stderr
    assert not run.layout.targets.exists()
    assert not list((tmp_path / "cache" / "tranco").iterdir())


def test_an_unreachable_host(make_run: MakeRun, running: RunningWorld) -> None:
    run = make_run(f'source = "tranco"\ndate = {list_host.MAIN_DAY}\ntop = 5', network=trusting(running))
    marked = ["unshare", "--net", "sh", "-c", 'ip link set lo alias firstflight-lab && exec "$@"', "sh"]
    stage_alone = [sys.executable, "-m", "cli", "stage", "targets", "--run", str(run.path)]
    done = running.world.run([*marked, *stage_alone])
    assert done.status == 1
    assert "cannot fetch the Tranco list of" in done.stderr and "Traceback" not in done.stderr


def test_tables_of_a_day_are_fetched_once(running: RunningWorld, make_run: MakeRun, tmp_path: Path) -> None:
    wanted = f'rib = "routeviews"\ndate = {list_host.MAIN_DAY}'
    run = make_run(as_data=wanted, network=trusting(running))
    done = stage(running, run, "as_data")
    assert done.status == 0, done.stderr
    about = json.loads((run.layout.as_data / "as_data.json").read_text())
    urls = [source["url"] for source in about["sources"]]
    assert urls[0].startswith("https://archive.routeviews.org/bgpdata/")
    assert urls[1].startswith("https://archive.routeviews.org/route-views6/bgpdata/")
    mapper = Mapper(run.layout.as_data)
    wrong = [
        endpoint
        for endpoint in running.internet.endpoints
        if mapper.origin(endpoint.ip) != (endpoint.asn, endpoint.cdn)
    ]
    assert running.internet.endpoints and not wrong
    second_run = make_run(as_data=wanted)
    done = stage(running, second_run, "as_data")
    assert done.status == 0, done.stderr
    assert not list((tmp_path / "cache").rglob("*.part"))


def test_day_without_a_table(running: RunningWorld, make_run: MakeRun) -> None:
    run = make_run(as_data='rib = "routeviews"\ndate = 2019-01-01', network=trusting(running))
    done = stage(running, run, "as_data")
    assert done.status == 1
    assert "cannot fetch https://archive.routeviews.org/bgpdata/2019.01/RIBS/" in done.stderr
    assert "Traceback" not in done.stderr


def test_crux_list_of_a_month_is_fetched_once_and_joined(
    running: RunningWorld, make_run: MakeRun, tmp_path: Path
) -> None:
    names = [name for _, name in running.internet.names]
    wanted = 'source = "crux"\ncrux_month = "202408"\ncrux_cache_dir = "cache/crux"'
    run = make_run(targets=wanted, network=trusting(running))
    done = stage(running, run, "targets")
    assert done.status == 0, done.stderr
    rows = pq.read_table(run.layout.targets).to_pylist()
    assert {row["domain"]: row["rank_bucket"] for row in rows} == {
        name: crux_host.bucket(place, len(names)) for place, name in enumerate(names)
    }
    assert {row["rank"] for row in rows} == {None}
    assert [path.name for path in (tmp_path / "cache" / "crux").iterdir()] == ["202408.csv.gz"]
    # From the cache, with the first names in a Tranco list.
    both = wanted.replace('"crux"', '"tranco+crux"') + f"\ndate = {list_host.OLD_DAY}\ntop = 1000"
    run = make_run(targets=both, network=trusting(running))
    done = stage(running, run, "targets")
    assert done.status == 0, done.stderr
    joined = pq.read_table(run.layout.targets).to_pylist()
    old = list(reversed(names[: len(names) * 9 // 10]))
    first = {name for place, name in enumerate(names) if crux_host.bucket(place, len(names)) == 1_000}
    assert [row["domain"] for row in joined[: len(old)]] == old
    assert {row["domain"] for row in joined} == {*old, *first}
    for row in joined:
        assert row["rank"] == (old.index(row["domain"]) + 1 if row["domain"] in old else None)
        assert row["rank_bucket"] == (1_000 if row["domain"] in first else None)
    missing = make_run(targets=wanted.replace("202408", "201901"), network=trusting(running))
    done = stage(running, missing, "targets")
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert "/data/global/201901.csv.gz: the host answered 404" in done.stderr


def test_as_organisations_of_a_day_are_the_newest_before_it(
    running: RunningWorld, make_run: MakeRun, tmp_path: Path
) -> None:
    table = f'rib = "routeviews"\ndate = {list_host.MAIN_DAY}\n'
    table += 'as2org = "caida"\nas2org_cache_dir = "cache/as2org"\n'
    found = {}
    for day in ("2024-08-07", "2024-06-30"):
        run = make_run(as_data=f"{table}as2org_date = {day}", network=trusting(running))
        done = stage(running, run, "as_data")
        assert done.status == 0, done.stderr
        rows = pq.read_table(run.layout.as_data / "as_org.parquet").to_pylist()
        found[day] = {row["asn"]: (row["as2org_file"], row["organisation"]) for row in rows}
    cdn_of = {
        endpoint.asn: endpoint.cdn for endpoint in running.internet.endpoints if endpoint.asn is not None
    }
    for asn, (file, organisation) in found["2024-08-07"].items():
        assert file == "20240701.as-org2info.txt.gz"
        assert organisation == f"Lab {cdn_of.get(asn) or 'Others'}"
    assert set(cdn_of) <= set(found["2024-08-07"])
    assert set(found["2024-06-30"].values()) == {("20240401.as-org2info.txt.gz", "Lab Others")}
    # Both layouts have the same contents.
    for name in ("20240701.as-org2info.txt.gz", "20240701.as-org2info.jsonl.gz"):
        url = as2org.FOLDER_URL + name
        got = running.world.client("fetch", url, str(tmp_path / name), env=running.trust)
        assert got["status"] == 200
    text, lines = (as2org.read(tmp_path / f"20240701.as-org2info.{ending}.gz") for ending in ("txt", "jsonl"))
    assert text == lines
    # The file for a past day is in the cache, so there are no further requests.
    second_run = make_run(as_data=f"{table}as2org_date = 2024-08-07")
    done = stage(running, second_run, "as_data")
    assert done.status == 0, done.stderr
    early = make_run(as_data=f"{table}as2org_date = 2019-01-01", network=trusting(running))
    done = stage(running, early, "as_data")
    assert done.status == 1
    assert "has no file of 2019-01-01 or before" in done.stderr
