"""Statements that reached outside the store through `store serve`, or changed it for a read-only user."""

from __future__ import annotations

from pathlib import Path

import pytest
from clickhouse_driver import Client
from clickhouse_driver.errors import ServerException

from store.engine.session import EngineSession
from store.errors import from_engine
from store.statements import vocabulary
from tests.attack.store.statements import client as client
from tests.attack.store.statements import served as served
from tests.store.served.serving import Served, serving

NOT_IMPLEMENTED, NOT_ALLOWED, DISABLED, READONLY = 48, 452, 344, 164
_DICTIONARY = "CREATE DICTIONARY d (a UInt64, b String) PRIMARY KEY a SOURCE({}) LAYOUT(FLAT()) LIFETIME(0)"
_TABLE = "CREATE TABLE disk_of_its_own (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS "

SHAPES = [
    ("SELECT * FROM format(Values, 'x String', '(file(''{secret}''))')", DISABLED),
    ("SELECT * FROM format(Values, '(file(''{secret}''))')", 636),
    ("INSERT INTO t VALUES (substring(file('{secret}'), 1, 20))", DISABLED),
    ("INSERT INTO t SETTINGS input_format_values_interpret_expressions = 1 VALUES (file('{secret}'))", 48),
    ("INSERT INTO t FORMAT Template SETTINGS format_template_row = '{secret}' x", NOT_IMPLEMENTED),
    ("INSERT INTO t FROM INFILE '{secret}' FORMAT LineAsString", NOT_IMPLEMENTED),
    (_DICTIONARY.format("CLICKHOUSE(QUERY 'SELECT 1 AS a, file(''{secret}'') AS b')"), NOT_IMPLEMENTED),
    (_DICTIONARY.format("CLICKHOUSE(TABLE 't' WHERE 'file(''{secret}'') != 1')"), NOT_IMPLEMENTED),
    (_DICTIONARY.format("CLICKHOUSE(HOST '127.0.0.1' PORT 9 TABLE 't')"), NOT_IMPLEMENTED),
    (_DICTIONARY.format("HTTP(URL 'http://127.0.0.1:9/' FORMAT 'CSV')"), NOT_IMPLEMENTED),
    (_DICTIONARY.format("FILE(PATH '{secret}' FORMAT 'CSV')"), NOT_IMPLEMENTED),
    ("SELECT * FROM format(Template, 'a') SETTINGS format_template_row = '{secret}'", NOT_IMPLEMENTED),
    ("SELECT 1 SETTINGS format_avro_schema_registry_url = 'http://127.0.0.1:9/'", NOT_IMPLEMENTED),
    ("SELECT 1 FORMAT Protobuf SETTINGS output_format_schema = '{folder}/out'", NOT_IMPLEMENTED),
    ("SET format_schema = '{secret}'", NOT_IMPLEMENTED),
    (_TABLE + "disk = disk(type = 'object_storage', object_storage_type = 'local', "
     "metadata_type = 'local', path = '{folder}/out/')", NOT_IMPLEMENTED),
    (_TABLE + "index_granularity = 8192, disk = disk(type = 'web', endpoint = 'http://127.0.0.1:9/x/')",
     NOT_IMPLEMENTED),
    ("ALTER TABLE t MODIFY SETTING disk = 'x'", NOT_IMPLEMENTED),
    ("ALTER TABLE t FREEZE WITH NAME 'x'", NOT_IMPLEMENTED),
    ("ALTER TABLE t FETCH PARTITION tuple() FROM '/x'", NOT_IMPLEMENTED),
    ("CREATE TABLE u (a String) ENGINE = URL('http://127.0.0.1:9/', CSV)", NOT_IMPLEMENTED),
    ("CREATE TABLE u AS file('{secret}', 'LineAsString')", NOT_IMPLEMENTED),
    ("CREATE VIEW v SQL SECURITY NONE AS SELECT 1", NOT_IMPLEMENTED),
    ("SELECT * FROM Python(hello)", NOT_IMPLEMENTED),
    ("SELECT * FROM s3('http://127.0.0.1:9/a/b')", NOT_IMPLEMENTED),
    ("SELECT * FROM remote('127.0.0.1:9', 'system.one')", NOT_IMPLEMENTED),
    ("SELECT * FROM sqlite('{secret}', 't')", NOT_IMPLEMENTED),
    ("SELECT 1 PARALLEL WITH SELECT 2", NOT_IMPLEMENTED),
    ("SYSTEM STOP MERGES", NOT_IMPLEMENTED),
    ("KILL QUERY WHERE 1", NOT_IMPLEMENTED),
    ("CREATE USER x", NOT_IMPLEMENTED),
    ("DETACH TABLE t", NOT_IMPLEMENTED),
    ("EXECUTE AS x SELECT 1", NOT_IMPLEMENTED),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "code"), SHAPES)
