"""Airflow's database: backup, restore by the commands of docs/how-to/restore-a-site.md, metrics, cleaning."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstflight.system import children
from lab.site import database
from orchestration.site import backup, machine_metrics
from tests.airflow.conftest import TREE, airflow_environment
from tests.waiting import until

GUIDE = TREE / "docs" / "how-to" / "restore-a-site.md"
ROLE, NAME = "firstflight", "airflow"
BACKUP, METRICS = "firstflight-backup", "firstflight-site-metrics"
RIGHTS = TREE / "deploy" / "ansible" / "roles" / "centre" / "files" / "roles.sql"
RESTORE = (f"dropdb {NAME}", f"createdb --owner={ROLE} {NAME}", f"pg_restore --dbname={NAME}")
GRANT = f"psql --dbname={NAME} --file=/etc/firstflight/roles.sql"


class PostgresCluster:
    """A cluster of PostgreSQL in `folder`, run as its own user if this is root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._programs = database.programs(folder / "none")
        self._as_owner: list[str] = []
        if os.geteuid() == 0:
            owner = pwd.getpwnam(database.USER)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            self._as_owner = [
                "setpriv",
                f"--reuid={database.USER}",
                f"--regid={database.USER}",
                "--init-groups",
                "--",
            ]

    def argv(self, command: str, *more: object) -> list[str]:
        """Return the argument list for a PostgreSQL program."""
        program, *words = command.split()
        return [*self._as_owner, str(self._programs / program), *words, *map(str, more)]

    def run(self, command: str, *more: object, **streams: object) -> subprocess.CompletedProcess[bytes]:
        """Run a client; its user may do everything."""
        environment = {**os.environ, "PGHOST": str(self.folder), "PGUSER": "postgres"}
        done = subprocess.run(
            self.argv(command, *more), env=environment, cwd=self.folder, check=False, **streams
        )  # type: ignore[call-overload]
        assert done.returncode == 0, command
        return done  # type: ignore[no-any-return]

    def grant(self) -> None:
        """Give the roles their rights, as the playbook does."""
        with RIGHTS.open("rb") as file:
            self.run(f"psql --no-psqlrc -q --set=ON_ERROR_STOP=1 --dbname={NAME} --file=-", stdin=file)

    def refusal(self, role: str, question: str, name: str = NAME) -> str:
        """Return why PostgreSQL refuses a statement of a role; nothing if it does not."""
        argv = self.argv(f"psql --no-psqlrc -qAt --username={role} {name} -c", question)
        environment = {**os.environ, "PGHOST": str(self.folder)}
        done = subprocess.run(
            argv, env=environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        return done.stderr

    def ask(self, question: str) -> list[str]:
        """Return the lines of psql's answer."""
        done = self.run(f"psql --no-psqlrc -At {NAME} -c", question, stdout=subprocess.PIPE)
        return done.stdout.decode().splitlines()

    @property
    def environment(self) -> dict[str, str]:
        """The environment for clients with the role of backups."""
        path = os.pathsep.join([str(self._programs), os.environ["PATH"]])
        return {**os.environ, "PGHOST": str(self.folder), "PGUSER": BACKUP, "PATH": path}

    def site(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `firstflight site` as the service does."""
        command = [sys.executable, "-P", "-m", "cli", "site", *words]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False)

    def contents(self) -> dict[str, list[str]]:
        """Return the rows of all tables, and where sequences are."""
        tables = self.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        found = {table: sorted(self.ask(f'SELECT t::text FROM "{table}" t')) for table in tables}
        sequences = "SELECT sequencename, last_value FROM pg_sequences ORDER BY 1"
        return found | {"sequences": self.ask(sequences)}


@pytest.fixture
def cluster() -> Iterator[PostgresCluster]:
    """A cluster that runs, with an empty database of the service's role."""
    folder = Path(tempfile.mkdtemp(prefix="firstflight-backup."))
    server = PostgresCluster(folder)
    quiet = {"stdout": subprocess.DEVNULL}
    try:
        server.run("initdb --no-sync --auth=trust --username=postgres -D", folder / "data", **quiet)
        options = ["-D", folder / "data", "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        with (folder / "log").open("wb") as log:
            process = children.start(server.argv("postgres", *options), own_session=True, stderr=log)
        try:
            until(lambda: database.READY in (folder / "log").read_text(), (folder / "log").read_text)
            for role in (ROLE, BACKUP, METRICS):
                server.run(f"createuser {role}")
            server.run(f"createdb --owner={ROLE} {NAME}")
            server.grant()
            yield server
        finally:
            children.stop(process)
    finally:
        shutil.rmtree(folder)


def test_a_restored_database_has_the_same_rows_and_old_ones_are_removed(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    text = GUIDE.read_text()
    assert all(command in text for command in (*RESTORE, GRANT)), "the page says something else"
    environment = airflow_environment(tmp_path)
    environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = (
        f"postgresql+psycopg2://{ROLE}@/{NAME}?host={cluster.folder}"
    )
    migrate = [sys.executable, "-P", "-m", "airflow", "db", "migrate"]
    done = subprocess.run(migrate, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    cluster.ask(
        "INSERT INTO slot_pool (pool, slots, description, include_deferred) "
        "SELECT 'scan_' || n, n, 'a \\ and a '' in it', false FROM generate_series(1, 50) n"
    )
    cluster.ask("INSERT INTO variable (key, val, is_encrypted) VALUES ('k', 'gAAAA=', true)")
    before = cluster.contents()
    assert len(before) > 30 and len(before["slot_pool"]) == 51 and before["alembic_version"]

    watched = _metrics(cluster)
    assert watched["up"] == 1 and watched["bytes"] > 1e6
    assert 0 < watched["connections"] < watched["connections_limit"] == 100

    # Each role may do what its service does, and nothing else.
    for role, statement in (
        (METRICS, "SELECT 1 FROM connection"),
        (METRICS, "CREATE TABLE t ()"),
        (METRICS, "CREATE DATABASE t"),
        (BACKUP, "DELETE FROM slot_pool"),
        (BACKUP, "CREATE TABLE t ()"),
        (ROLE, "CREATE DATABASE t"),
    ):
        assert cluster.refusal(role, statement), (role, statement)
    assert cluster.refusal(BACKUP, "SELECT 1 FROM connection") == ""

    done = cluster.site("backup", "airflow", "--to", str(tmp_path / "backups"))
    assert done.returncode == 0, done.stderr
    (made,) = backup.backups(tmp_path / "backups", "airflow")
    dump = made / backup.DUMP
    assert f"restored as a test: {len(before) - 1} tables" in done.stdout
    assert cluster.ask("SELECT datname FROM pg_database WHERE datname LIKE 'airflow%'") == [NAME]
    # Another database is no backup of Airflow.
    done = cluster.site("backup", "airflow", "--database", "postgres", "--to", str(tmp_path / "backups"))
    assert done.returncode == 3 and "has no table alembic_version" in done.stderr
    assert backup.backups(tmp_path / "backups", "airflow") == [made]
    # Only changes after the dump are lost.
    cluster.ask("INSERT INTO variable (key, val, is_encrypted) VALUES ('later', 'x', false)")
    cluster.ask("DELETE FROM slot_pool WHERE pool LIKE 'scan_%'")
    assert cluster.contents() != before
    for command in RESTORE[:2]:
        cluster.run(command)
    with dump.open("rb") as source:
        cluster.run(RESTORE[2], stdin=source)
    cluster.grant()
    assert cluster.contents() == before
    # The service's role owns the tables again, and the next number is free.
    owners = cluster.ask("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'")
    assert owners == [ROLE]
    added = "INSERT INTO slot_pool (pool, slots, include_deferred) VALUES ('new', 1, false)"
    cluster.run(f"psql --no-psqlrc -q --username={ROLE} {NAME} -c", added)
    assert len(cluster.contents()["slot_pool"]) == 52

    for days in (1, 89, 91, 400):
        cluster.ask(f"INSERT INTO log (dttm, event) VALUES (now() - interval '{days} days', '{days}')")
    _clean(environment, days=90)
    assert cluster.ask("SELECT event FROM log WHERE event ~ '^[0-9]+$' ORDER BY event::int") == ["1", "89"]
    assert len(cluster.contents()["slot_pool"]) == 52


def _metrics(cluster: PostgresCluster) -> dict[str, float]:
    """Return what `site metrics` says of the database."""
    machine = machine_metrics.MachineParts(database=f"host={cluster.folder} user={METRICS} dbname={NAME}")
    return {
        sample.name.removeprefix("firstflight_database_"): sample.value
        for family in machine_metrics.metrics(machine)
        for sample in family.samples
    }


def _clean(environment: dict[str, str], days: int) -> None:
    """Run the command of firstflight-airflow-clean.service as systemd does."""
    text = (
        (TREE / "deploy" / "systemd" / "firstflight-airflow-clean.service").read_text().replace("\\\n", " ")
    )
    (line,) = (line for line in text.splitlines() if line.startswith("ExecStart="))
    line = line.partition("=")[2].replace(
        "/opt/firstflight/current/venv/bin/airflow", f"{sys.executable} -P -m airflow"
    )
    words = shlex.split(line.replace("${FIRSTFLIGHT_KEEP_AIRFLOW_DAYS}", str(days)).replace("$$", "$"))
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
