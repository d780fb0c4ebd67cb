"""Airflow's central database for a site: real PostgreSQL, in a mount namespace as the lab has one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.site import database
from lab.site.processes import alive, descendants, identities
from tests.airflow.site import wait_for
from tests.waiting import PATIENCE_S

ROOT = ["--mount"]
WITHOUT = ["--mount", "--user", "--keep-caps", "--map-group=65534", "--map-user=65534"]


@pytest.fixture(params=["root", "no root"])
def namespaces(request: pytest.FixtureRequest) -> list[str]:
    """Options of unshare: as in the lab of root, and in the lab of another user."""
    if request.param == "no root":
        return WITHOUT
    if os.geteuid() != 0:
        pytest.skip("only root can give the database to another user")
    return ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder below one that only its owner may enter. Its path is too long for a socket."""
    tmp_path.chmod(0o700)
    return tmp_path / ("long" * 30) / "database"


@contextmanager
def served(folder: Path, namespaces: list[str]) -> Iterator[tuple[subprocess.Popen[str], Callable[..., str]]]:
    """The database's process, and a function that returns psql's answer to a statement."""
    log = folder.parent.parent / "database.log"
    script = 'mount -t tmpfs lab /run && exec "$@"'
    program = [sys.executable, "-P", "-m", "lab.site.database", "--folder", str(folder)]
    with log.open("w") as output:
        process = subprocess.Popen(
            ["unshare", *namespaces, "sh", "-c", script, "sh", *program], stderr=output, text=True
        )

    def ask(question: str, *before: str) -> str:
        enter = ["nsenter", f"--target={process.pid}", "--mount"]
        if namespaces is WITHOUT:
            enter += ["--user", "--preserve-credentials"]
        psql = ["psql", "--no-psqlrc", "-At", f"--username={database.ROLE}", f"--host={database.SOCKETS}"]
        done = subprocess.run(
            [*enter, *before, *psql, database.DATABASE, "-c", question],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip() if done.returncode == 0 else done.stderr

    try:
        wait_for(lambda: database.READY in log.read_text() or process.poll() is not None, 60, log.read_text)
        assert process.poll() is None, log.read_text()
        yield process, ask
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)


def test_the_database_survives_a_kill_and_admits_only_its_owner(folder: Path, namespaces: list[str]) -> None:
    with served(folder, namespaces) as (process, ask):
        assert ask("CREATE TABLE kept (n int)") == "CREATE TABLE"
        assert ask("INSERT INTO kept SELECT generate_series(1, 1000)") == "INSERT 0 1000"
        assert ask("SHOW listen_addresses") == ""
        owner = Path(f"/proc/{process.pid}").stat().st_uid
        # Without root it is the user who started it, which outside is the user of this test.
        assert (owner != 0) if namespaces is ROOT else (owner == os.geteuid())
        if namespaces is ROOT:
            answer = ask("SELECT 1", "setpriv", "--reuid=65534", "--clear-groups")
            assert "Permission denied" in answer
        everything = identities(descendants([process.pid]))
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_for(
            lambda: alive(everything) == [], 30, lambda: "PostgreSQL's other processes are still running"
        )
    with served(folder, namespaces) as (process, ask):
        assert ask("SELECT count(*) FROM kept") == "1000"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    assert not (folder / "cluster" / "postmaster.pid").exists()


def test_a_cluster_of_a_missing_version_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "PG_VERSION").write_text("9\n")
    command = [sys.executable, "-P", "-m", "lab.site.database", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"{tmp_path} was created by PostgreSQL 9, which is not installed: apt-get install" in done.stderr
