"""Fetching a run's inputs at a vantage point: the real interface, served by uvicorn on loopback."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest
import requests

from firstflight.errors import InputError
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files, lock
from orchestration import stages
from orchestration.site import centre_token, inputs, site, vantage_points
from orchestration.site.centre_client import CentreUnreachable
from orchestration.site.vantage_points import SiteVantagePoint
from tests.airflow.conftest import SITE, TREE, airflow_environment
from tests.free_port import free_port
from tests.waiting import until

SECRET = "s" * 64
HAMBURG = SiteVantagePoint(
    name="hamburg", city="Hamburg", queue="hamburg", blocked=("198.18.159.240/28",), resolver="198.18.0.99"
)


def centre_files(folder: Path) -> None:
    """site.toml and the files that it names."""
    (folder / "names.txt").write_text("a.test\n")
    (folder / "rib").write_bytes(b"")
    (folder / "block.conf").write_text("198.18.158.0/24\n")
    (folder / "ca.pem").write_text("root\n")
    (folder / "site.toml").write_text(
        '[targets]\nsource = "file"\nfile = "names.txt"\n[as_data]\nrib = "file"\nfiles = ["rib"]\n'
        '[probe]\nblocklist = ["block.conf"]\nallow_net = ["198.18.0.0/15"]\n'
        '[handshake]\nverify = "chain"\nroots = "ca.pem"\n'
    )


def open_run(folder: Path, list_bytes: int) -> Run:
    """A run at the centre as `open` makes it: with another run's published targets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_RUNS", str(folder / "centre"))
        patch.setenv("FIRSTFLIGHT_SITE", str(folder))
        points = vantage_points.load(SITE / "vantage_points.toml").vantage
        earlier = site.new_run(date(2024, 8, 7), points)
        with earlier.stage("targets") as report:
            files.write_text(earlier.layout.targets, "x" * list_bytes)
            earlier.add_output(report, earlier.layout.targets)
        run = site.new_run(date(2024, 8, 7), points)
        site.take_stage(run, "targets", earlier)
        assert run.done("targets") and run.layout.targets.samefile(earlier.layout.targets)
        inputs.publish(run)
    return run


def answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    """Return whether a server that `process` is to be answers."""
    assert process.poll() is None, "the server ended"
    try:
        requests.get(url, timeout=60)
    except requests.ConnectionError:
        return False
    return True


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run the interface as the api-server mounts it; yields its URL."""
    port = free_port()
    mount = (
        "from fastapi import FastAPI; import uvicorn; from orchestration.airflow.inputs_app import app\n"
        "main = FastAPI(); main.mount('/firstflight/v1', app)\n"
        f"uvicorn.run(main, host='127.0.0.1', port={port}, log_level='warning')"
    )
    environment = airflow_environment(folder / "home")
    runs = str(folder / "centre")
    # Airflow keeps the newline in the output of `jwt_secret_cmd`.
    environment |= {"AIRFLOW__API_AUTH__JWT_SECRET": f"{SECRET}\n", "FIRSTFLIGHT_RUNS": runs}
    process = subprocess.Popen([sys.executable, "-c", mount], env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(url, process), "the centre")
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def centre_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The centre's folder."""
    folder = tmp_path_factory.mktemp("centre")
    centre_files(folder)
    return folder


@pytest.fixture
def centre_run(centre_folder: Path) -> Run:
    """A run, ready to be fetched."""
    return open_run(centre_folder, 30_000)


@pytest.fixture(scope="module")
def centre(centre_folder: Path) -> Iterator[str]:
    """The centre's URL."""
    with serving(centre_folder) as url:
        yield url


def token_for(run: str, secret: str = SECRET) -> Callable[[], str]:
    return lambda: centre_token.sign(secret, run)