def test_no_statement_leads_out_of_the_store(
    client: Client, tmp_path: Path, statement: str, code: int
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret", encoding="utf-8")
    with pytest.raises(ServerException) as caught:
        client.execute(statement.replace("{secret}", str(secret)).replace("{folder}", str(tmp_path)))
    assert caught.value.code == code
    assert "the secret" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert client.execute("SELECT count() FROM t") == [(0,)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format_template_row", "/etc/hostname"),
        ("format_schema", "/etc/hostname:Message"),
        ("format_avro_schema_registry_url", "http://127.0.0.1:9/"),
        ("input_format_values_interpret_expressions", "1"),
        ("allow_introspection_functions", "1"),
        ("output_format_schema", "/tmp/x"),
        ("s3_max_redirects", "1"),
    ],
)
def test_no_setting_of_a_packet_does(client: Client, name: str, value: str) -> None:
    with pytest.raises(ServerException) as caught:
        client.execute("SELECT 1", settings={name: value})
    assert caught.value.code == NOT_ALLOWED
    assert name in caught.value.message
    assert client.execute("SELECT 1") == [(1,)]


def test_statements_of_our_programs_are_permitted(client: Client) -> None:
    for statement in (
        "CREATE TABLE IF NOT EXISTS kept (a UInt64, b String CODEC(ZSTD(1)), INDEX i b TYPE bloom_filter) "
        "ENGINE = MergeTree ORDER BY a SETTINGS index_granularity = 1024",
        "INSERT INTO kept VALUES (1, 'file(''x'')'), (2, 'SETTINGS disk = 1')",
        "ALTER TABLE kept ADD COLUMN IF NOT EXISTS c Int8, MODIFY SETTING ttl_only_drop_parts = 1",
        "CREATE DICTIONARY IF NOT EXISTS kept_of (a UInt64, b String) PRIMARY KEY a "
        "SOURCE(CLICKHOUSE(QUERY 'SELECT a, b FROM firstflight.kept')) LAYOUT(FLAT()) LIFETIME(0)",
        "CREATE OR REPLACE FUNCTION plus_one AS x -> x + 1",
        "CREATE OR REPLACE VIEW shown AS SELECT a, plus_one(a) AS url FROM kept SETTINGS max_threads = 1",
        "SET max_threads = 2, join_use_nulls = 1",
        "OPTIMIZE TABLE kept FINAL",
    ):
        client.execute(statement)
    assert client.execute("SELECT url, dictGet('firstflight.kept_of', 'b', a) FROM shown ORDER BY a") == [
        (2, "file('x')"),
        (3, "SETTINGS disk = 1"),
    ]
    assert client.execute("SELECT count() FROM (SELECT 1 SETTINGS max_block_size = 1)") == [(1,)]


