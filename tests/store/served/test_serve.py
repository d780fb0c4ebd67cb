"""`store serve` with the driver: answers, errors, settings, several clients, and an orderly end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clickhouse_driver import Client
from clickhouse_driver.errors import NetworkError, ServerException

import cli.store.store
from firstflight.errors import UsageError
from store import open_store
from store.address import served_address
from store.errors import StoreHeld
from tests.store.served.serving import FIRSTFLIGHT, Served, serving
from tests.waiting import PATIENCE_S, until

# Rows sleep one after the other, independent of the number of cores.
ONE_THREAD = "SETTINGS max_block_size = 10, max_threads = 1"
# Runs for 1,000 s.
SLOW = f"SELECT sum(sleepEachRow(0.01)) FROM numbers(100001) {ONE_THREAD}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("serve") / "store") as found:
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    with served.client() as found:
        yield found


@pytest.fixture
def numbers(client: Client) -> str:
    """A table with a default, a computed and a materialized column."""
    client.execute("DROP TABLE IF EXISTS numbers_table")
    client.execute(
        "CREATE TABLE numbers_table (n UInt8, text String DEFAULT 'none', twice UInt16 ALIAS n * 2, "
        "half Float32 MATERIALIZED n / 2, CONSTRAINT small CHECK n < 100) ENGINE = MergeTree ORDER BY n"
    )
    return "numbers_table"


def code(error: pytest.ExceptionInfo[ServerException]) -> int:
    return int(error.value.code)


@pytest.mark.parametrize(
    ("query", "number", "message"),
    [
        ("SELECT * FROM nowhere", 60, "nowhere"),
        ("SELEC 1", 62, "Syntax error: failed at position 7"),
        ("SELECT throwIf(number = 100000) FROM numbers(200000)", 395, "throwIf"),
        ("SELECT 1; SELECT 2", 62, "Multi-statements"),
        ("INSERT INTO nowhere VALUES", 60, "nowhere"),
        ("USE nowhere", 81, "nowhere"),
    ],
)
def test_errors_have_the_engines_code_and_words(
    client: Client, query: str, number: int, message: str
) -> None:
    rows = [(1,)] if query.startswith("INSERT") else None
    with pytest.raises(ServerException) as caught:
        client.execute(query, rows)
    assert code(caught) == number
    assert message in caught.value.message
    for noise in ("formatQuery", "version 26", "Streaming query failed"):
        assert noise not in caught.value.message
    assert client.execute("SELECT 1") == [(1,)]


def test_parameters_are_the_servers(client: Client) -> None:
    hostile = 'it\'s \\ a "test"\n\twith {b:String} and ü'
    given = {"a": hostile, "n": -5, "table": "one"}
    query = "SELECT {a:String}, {n:Int32} FROM {table:Identifier} AS x"
    assert client.execute(
        f"WITH one AS (SELECT 1) {query}", given, settings={"server_side_params": True}
    ) == [(hostile, -5)]


def test_settings_apply_only_to_their_query(client: Client) -> None:
    statement = "SELECT getSetting('max_block_size'), getSetting('join_use_nulls')"
    ((default, _),) = client.execute(statement)
    assert client.execute(statement, settings={"max_block_size": 77, "join_use_nulls": 1}) == [(77, True)]
    assert client.execute(statement) == [(default, False)]
    client.execute("SET max_block_size = 99")  # for the session, as on any server
    assert client.execute(statement) == [(99, False)]


def test_unknown_settings_are_errors_only_if_important(served: Served) -> None:
    with served.client() as client:
        assert client.execute("SELECT 1", settings={"no_such_setting": 1}) == [(1,)]
    with (
        served.client(settings_is_important=True) as client,
        pytest.raises(ServerException, match="no_such_setting") as caught,
    ):
        client.execute("SELECT 1", settings={"no_such_setting": 1})
    assert code(caught) == 115


def test_a_read_only_query_cannot_write_nor_lift_that(client: Client, numbers: str) -> None:
    for query in (f"DROP TABLE {numbers}", "SELECT 1 SETTINGS readonly = 0", "SET readonly = 0"):
        with pytest.raises(ServerException) as caught:
            client.execute(query, settings={"readonly": 1, "max_threads": 1})
        assert code(caught) == 164
    with pytest.raises(ServerException) as caught:
        client.execute(f"INSERT INTO {numbers} VALUES", [(1, "a")], settings={"readonly": 1})
    assert code(caught) == 164
    assert client.execute(f"SELECT count() FROM {numbers}", settings={"readonly": 1}) == [(0,)]
    assert client.execute(f"INSERT INTO {numbers} VALUES", [(1, "a")]) == 1


def test_inserts_go_by_name_and_leave_the_rest_to_defaults(client: Client, numbers: str) -> None:
    assert client.execute(f"INSERT INTO {numbers} VALUES", [(1, "one")]) == 1
    assert client.execute(f"INSERT INTO firstflight.{numbers} (n) VALUES", [{"n": 2}]) == 1
    assert client.execute(f"INSERT INTO `{numbers}` (text, n) VALUES", [("three", 3)]) == 1
    assert client.execute(f"INSERT INTO {numbers} (* EXCEPT (text)) VALUES", [(4,)]) == 1
    client.execute(f"INSERT INTO {numbers} VALUES (5, 'in the text'), (6, 'too')")
    client.execute(f"INSERT INTO {numbers} SELECT 7, 'selected'")
    assert client.execute(f"SELECT n, text, twice, half FROM {numbers} ORDER BY n") == [
        (1, "one", 2, 0.5),
        (2, "none", 4, 1.0),
        (3, "three", 6, 1.5),
        (4, "none", 8, 2.0),
        (5, "in the text", 10, 2.5),
        (6, "too", 12, 3.0),
        (7, "selected", 14, 3.5),
    ]


def test_an_insert_of_many_blocks_is_complete_or_absent(client: Client, numbers: str) -> None:
    blocks = {"insert_block_size": 10}
    with pytest.raises(ServerException, match="small") as caught:  # only the last block breaks the constraint
        client.execute(f"INSERT INTO {numbers} (n) VALUES", [(n,) for n in range(101)], settings=blocks)
    assert code(caught) == 469
    assert client.execute(f"SELECT count() FROM {numbers}") == [(0,)]
    assert (
        client.execute(f"INSERT INTO {numbers} (n) VALUES", [(n,) for n in range(95)], settings=blocks) == 95
    )
    assert client.execute(f"SELECT count(), uniqExact(_part) FROM {numbers}") == [(95, 1)]
    assert client.execute(f"INSERT INTO {numbers} (n) VALUES", []) == 0


def test_a_token_adds_its_rows_once(client: Client) -> None:
    client.execute("DROP TABLE IF EXISTS once")
    client.execute(
        "CREATE TABLE once (n UInt8) ENGINE = MergeTree ORDER BY n "
        "SETTINGS non_replicated_deduplication_window = 9"
    )
    for token in ("a", "a", "b"):
        client.execute("INSERT INTO once VALUES", [(1,)], settings={"insert_deduplication_token": token})
    assert client.execute("SELECT count() FROM once") == [(2,)]


def test_totals_extremes_and_formats(client: Client) -> None:
    grouped = "SELECT number % 2 AS odd, count() FROM numbers(5) GROUP BY odd WITH TOTALS ORDER BY odd"
    assert client.execute(grouped) == [(0, 3), (1, 2), (0, 5)]  # the driver appends totals to the rows
    answer = client.execute("SELECT number FROM numbers(3)", settings={"extremes": 1})
    assert answer == [(0,), (1,), (2,), (0,), (2,)]
    # The client chooses the format; the protocol transports blocks.
    assert client.execute("SELECT 1 AS a FORMAT CSV", with_column_types=True) == ([(1,)], [("a", "UInt8")])
    assert client.execute("SELECT 'FORMAT CSV\nFORMAT TSV' AS a")[0] == ("FORMAT CSV\nFORMAT TSV",)


def test_statements_without_rows_and_answers_without_any(client: Client) -> None:
    assert client.execute("SELECT number AS a FROM numbers(0)", with_column_types=True) == (
        [],
        [("a", "UInt64")],
    )
    assert client.execute("SHOW TABLES LIKE 'nothing%'", with_column_types=True) == ([], [("name", "String")])
    assert client.execute("EXISTS TABLE nothing") == [(0,)]
    assert client.execute("SELECT toDateTime(0, 'Asia/Tokyo') AS a", with_column_types=True)[1] == [
        ("a", "DateTime('Asia/Tokyo')")
    ]


def test_progress_is_reported(client: Client) -> None:
    query = "SELECT max(number) FROM numbers(300000000) WHERE number % 3 = 0"
    progress = client.execute_with_progress(query)
    steps = [(rows, total) for rows, total in progress]
    assert steps[-1] == (300_000_000, 300_000_000)
    assert steps == sorted(steps)
    assert progress.get_result() == [(299_999_997 + 2,)] or progress.get_result() == [(299_999_997,)]


def test_cancel_ends_a_running_query(served: Served, client: Client) -> None:
    rows = client.execute_iter(f"SELECT number, sleepEachRow(0.01) FROM numbers(100000) {ONE_THREAD}")
    assert next(rows)[0] == 0
    began = time.monotonic()
    client.cancel()
    assert time.monotonic() - began < 300, "it would run for 1,000 s"
    assert client.execute("SELECT 1") == [(1,)]
    assert _running(served, "numbers(100000)") == 0


def test_a_disconnecting_client_ends_its_query(served: Served) -> None:
    client = served.client()
    client.execute_iter(f"SELECT number, sleepEachRow(0.01) FROM numbers(200000) {ONE_THREAD}")
    until(lambda: _running(served, "numbers(200000)"), "the query")
    client.disconnect()
    until(lambda: not _running(served, "numbers(200000)"), "the end of a disconnected client's query")


def test_a_long_query_delays_no_other_client(served: Served) -> None:
    """The long query never finishes, so other queries that are answered did not wait for it."""
    with served.client() as slow, served.client() as other:
        slow.execute_iter(f"SELECT sum(sleepEachRow(0.01)) FROM system.numbers {ONE_THREAD}")
        until(lambda: _running(served, "system.numbers"), "the long query")
        assert other.execute("SELECT 1") == [(1,)]
        assert _running(served, "system.numbers") == 1
        slow.cancel()
    until(lambda: not _running(served, "system.numbers"), "the end of the long query")


def test_many_clients_write_and_read_at_once(served: Served, client: Client) -> None:
    client.execute("DROP TABLE IF EXISTS busy")
    client.execute("CREATE TABLE busy (who UInt8, n UInt32) ENGINE = MergeTree ORDER BY n")
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with served.client(database="firstflight") as connection:
                connection.execute(f"CREATE TEMPORARY TABLE mine AS SELECT {number} AS who")
                for turn in range(5):
                    connection.execute(
                        "INSERT INTO busy VALUES", [(number, turn * 100 + n) for n in range(100)]
                    )
                    assert connection.execute(
                        "SELECT count() FROM busy WHERE who = (SELECT who FROM mine)"
                    ) == [((turn + 1) * 100,)]
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert client.execute("SELECT who, count() FROM busy GROUP BY who ORDER BY who") == [
        (n, 500) for n in range(8)
    ]


def test_a_client_that_breaks_off_an_insert_leaves_nothing(
    served: Served, client: Client, numbers: str
) -> None:
    breaking = served.client()

    def rows() -> Iterator[tuple[int]]:
        yield from ((n,) for n in range(50))
        breaking.connection.socket.shutdown(socket.SHUT_RDWR)
        yield from ((n,) for n in range(50))

    with pytest.raises((NetworkError, EOFError, OSError)):
        breaking.execute(f"INSERT INTO {numbers} (n) VALUES", rows(), settings={"insert_block_size": 10})
    assert client.execute(f"SELECT count() FROM {numbers}") == [(0,)]


@pytest.mark.parametrize("revision", [54429, 54450, 54453, 54454, 54455, 54458, 54460, 54464, 54468])
def test_older_clients_are_understood(served: Served, revision: int) -> None:
    with served.client(client_revision=revision) as client:
        client.execute("DROP TABLE IF EXISTS old")
        client.execute(
            "CREATE TABLE old (n UInt8, t LowCardinality(Nullable(String))) ENGINE = MergeTree ORDER BY n"
        )
        assert client.execute("INSERT INTO old VALUES", [(1, "a"), (2, None)]) == 2
        assert client.execute("SELECT n, t FROM old ORDER BY n") == [(1, "a"), (2, None)]
        assert client.connection.server_info.used_revision == revision
        with pytest.raises(ServerException, match="nowhere"):
            client.execute("SELECT * FROM nowhere")
        assert client.connection.server_info is None or client.execute("SELECT 1") == [(1,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT file('/etc/passwd')",
        "SELECT arrayMap(file, ['/etc/passwd'])",
        "SELECT * APPLY(file) FROM (SELECT '/etc/passwd' AS a)",
        "SELECT * FROM file('/etc/passwd', 'LineAsString')",
        "SELECT * FROM url('http://127.0.0.1:9/', 'LineAsString')",
        "SELECT * FROM executable('id', 'LineAsString', 'a String')",
        "SELECT * FROM Python(hmac)",
        "INSERT INTO FUNCTION file('{folder}/out', 'CSV', 'a Int8') SELECT 1",
        "SELECT 1 INTO OUTFILE '{folder}/out'",
        "CREATE TABLE t (a Int8) ENGINE = File(CSV, '{folder}/out')",
        "CREATE DATABASE x ENGINE = Filesystem('/')",
        "CREATE DICTIONARY d (a UInt64) PRIMARY KEY a SOURCE(FILE(PATH '/etc/passwd' FORMAT 'CSV')) "
        "LAYOUT(FLAT()) LIFETIME(0)",
        "CREATE FUNCTION sneak AS x -> file(x)",
        "BACKUP DATABASE firstflight TO File('{folder}/out')",
        "SYSTEM SHUTDOWN",
    ],
)
def test_clients_reach_the_store_and_nothing_else(client: Client, tmp_path: Path, query: str) -> None:
    with pytest.raises(ServerException) as caught:
        client.execute(query.format(folder=tmp_path))
    assert code(caught) == 48
    assert not list(tmp_path.iterdir())
    assert client.execute("SELECT 'file(''x'')', 1 AS file") == [("file('x')", 1)]


def test_ends_in_order_and_holds_the_store_until_then(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with serving(folder) as served:
        message = rf"process {served.process.pid} \(firstflight store serve --port 0"
        served_address.path_of(folder).unlink()  # otherwise the server would accept it
        with pytest.raises(StoreHeld, match=message), open_store(f"chdb:{folder}", wait_s=0.1):
            pass
        slow = served.client()
        thread = threading.Thread(target=_expect_an_end, args=(slow,))
        thread.start()
        until(lambda: _running(served, "numbers(100001)"), "the slow query")
        began = time.monotonic()
        assert served.end() == 0
        assert time.monotonic() - began < 300, "the server waits for a query of 1,000 s"
        thread.join()
    assert served.log.read_text() == (
        f"serving the store in {folder} at 127.0.0.1:{served.port}\n"
        f"export FIRSTFLIGHT_STORE_FILE={folder}.address\nended; the store is closed\n"
    )
    with open_store(f"chdb:{folder}", wait_s=0) as store:
        assert store.rows("SELECT 1 AS one") == [{"one": 1}]
    with serving(folder) as served:
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(timeout=PATIENCE_S) == 130
    assert "Traceback" not in served.log.read_text()


def _expect_an_end(client: Client) -> None:
    with pytest.raises((EOFError, NetworkError, ServerException, OSError)):
        client.execute(SLOW)


def _running(served: Served, text: str) -> int:
    with served.client() as client:
        ((count,),) = client.execute(
            "SELECT count() FROM system.processes "
            "WHERE query LIKE %(text)s AND query NOT LIKE '%%system.processes%%'",
            {"text": f"%{text}%"},
        )
    return int(count)


def test_a_port_in_use_is_one_sentence(served: Served, tmp_path: Path) -> None:
    done = subprocess.run(
        [FIRSTFLIGHT, "store", "serve", "--port", str(served.port)],
        env=os.environ | {"FIRSTFLIGHT_STORE": f"chdb:{tmp_path / 'store'}"},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    message = f"firstflight: cannot listen on 127.0.0.1 port {served.port}: Address already in use\n"
    assert (done.returncode, done.stderr) == (2, message)

    callback: Any = cli.store.store.serve.callback

    def refused(**options: object) -> str:
        with pytest.raises(UsageError) as caught:
            callback(**{**given, **options})
        return str(caught.value)

    given = {"host": "127.0.0.1", "port": 0, "user": "default", "read_only": False}
    given |= {"password_file": None, "no_password": False, "certificate": None, "key": None}
    given |= {"metrics_port": None, "metrics_host": "127.0.0.1", "loader": None, "loader_password_file": None}
    empty, secret = tmp_path / "empty", tmp_path / "secret"
    empty.touch()
    secret.write_text("secret\n", encoding="utf-8")
    assert "others can reach 0.0.0.0: --no-password is only for" in refused(host="0.0.0.0", no_password=True)
    assert "others can reach ::: --no-password is only for" in refused(host="::", no_password=True)
    assert "exclude each other" in refused(no_password=True, password_file=secret)
    assert "cannot listen on 192.0.2.1 port" in refused(host="192.0.2.1", password_file=secret)
    assert f"the first line of {empty} is empty" in refused(password_file=empty)
    assert f"cannot read {tmp_path / 'none'}" in refused(password_file=tmp_path / "none")
    assert "TLS needs both" in refused(key=empty)
    assert "needs both --loader and --loader-password-file" in refused(loader="vantage")
    assert "a name that differs from --user" in refused(loader="default", loader_password_file=secret)
    assert "cannot use the certificate" in refused(key=empty, certificate=empty)
