"""Statements hidden after quotes in names or rows, in strings that contain SQL, or in stores."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from clickhouse_driver import Client
from clickhouse_driver.errors import ServerException

from firstflight.errors import UsageError
from store.engine.session import EngineError, EngineSession
from store.location import open_store
from store.statements import guard
from tests import stores
from tests.attack.store.statements import client as client
from tests.attack.store.statements import served as served
from tests.store.served.serving import FIRSTFLIGHT, serving

NOT_IMPLEMENTED = 48
_DICTIONARY = "CREATE DICTIONARY d (a UInt64, b String{}) PRIMARY KEY a {} LIFETIME(0)"
_HTTP = "SOURCE(HTTP(URL 'http://127.0.0.1:9/' FORMAT 'CSV')) "
_NULL, _FLAT = "SOURCE(NULL())", "LAYOUT(FLAT())"

READING = [
    "SELECT 1 AS `a'b`, file('{secret}') AS `c'd`",
    "SELECT 1 AS \"a'b\", file('{secret}') AS \"c'd\"",
    "SELECT 1 AS `a\\'b`, file('{secret}')",
    "SELECT 1 AS `a``b`, file('{secret}')",
    "SELECT 1 AS `a\\nb`",
    "SELECT $x$'$x$, file('{secret}'), $x$'$x$",
    "SELECT '--', file('{secret}') /* ' /* */ */ -- '",
    "SELECT 1 AS `a' ` INTO OUTFILE '{folder}/out' TRUNCATE FORMAT RawBLOB",
    "SELECT 1 AS \"a'\" SETTINGS format_schema = '{secret}' -- '",
    "SELECT 1 AS AS SETTINGS format_schema = '{secret}'",
    "SELECT 1 AS SETTINGS SETTINGS extremes, format_schema = '{secret}'",
    "SELECT arrayMap((file), ['{secret}'])",
    "SELECT arrayMap(file AS f, ['{secret}'])",
    "SELECT * APPLY(file) FROM (SELECT '{secret}')",
    "SELECT * FROM format(JSONEachRow, 'x String DEFAULT file(''{secret}'')', '{}')",
    "SELECT * FROM format(JSONEachRow, concat('x String DEFAULT file(''{secret}', ''')'), '{}')",
    "SELECT x FROM format('JSONEachRow', 'y String, x String ALIAS file(''{secret}'')', '{}')",
    "SELECT * FROM VALUES('y String, x String DEFAULT file(''{secret}'')', ('a', 'b'))",
    "SELECT x FROM generateRandom('y String, x String ALIAS file(''{secret}'')') LIMIT 1",
    "SELECT x FROM null('y String, x String alias file(''{secret}'')')",
    "SELECT 1 SETTINGS log_comment = 'mine'",
    "SET log_comment = 'mine'",
    "SELECT * FROM system.stack_trace",
    "EXPLAIN INSERT INTO t VALUES ('a'); DROP TABLE t",
    "EXPLAIN AST INSERT INTO t VALUES ('a'); SELECT file('{secret}')",
]
CHANGING = [
    "INSERT INTO t VALUES ('a'); KILL QUERY WHERE 1 ASYNC",
    "INSERT INTO t VALUES ('a'); CREATE TABLE second (a Int8) ENGINE = Memory",
    "INSERT INTO t (a) VALUES ('a') /* ; */ ; SELECT 1 INTO OUTFILE '{folder}/out'",
    "INSERT INTO t SELECT * FROM input('a String') FORMAT Values ('a'); DROP TABLE t",
    "INSERT INTO FUNCTION null('a Int8') VALUES (1); DROP TABLE t",
    _DICTIONARY.format(" DEFAULT 'SOURCE(NULL(x'", _HTTP + _FLAT),
    _DICTIONARY.format(" DEFAULT 'SOURCE(NULL()) --'", "SOURCE(FILE(PATH '{secret}' FORMAT 'CSV')) " + _FLAT),
    _DICTIONARY.format("", "SOURCE(CLICKHOUSE(TABLE '))' HOST '127.0.0.1' PORT 9)) " + _FLAT),
    _DICTIONARY.format("", f"{_NULL} LAYOUT(SSD_CACHE(PATH '{{folder}}/cache'))"),
    _DICTIONARY.format(" DEFAULT 'LAYOUT(FLAT())'", f"{_NULL} LAYOUT(REGEXP_TREE)"),
    _DICTIONARY.format("", "SOURCE(CLICKHOUSE(QUERY 'SELECT 1 AS `x''`, file(''{secret}'') AS b')) " + _FLAT),
    "CREATE MATERIALIZED VIEW m REFRESH EVERY 1 SECOND ENGINE = Memory AS SELECT 1",
    "CREATE TABLE u (`x'y` Int8, a Int8) ENGINE = URL('http://127.0.0.1:9/', CSV) COMMENT 'x'",
    "CREATE VIEW v AS SELECT 1 AS `q'`, file('{secret}') AS `'`",
    "CREATE TABLE u AS format(JSONEachRow, 'x String DEFAULT file(''{secret}'')', '{}')",
]  # fmt: skip


def _filled(statement: str, folder: Path) -> str:
    secret = folder / "secret"
    secret.write_text("the secret", encoding="utf-8")
    return statement.replace("{secret}", str(secret)).replace("{folder}", str(folder))


@pytest.mark.parametrize("statement", READING + CHANGING)
def test_the_server_does_nothing_of_it(client: Client, tmp_path: Path, statement: str) -> None:
    with pytest.raises(ServerException) as caught:
        client.execute(_filled(statement, tmp_path))
    assert caught.value.code == NOT_IMPLEMENTED
    assert "the secret" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert client.execute("SELECT count() FROM t") == [(0,)]
    assert client.execute("EXISTS TABLE second") == [(0,)]


def test_a_reader_gets_no_hidden_data(tmp_path: Path) -> None:
    environment = os.environ | {"FIRSTFLIGHT_STORE": stores.with_tables(tmp_path / "store")}
    folder = tmp_path / "out"
    folder.mkdir()
    for statement in (READING[0], READING[1], READING[7], READING[14], READING[23], CHANGING[0]):
        text = _filled(statement, folder)
        done = subprocess.run(
            [FIRSTFLIGHT, "sql", text], capture_output=True, text=True, env=environment, check=False
        )
        assert (done.returncode, done.stdout) == (2, ""), (text, done.stderr)
        assert "the secret" not in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert [path.name for path in folder.iterdir()] == ["secret"]


def test_a_reading_user_writes_no_file_of_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with serving(store, "--read-only") as served, served.client() as client:
        metadata = store / "metadata" / "firstflight.sql"
        before = metadata.read_bytes()
        for name in ("`a' `", '"a\'"', "`a`", "a"):
            with pytest.raises(ServerException) as caught:
                client.execute(f"SELECT 1 AS {name} INTO OUTFILE '{metadata}' TRUNCATE FORMAT RawBLOB")
            assert caught.value.code == NOT_IMPLEMENTED
        with pytest.raises(ServerException):
            client.execute("INSERT INTO t VALUES ('a'); SELECT 1")
        assert metadata.read_bytes() == before
    with serving(store) as served, served.client() as client:
        assert client.execute("SELECT 1") == [(1,)]


def test_rows_in_a_statement_are_rows(client: Client) -> None:
    client.execute(
        "CREATE TABLE kept (a String, b String DEFAULT concat('of ', a)) ENGINE = MergeTree ORDER BY a"
    )
    for statement in (
        "INSERT INTO kept VALUES ('1', 'b; DROP TABLE kept'), ('2', '--');",
        "INSERT INTO kept (a) -- VALUES ('no')\n VALUES ('3') ; -- the end",
        "INSERT INTO firstflight.kept (a) SETTINGS async_insert = 0 VALUES ('4')",
        'INSERT INTO kept FORMAT JSONEachRow {"a": "5é"}',
        "INSERT INTO kept FORMAT CSV\n6,x\n7,y\n",
        "INSERT INTO kept WITH '8' AS x SELECT x, x",
        "INSERT INTO kept (a) SETTINGS async_insert = 0 SELECT '9'",
    ):
        client.execute(statement)
    client.execute("INSERT INTO kept (a) VALUES", [("A",)])
    assert client.execute("SELECT * FROM kept ORDER BY a") == [
        ("1", "b; DROP TABLE kept"), ("2", "--"), ("3", "of 3"), ("4", "of 4"), ("5é", "of 5é"), ("6", "x"),
        ("7", "y"), ("8", "8"), ("9", "of 9"), ("A", "of A"),
    ]  # fmt: skip
    client.execute("DROP TABLE kept")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT file, max(file), url FROM (SELECT 1 AS file, 2 AS url) GROUP BY file, url", [(1, 1, 2)]),
        ("WITH file AS (SELECT 1 AS a) SELECT file.a FROM file", [(1,)]),
        ("SELECT 1 AS `INTO OUTFILE`, 2 AS SETTINGS, 3 AS `TO DISK`", [(1, 2, 3)]),
        ("SELECT 'SOURCE(HTTP(', 'it''s', `a b` FROM (SELECT 1 AS `a b`)", [("SOURCE(HTTP(", "it's", 1)]),
        ("SELECT * FROM format(JSONEachRow, 'x UInt8', '{\"x\": 1}')", [(1,)]),
        ("SELECT * FROM values('a String, b UInt8', ('default', 1))", [("default", 1)]),
        ("SELECT format('{} {}', 'default', concat('a', 'b'))", [("default ab",)]),
        ("CHECK TABLE t", []),
        ("SELECT 1 SETTINGS extremes = 1, max_threads = 1", [(1,)]),
    ],
)  # fmt: skip
def test_harmless_statements_are_permitted(
    client: Client, statement: str, expected: list[tuple[object, ...]]
) -> None:
    assert client.execute(statement) == expected


def test_the_mark_of_a_query_stays(client: Client) -> None:
    """The server finds the queries from a disconnected client by it."""
    mark = "SELECT getSetting('log_comment')"
    ((before,),) = client.execute(mark)
    assert client.execute(mark, settings={"log_comment": "mine"}) == [(f"{before} mine",)]
    assert client.execute(mark) == [(before,)]


STORED = [
    "CREATE TABLE x.t (`a` String DEFAULT file('/etc/hostname')) ENGINE = Memory",
    "CREATE TABLE x.t (`a` Int8) ENGINE = URL('http://127.0.0.1:9/', CSV)",
    "CREATE VIEW x.v (`a'b` String) AS SELECT file('/etc/hostname') AS `a'b`",
    "CREATE VIEW x.v (`a` String) AS SELECT * FROM format(JSONEachRow, 'a String DEFAULT file(''x'')', '{}')",
    "CREATE DICTIONARY x.d (`a` UInt64) PRIMARY KEY a " + _HTTP + _FLAT,
    "CREATE DICTIONARY d (`a` UInt64) PRIMARY KEY a "
    "SOURCE(CLICKHOUSE(QUERY 'SELECT file(\\'x\\')')) " + _FLAT,
    "CREATE MATERIALIZED VIEW x.m REFRESH EVERY 1 HOUR TO x.t AS SELECT 1 AS a",
    "CREATE FUNCTION f AS x -> file(x)",
    "CREATE TABLE without columns (",
]  # fmt: skip


def parsed(engine: EngineSession, statement: str) -> str | None:
    """Return a definition as the engine's parser prints it, or null if it is no statement."""
    try:
        return engine.formatted(statement)
    except EngineError:
        return None


@pytest.mark.parametrize("statement", STORED)
def test_stored_statements_are_checked_like_those_of_clients(statement: str) -> None:
    with closing(EngineSession()) as engine, pytest.raises(UsageError):
        guard.check_stored(engine, parsed(engine, statement))


def test_our_own_objects_are_permitted(tmp_path: Path) -> None:
    with open_store(stores.with_tables(tmp_path / "store"), write=True) as store:
        store.execute("CREATE VIEW by_expression AS SELECT 'a', concat('x', 'y')")  # columns named by these
        objects = store.rows(
            "SELECT create_table_query AS made FROM system.tables WHERE database = currentDatabase() "
            "UNION ALL SELECT create_query FROM system.functions WHERE origin != 'System'"
        )
    assert len(objects) > 30
    with closing(EngineSession()) as engine:
        for row in objects:
            guard.check_stored(engine, parsed(engine, str(row["made"])))