def test_a_reading_user_stops_no_merges_and_no_queries(tmp_path: Path) -> None:
    with serving(tmp_path / "store", "--read-only") as served, served.client() as client:
        for statement in (
            "SYSTEM STOP MERGES", "KILL QUERY WHERE 1", "OPTIMIZE TABLE system.one", "SET readonly = 0",
            "SYSTEM JEMALLOC FLUSH PROFILE",
            "CREATE TEMPORARY TABLE x (a Int8)", "USE ROLE x", "DETACH TABLE x",
        ):  # fmt: skip
            with pytest.raises(ServerException) as caught:
                client.execute(statement)
            assert caught.value.code in (NOT_IMPLEMENTED, READONLY, 62), statement
        assert client.execute("SELECT 1") == [(1,)]


def test_answers_have_an_end(client: Client) -> None:
    few = {"max_result_rows": 100_000, "max_memory_usage": 200_000_000, "max_block_size": 65_536}
    for query, message, advice in (
        ("SELECT number FROM numbers(1000000000000)", "Limit for result exceeded", "with WHERE or LIMIT"),
        (
            "SELECT groupArray(number) FROM numbers(1000000000000)",
            "memory limit exceeded",
            "group by fewer columns",
        ),
    ):
        with pytest.raises(ServerException, match=message) as caught:
            for _ in client.execute_iter(query, settings=few):
                pass
        shown = str(from_engine(f"Code: {caught.value.code}. {caught.value.message}", "the store"))
        assert message in shown and ": select fewer rows" in shown and advice in shown, shown
        assert "\n" not in shown
    for name in ("max_memory_usage", "max_result_rows", "max_execution_time"):
        for value in ("0", "200000000000"):
            with pytest.raises(ServerException, match=name):
                client.execute("SELECT 1", settings={name: value})


def test_every_function_of_the_engine_was_reviewed() -> None:
    """After an engine upgrade: review the new entries of system.functions, then update the number."""
    engine = EngineSession()
    try:
        names = engine.run("SELECT DISTINCT name FROM system.functions").decode().split()
        assert vocabulary.refused_functions(engine) >= {
            "file",
            "url",
            "aigenerate",
            "addresstoline",
            "python",
        }
        assert (
            len(engine.run("SELECT name FROM system.table_functions").decode().split())
            == vocabulary.REVIEWED_TABLE_FUNCTIONS
        )
    finally:
        engine.close()
    assert len(names) == vocabulary.REVIEWED


@pytest.mark.parametrize(
    "asked",
    ["hostName()", "hostname()", "FQDN()", "fullHostName()", "displayName()", "getServerSetting('path')"],
)
def test_the_host_name_is_not_revealed(client: Client, asked: str) -> None:
    with pytest.raises(ServerException) as refused:
        client.execute(f"SELECT {asked}")
    assert refused.value.code == NOT_IMPLEMENTED
    client.connection.force_connect()
    assert client.connection.server_info.display_name == "firstflight"


@pytest.mark.parametrize(
    "asked",
    [
        "CREATE DATABASE `" + 300 * "x" + "`",
        'INSERT INTO t FORMAT JSONEachRow {"a": [}',
        "ALTER TABLE t ATTACH PART 'all_9_9_0'",
    ],
)
def test_errors_do_not_tell_where_the_store_is(served: Served, client: Client, asked: str) -> None:
    """The first and the second one named a file with its whole path."""
    with pytest.raises(ServerException) as refused:
        client.execute(asked)
    assert str(served.log.parent) not in refused.value.message
    assert "/proc/self" not in refused.value.message


def test_the_error_of_a_damaged_part_names_the_part_alone(client: Client) -> None:
    client.execute("CREATE TABLE damaged (a Int64) ENGINE = MergeTree ORDER BY a")
    client.execute("INSERT INTO damaged VALUES", [(1,)])
    (part,) = client.execute("SELECT path FROM system.parts WHERE active AND table = 'damaged'")
    (Path(part[0]) / "data.bin").write_bytes(b"12345")
    with pytest.raises(ServerException) as refused:
        client.execute("SELECT * FROM damaged")
    client.execute("DROP TABLE damaged")
    assert f"store/{part[0].partition('/store/store/')[2]}data.bin" in refused.value.message
    assert part[0] not in refused.value.message