def test_a_vantage_point_gets_the_run_with_its_own_resolver_and_blocked_networks(
    centre: str, centre_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "pending"))
    began = time.monotonic()
    run = inputs.fetch(centre_run.id, HAMBURG, centre, token_for(centre_run.id))
    took = time.monotonic() - began
    assert run.path == tmp_path / "pending" / centre_run.id
    assert run.layout.targets.read_bytes() == centre_run.layout.targets.read_bytes()
    assert run.done("targets")
    assert run.manifest["cid_key"] == centre_run.manifest["cid_key"]
    assert run.manifest["vantage"] == "hamburg" and abs(run.manifest["clock_offset_s"]) < 2 + took / 2
    # Paths refer to the pending uploads, wherever the centre had its files.
    assert [p.read_text() for p in run.settings.probe.blocklist] == [
        "198.18.158.0/24\n",
        "198.18.159.240/28\n",
    ]
    assert all(p.is_relative_to(run.path) for p in run.settings.probe.blocklist)
    roots = run.settings.handshake.roots
    assert roots is not None and roots.is_relative_to(run.path) and roots.read_text() == "root\n"
    assert run.settings.resolve.resolver == "198.18.0.99"
    assert [v.name for v in run.settings.vantage] == ["hamburg", "los_angeles", "sao_paulo", "hong_kong"]

    # Fetching again changes nothing, not even a settings file or results measured meanwhile.
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()}
    inputs.fetch(centre_run.id, HAMBURG, centre, token_for(centre_run.id))
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("lost", ["settings.json", "manifest.json"])
def test_settings_that_are_fetched_once_more_name_the_networks_blocked_here(
    centre: str, centre_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """After a power cut that left settings.json empty, which was removed; after a fetch that was cut."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "pending"))
    first = inputs.fetch(centre_run.id, HAMBURG, centre, token_for(centre_run.id))
    localised, manifest = first.layout.settings.read_text(), first.layout.manifest.read_text()
    (first.path / lost).unlink()
    refetched = inputs.fetch(centre_run.id, HAMBURG, centre, token_for(centre_run.id))
    assert refetched.layout.settings.read_text() == localised
    assert refetched.settings.probe.blocklist[-1].name == "blocked-hamburg.conf"
    assert refetched.manifest["vantage"] == "hamburg"
    # A new manifest causes a new comparison of the clocks.
    assert lost == "manifest.json" or refetched.layout.manifest.read_text() == manifest


def test_parallel_fetches_of_a_run_store_it_once(
    centre: str, centre_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test holds the lock first, so that all threads start before any thread fetches."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "pending"))

    def fetched(_: int) -> int:
        run = inputs.fetch(centre_run.id, HAMBURG, centre, token_for(centre_run.id))
        return len(run.settings.probe.blocklist)

    lock_file = tmp_path / "pending" / "cache" / f"{centre_run.id}.lock"
    with ThreadPoolExecutor(4) as threads:
        with lock.locked(lock_file, "the folder"):
            running = [threads.submit(fetched, number) for number in range(4)]
            assert not wait(running, timeout=1).done
        assert [future.result(timeout=120) for future in running] == [2, 2, 2, 2]


def test_each_stage_that_sends_takes_the_networks_blocked_here_as_they_are_now(
    centre: str, centre_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was fetched before any network was blocked. Its stage fails for lack of resolved names."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "pending"))
    monkeypatch.setenv("FIRSTFLIGHT_SITE", str(tmp_path))
    nothing_blocked = HAMBURG.model_copy(update={"blocked": ()})
    run = inputs.fetch(centre_run.id, nothing_blocked, centre, token_for(centre_run.id))
    blocklist = run.settings.probe.blocklist[-1]
    assert blocklist.read_text() == ""
    words = ["stage", "probe", "--run", run.id, "--vantage", "hamburg", "--repetition", "1"]
    for blocked in (["198.18.1.0/24", "198.18.2.1"], []):
        (tmp_path / vantage_points.FILE).write_text(
            f'[[vantage]]\nname = "hamburg"\ncity = "Hamburg"\nqueue = "hamburg"\nblocked = {blocked}\n'
        )
        done = subprocess.run(
            [sys.executable, "-P", "-m", "cli", *words], capture_output=True, text=True, check=False
        )
        assert "run the resolve stage of hamburg first" in done.stderr
        assert blocklist.read_text().split() == blocked, done.stderr


def test_downloads_get_the_files_of_a_crawl_and_no_other_rows_of_it(
    centre: str, centre_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (centre_folder / "site.toml").read_text()
    (centre_folder / "files.csv").write_text("url,ip\n")
    more = '[download]\nroots = "ca.pem"\ntargets = "files.csv"\n[crawl]\nroots = "ca.pem"\n'
    (centre_folder / site.DOWNLOADS_FILE).write_text(text + more)
    points = vantage_points.load(SITE / "vantage_points.toml").vantage
    with monkeypatch.context() as centre_environment:
        centre_environment.setenv("FIRSTFLIGHT_RUNS", str(centre_folder / "centre"))
        centre_environment.setenv("FIRSTFLIGHT_SITE", str(centre_folder))
        crawl, run = (site.new_run(date(2024, 8, 7), points, file=site.DOWNLOADS_FILE) for _ in range(2))
        with crawl.stage("crawl") as report:
            for kind in ("download_file", "crawl_page"):
                files.write_text(crawl.layout.crawl(kind), kind)
                crawl.add_output(report, crawl.layout.crawl(kind))
        site.take_stage(run, "crawl", crawl)
        run.write_manifest({**run.manifest, "kind": "downloads"})
        inputs.publish(run)
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "pending"))
    fetched_run = inputs.fetch(run.id, HAMBURG, centre, token_for(run.id))
    assert fetched_run.layout.crawl("download_file").read_text() == "download_file"
    assert not fetched_run.layout.crawl("crawl_page").exists()
    assert stages.plan_of(fetched_run) is stages.RunPlan.DOWNLOADS
    # The settings name the run's copies of the files, wherever the centre had the originals.
    chosen = fetched_run.settings.download
    assert (
        chosen.roots is not None
        and chosen.targets is not None
        and fetched_run.settings.crawl.roots is not None
    )
    assert [p.read_text() for p in (chosen.roots, chosen.targets, fetched_run.settings.crawl.roots)] == [
        *("root\n", "url,ip\n", "root\n")
    ]
    assert all(p.is_relative_to(fetched_run.path) for p in (chosen.roots, chosen.targets))


def test_requests_without_the_sites_secret_are_refused(centre: str, centre_run: Run) -> None:
    url = f"{centre}/firstflight/v1/runs/{centre_run.id}/inputs"
    import jwt

    now = int(time.time())
    good = {"aud": centre_token.AUDIENCE, "iat": now, "nbf": now, "exp": now + 60, "run": centre_run.id}
    refused = {
        "none": "",
        "another secret": centre_token.sign("x" * 64, centre_run.id),
        "another run": centre_token.sign(SECRET, "20260101T000000Z-000000"),
        "an Edge worker's own token": jwt.encode({**good, "aud": "api"}, SECRET, algorithm="HS512"),
        "expired": jwt.encode({**good, "exp": now - 300}, SECRET, algorithm="HS512"),
        "from the future": jwt.encode({**good, "nbf": now + 300}, SECRET, algorithm="HS512"),
        "without end": jwt.encode({k: v for k, v in good.items() if k != "exp"}, SECRET, algorithm="HS512"),
        "unsigned": jwt.encode(good, "", algorithm="none"),
    }
    for case, token in refused.items():
        for name in ("", "/manifest.json", "/settings.json"):
            answer = requests.get(url + name, headers={"Authorization": f"Bearer {token}"}, timeout=60)
            assert answer.status_code == 403, case
            assert "cid_key" not in answer.text and answer.text.count("\n") == 0


def test_only_listed_files_are_offered(centre: str, centre_run: Run) -> None:
    headers = {"Authorization": f"Bearer {centre_token.sign(SECRET, centre_run.id)}"}
    url = f"{centre}/firstflight/v1/runs/{centre_run.id}/inputs"
    assert requests.get(f"{url}/settings.json", headers=headers, timeout=60).status_code == 200
    for name in ("manifest.json", "inputs.json", "..%2f..%2fnames.txt", "%2e%2e/x", "/etc/passwd", "targets"):
        assert requests.get(f"{url}/{name}", headers=headers, timeout=60).status_code == 404, name
    strange = {"Authorization": f"Bearer {centre_token.sign(SECRET, '..')}"}
    path = f"{centre}/firstflight/v1/runs/%2e%2e/inputs"
    assert requests.get(path, headers=strange, timeout=60).status_code in (403, 404)


@pytest.mark.parametrize(("off", "side"), [("-180s", "behind"), ("+180s", "ahead of"), ("+20s", "ahead of")])
def test_a_vantage_point_with_a_wrong_clock_sends_nothing(
    centre: str, centre_run: Run, tmp_path: Path, off: str, side: str
) -> None:
    """The process has a wrong clock: by minutes, so that its tokens are refused, or by less."""
    began = time.monotonic()
    done = subprocess.run(
        ["faketime", "-f", off, sys.executable, "-c", _ELSEWHERE.format(run=centre_run.id, centre=centre)],
        cwd=TREE,
        env={**os.environ, "FIRSTFLIGHT_RUNS": str(tmp_path / "pending")},
        capture_output=True,
        text=True,
        check=True,
    )
    took = time.monotonic() - began
    found = re.fullmatch(
        rf"Mismatch the clock of hamburg is (\d+)\.\d s {side} the centre's: nothing was sent; "
        r"set it \(chronyc tracking\) and the task continues\n",
        done.stdout,
    )
    assert found and abs(int(found[1]) - abs(int(off[:-1]))) <= 2 + took / 2, done.stdout
    assert not (tmp_path / "pending").exists()


def test_a_truncated_file_is_not_stored(
    centre: str, centre_run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    centre_run.layout.targets.unlink()
    centre_run.layout.targets.write_text("something else")
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "pending"))
    with pytest.raises(CentreUnreachable, match="truncated or changed"):
        inputs.fetch(centre_run.id, HAMBURG, centre, token_for(centre_run.id))
    pending = Run(tmp_path / "pending" / centre_run.id)
    assert not pending.layout.targets.exists() and not (pending.path / "manifest.json").exists()


def test_an_unavailable_centre_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path))
    with pytest.raises(CentreUnreachable, match=r"did not answer at http://127\.0\.0\.1:9/") as caught:
        inputs.fetch("20260101T000000Z-000000", HAMBURG, "http://127.0.0.1:9", lambda: "t")
    assert "\n" not in str(caught.value)


def test_an_incomplete_stage_is_not_used(
    centre_folder: Path, centre_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(centre_folder / "centre"))
    monkeypatch.setenv("FIRSTFLIGHT_SITE", str(centre_folder))
    points = vantage_points.load(SITE / "vantage_points.toml").vantage
    run = site.new_run(date(2024, 8, 7), points)
    centre_run.layout.targets.unlink()
    with pytest.raises(InputError, match="has no finished stage targets: run the DAG targets again"):
        site.take_stage(run, "targets", centre_run)
    assert isinstance(centre_run.report("targets"), StageReport)


_ELSEWHERE = """
from pathlib import Path
from tests.airflow.test_inputs import HAMBURG, token_for
from firstflight.errors import FirstflightError
from orchestration.site import inputs
try:
    inputs.fetch({run!r}, HAMBURG, {centre!r}, token_for({run!r}))
except FirstflightError as error:
    print(type(error).__name__, error)
"""


def test_a_vantage_point_with_other_code_sends_nothing(centre: str, centre_run: Run, tmp_path: Path) -> None:
    """A second installation, of another commit."""
    for package in ("firstflight", "orchestration", "schemas", "tests"):
        shutil.copytree(TREE / package, tmp_path / package, ignore=shutil.ignore_patterns("fixtures"))
    (tmp_path / "firstflight" / "COMMIT").write_text("0123456789ab\n")
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE.format(run=centre_run.id, centre=centre)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "FIRSTFLIGHT_RUNS": str(tmp_path / "pending")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.match(r"Mismatch hamburg has firstflight \S+\+0123456789ab and the run was made", done.stdout)
    assert not (tmp_path / "pending").exists()
