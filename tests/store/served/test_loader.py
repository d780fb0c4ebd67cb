"""The second user of `store serve`, for vantage points: can load rows, but cannot change or drop tables."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from clickhouse_driver.errors import ServerException

from firstflight.errors import UsageError
from store import open_store
from store.load import loader
from store.load.loader import Loaded
from store.statements import guard
from store.tables import migrate
from tests.store.conftest import template as template
from tests.store.rows import many, write
from tests.store.served.serving import Served, serving

PASSWORDS = {"firstflight": "of the centre", "vantage": "of vantage points"}
ACCESS_DENIED = 497


def options(folder: Path) -> list[str]:
    """Write the passwords to files; return the options of the server."""
    for name, password in PASSWORDS.items():
        (folder / name).write_text(f"{password}\n")
    given = ["--user", "firstflight", "--password-file", str(folder / "firstflight")]
    return [*given, "--loader", "vantage", "--loader-password-file", str(folder / "vantage")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Served]:
    """A server with both users and all tables."""
    folder = tmp_path_factory.mktemp("loader")
    shutil.copytree(template, folder / "store", symlinks=True)
    with serving(folder / "store", *options(folder)) as found:
        yield found


def url(served: Served, user: str) -> str:
    """Return the address for FIRSTFLIGHT_STORE."""
    return f"clickhouse://{user}:{PASSWORDS[user].replace(' ', '%20')}@127.0.0.1:{served.port}/firstflight"


def test_it_loads_and_replaces_rows(served: Served, tmp_path: Path) -> None:
    path = tmp_path / "quic_probe.parquet"
    for count, action in ((30, "loaded"), (20, "replaced"), (20, "unchanged")):
        if action != "unchanged":
            write(path, many(count))
        (result,) = loader.load_files([path], url(served, "vantage"))
        assert isinstance(result, Loaded), result
        assert (result.action, result.in_store) == (action, count)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE quic_probe",
        "DROP DATABASE firstflight",
        "DROP VIEW table1",
        "TRUNCATE TABLE quic_probe",
        "DELETE FROM quic_probe WHERE true",
        "RENAME TABLE quic_probe TO other",
        "EXCHANGE TABLES quic_probe AND dns_answer",
        "CREATE TABLE other (a Int8) ENGINE = MergeTree ORDER BY a",
        "CREATE OR REPLACE VIEW table1 AS SELECT 1",
        "ALTER TABLE quic_probe DROP PARTITION tuple()",
        "ALTER TABLE quic_probe DELETE WHERE false, DROP COLUMN ttl",
        "ALTER TABLE quic_probe DROP COLUMN ttl",
        "ALTER TABLE quic_probe UPDATE ttl = 1 WHERE true",
        "ALTER TABLE quic_probe MODIFY TTL sent_at + INTERVAL 1 SECOND",
        "OPTIMIZE TABLE quic_probe FINAL",
    ],
)
def test_it_changes_and_drops_no_tables(served: Served, statement: str) -> None:
    with served.client(user="vantage", password=PASSWORDS["vantage"]) as client:
        with pytest.raises(ServerException) as caught:
            client.execute(statement)
        assert caught.value.code == ACCESS_DENIED, caught.value
        with pytest.raises(ServerException) as caught:
            client.execute(f"/* SELECT */ {statement}", settings={"readonly": 0})
        assert caught.value.code == ACCESS_DENIED, caught.value
        assert client.execute("SELECT count() FROM quic_probe")


@pytest.mark.parametrize(
    ("statement", "is_allowed"),
    [
        ("SELECT 1", True),
        ("SET max_threads = 2", True),
        ("USE firstflight", True),
        ("SET ROLE other", False),
        ("USE ROLE other", False),
    ],
)
def test_it_reads_and_sets(statement: str, is_allowed: bool) -> None:
    assert (guard.refused_to_loaders(statement) is None) == is_allowed


def test_passwords_are_of_their_users(served: Served) -> None:
    for user, password in (("vantage", "firstflight"), ("firstflight", "vantage"), ("default", "vantage")):
        with pytest.raises(ServerException) as caught:
            served.client(user=user, password=PASSWORDS[password]).execute("SELECT 1")
        assert caught.value.code == 516


def test_tables_that_are_missing_are_made_at_the_centre(tmp_path: Path) -> None:
    with serving(tmp_path / "store", *options(tmp_path)) as empty:
        with (
            pytest.raises(UsageError, match="run `firstflight db migrate` at the centre"),
            open_store(url(empty, "vantage"), write=True) as store,
        ):
            migrate.migrate(store)
        with open_store(url(empty, "firstflight"), write=True) as store:
            assert migrate.migrate(store)
        with open_store(url(empty, "vantage"), write=True) as store:
            assert migrate.migrate(store) == []
