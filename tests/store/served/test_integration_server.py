"""The same tests of the server path with `store serve` and, if configured, a real ClickHouse server.

FIRSTFLIGHT_TEST_CLICKHOUSE has the server's URL, with a user who may create and drop databases, for example
`clickhouse://default:@localhost:9000/?cluster=NAME`. The tests create and drop a database with a new name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from firstflight.errors import FirstflightError, UsageError
from schemas import records
from store import DATABASE, lease, open_store
from store.address import url as store_url
from store.errors import StoreError, StoreHeld
from store.lease import Lease
from store.load import loader, origin
from store.load.loader import Loaded, Result
from store.tables import migrate
from tests.store.rows import DAY_NS, many, probe, write
from tests.store.served.serving import serving

REAL = "FIRSTFLIGHT_TEST_CLICKHOUSE"


@pytest.fixture(scope="module", params=["served", "real"] if REAL in os.environ else ["served"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a database that does not exist yet."""
    name = f"firstflight_test_{uuid.uuid4().hex[:12]}"
    if request.param == "served":
        with serving(tmp_path_factory.mktemp("integration") / "store") as served:
            yield served.url.replace(f"/{DATABASE}", f"/{name}")
        return
    place = store_url.parse(os.environ[REAL], name)
    base, _, options = os.environ[REAL].partition("?")
    url = f"{base.rsplit('/', 1)[0] if base.count('/') > 2 else base}/{name}" + (
        f"?{options}" if options else ""
    )
    assert store_url.parse(url, "") == replace(place, database=name)
    yield url
    with open_store(url, write=True) as store:
        store.execute(store.dialect.render("DROP DATABASE ${database} ${on_cluster} SYNC"))


@pytest.fixture(scope="module")
def migrated(address: str) -> str:
    """The same database with all tables."""
    with open_store(address, write=True) as store:
        migrate.migrate(store)
    return address


@pytest.fixture
def url(migrated: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The database as the store of the test."""
    monkeypatch.setenv("FIRSTFLIGHT_STORE", migrated)
    return migrated


@pytest.fixture
def run_id() -> str:
    """A separate run for each test."""
    return f"20261120T060000Z-{uuid.uuid4().hex[:6]}"


def ask(query: str, **parameters: str) -> list[dict[str, Any]]:
    with open_store() as store:
        return store.rows(query, parameters)


def actions(results: list[Result]) -> list[str]:
    return [result.action if isinstance(result, Loaded) else "refused" for result in results]


@pytest.mark.skipif(REAL not in os.environ, reason=f"no real ClickHouse server: {REAL} names none")
def test_a_real_server_is_among_them(address: str) -> None:
    if address.startswith("clickhouse"):
        assert store_url.parse(address, DATABASE).public_url


def test_an_empty_database_says_what_to_do(address: str) -> None:
    missing = address.replace("firstflight_test_", "firstflight_none_")
    with pytest.raises(UsageError, match="is empty: run a campaign, load record files"), open_store(missing):
        pass


def test_two_programs_migrate_at_once(address: str) -> None:
    """Both programs start without tables. One creates them, and the other uses them."""
    url = address.replace("firstflight_test_", "firstflight_twice_")
    done: list[int] = []

    def run() -> None:
        with open_store(url, write=True) as store:
            done.append(len(migrate.migrate(store)))

    threads = [threading.Thread(target=run) for _ in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_store(url, write=True) as store:
        steps = store.rows("SELECT count() AS n, uniqExact(part, name) AS different FROM schema_migration")
        store.execute(store.dialect.render("DROP DATABASE ${database} ${on_cluster} SYNC"))
    assert sorted(done) == [0, steps[0]["n"]]
    assert steps[0]["n"] == steps[0]["different"] > 0


def test_a_migration_that_takes_minutes_is_waited_for(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute passes at each check of the lease. The other program finishes after the tenth check."""
    found = [[migrate.MigrationStep("view", "of the other program", "", ())], []]
    monkeypatch.setattr(migrate, "pending", lambda _: found.pop(0))
    with open_store(url, write=True) as store:
        other = Lease(store, "migrations")
        other.take()
        passed = [0.0]

        def sleep(_: float) -> None:
            passed.append(passed[-1] + 30)
            if len(passed) > 10:
                other.release()

        clock = SimpleNamespace(monotonic=lambda: passed[-1], sleep=sleep)
        monkeypatch.setattr(lease, "time", clock)
        assert migrate.migrate(store) == [] == found


def test_second_migration_applies_nothing(url: str) -> None:
    with open_store(url, write=True) as store:
        assert migrate.migrate(store) == []
    with open_store(url) as store:
        assert migrate.pending(store) == []
        assert migrate.applied(store)[0]["part"] == "migration"


@pytest.mark.usefixtures("url")
def test_every_value_arrives_as_it_was(tmp_path: Path, run_id: str) -> None:
    row = probe(
        "iack",
        run=run_id,
        ip="2001:DB8::0:1",
        domain="ü\\'\"\t.example",
        sent_at=DAY_NS + 987_654_321,
        ack_eliciting=False,
        since_last_probe_s=86_400.5,
        ttl=57,
    )
    nothing = probe("timeout", run=run_id, domain="b.example", rank=2)
    assert actions(loader.load_files([write(tmp_path / "quic_probe.parquet", [row, nothing])])) == ["loaded"]
    stored, other = ask(
        "SELECT *, toUnixTimestamp64Nano(sent_at) AS ns FROM quic_probe "
        "WHERE run = {run:String} ORDER BY rank",
        run=run_id,
    )
    assert (stored.pop("ns"), stored.pop("sent_at")) == (row["sent_at"], "2026-11-20 06:00:00.987654321")
    assert stored.pop("source_file") == origin.name_outside(tmp_path / "quic_probe.parquet")
    assert stored.pop("amplification") == pytest.approx(row["amplification"], rel=1e-6)
    described = {column.name for column in records.load("quic_probe").file_columns}
    for name in described & stored.keys():
        assert stored[name] == row[name], name
    assert (other["ack_us"], other["ack_to_sh_us"], other["amplification"]) == (None, None, 0)


@pytest.mark.usefixtures("url")
def test_loading_twice_changes_nothing_and_a_new_file_replaces(tmp_path: Path, run_id: str) -> None:
    path = write(tmp_path / "quic_probe.parquet", many(500, run=run_id))
    counted = (
        "SELECT count() AS n, countIf(outcome = 'iack') AS iack FROM quic_probe WHERE run = {run:String}"
    )
    assert actions(loader.load_files([path, path])) == ["loaded", "unchanged"]
    assert ask(counted, run=run_id) == [{"n": 500, "iack": 500}]
    write(path, many(400, run=run_id, outcome="coalesced"))
    assert actions(loader.load_files([path])) == ["replaced"]
    assert ask(counted, run=run_id) == [{"n": 400, "iack": 0}]
    # The earlier rows are complete again, although the server already inserted these blocks once.
    write(path, many(500, run=run_id))
    assert actions(loader.load_files([path])) == ["replaced"]
    assert ask(counted, run=run_id) == [{"n": 500, "iack": 500}]
    with open_store(write=True) as store:
        store.execute(f"ALTER TABLE quic_probe DELETE WHERE run = '{run_id}' AND domain < 'name000010'")
    assert actions(loader.load_files([path])) == ["replaced"]
    assert ask(counted, run=run_id) == [{"n": 500, "iack": 500}]


@pytest.mark.usefixtures("url")
def test_two_loaders_of_the_same_file_at_once(tmp_path: Path, run_id: str) -> None:
    path = write(tmp_path / "quic_probe.parquet", many(20_000, run=run_id))
    results: list[str] = []
    threads = [
        threading.Thread(target=lambda: results.extend(actions(loader.load_files([path])))) for _ in "abc"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["loaded", "unchanged", "unchanged"]
    (found,) = ask(
        "SELECT count() AS n, uniqExact(domain) AS d FROM quic_probe WHERE run = {run:String}", run=run_id
    )
    assert found == {"n": 20_000, "d": 20_000}


def test_a_lease_has_one_holder(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = f"test {uuid.uuid4()}"
    monkeypatch.setattr(sys, "argv", ["/opt/bin/firstflight", "load", "RUN"])
    monkeypatch.setattr(lease, "_this_process", lease._this_process.__wrapped__)  # without its cache
    with open_store(url, write=True) as store:
        first, second = Lease(store, subject), Lease(store, subject)
        first.take()
        message = (
            rf"{subject} in clickhouse://.* has been held for more than 0.1 s by process {os.getpid()} on "
            r".* \(firstflight load RUN, since "
        )
        with pytest.raises(StoreHeld, match=message):
            second.take(0.1)
        with monkeypatch.context() as ending:
            ending.setattr(lease, "LEASE_S", 0)  # simulate that the first holder did not renew it in time
            first.confirm()
        second.take(5)
        with pytest.raises(StoreHeld, match="was taken over"):
            first.confirm()
        second.confirm()
        second.release()
        first.take(0)


def test_of_many_at_once_one_gets_the_lease(url: str) -> None:
    subject, taken = f"test {uuid.uuid4()}", []

    def take() -> None:
        with open_store(url, write=True) as store:
            lease = Lease(store, subject)
            try:
                lease.take(0)
            except StoreHeld:
                return
            taken.append(lease)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1


def test_a_dead_holder_of_this_machine_is_not_waited_for(url: str) -> None:
    """The holder was killed. Another process may have its PID now."""
    subject = f"test {uuid.uuid4()}"
    script = (
        "import os, sys\nfrom store import open_store\n"
        "from store.lease import Lease\n"
        "with open_store(write=True) as store:\n"
        "    Lease(store, sys.argv[1]).take(); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script, subject], check=False)
    assert done.returncode == -signal.SIGKILL
    with open_store(url, write=True) as store:
        Lease(store, subject).take(0)


def test_inserts_of_one_token_are_added_once(url: str, run_id: str) -> None:
    with open_store(url, write=True) as store:
        for kind in ("quic_probe", "quic_connection", "dns_answer", "target", "run"):
            (table,) = store.rows(
                "SELECT engine, create_table_query AS made FROM system.tables "
                "WHERE database = {database:String} AND name = {kind:String}",
                {"database": store.dialect.database, "kind": kind},
            )
            remembers = "non_replicated_deduplication_window = 1000" in table["made"]
            assert table["engine"].startswith("Replicated") or remembers, kind
        import pyarrow as pa

        batch = pa.table(
            {
                "run": [run_id],
                "rank": pa.array([1], pa.uint32()),
                "domain": ["a"],
                "list_id": ["l"],
                "source_file": ["f"],
            }
        )
        for token in ("a", "a", "b"):
            store.insert("target", batch, token=f"{run_id} {token}")
        assert store.rows("SELECT count() AS n FROM target WHERE run = {run:String}", {"run": run_id}) == [
            {"n": 2}
        ]


@pytest.mark.parametrize(
    ("output_format", "answer"),
    [
        (
            "JSONEachRow",
            b'{"a":1,"b":"x","c":["2026-11-20 06:00:00.000000001"],"d":null,"e":18446744073709551615}\n',
        ),
        (
            "CSVWithNames",
            b'"a","b","c","d","e"\n1,"x","[\'2026-11-20 06:00:00.000000001\']",\\N,18446744073709551615\n',
        ),
        ("TSV", b"1\tx\t['2026-11-20 06:00:00.000000001']\t\\N\t18446744073709551615\n"),
        ("Vertical", "─".encode()),
        ("PrettyCompact", "┌─a─┬─b─┬─c".encode()),
        ("Parquet", b"PAR1"),
        ("Arrow", b"ARROW1"),
    ],
)
def test_answers_in_any_format(url: str, output_format: str, answer: bytes) -> None:
    query = (
        "SELECT 1 AS a, 'x' AS b, [toDateTime64('2026-11-20 06:00:00.000000001', 9, 'UTC')] AS c, "
        "NULL::Nullable(Int8) AS d, 18446744073709551615 AS e"
    )
    with open_store(url) as store:
        found = store.formatted(query, output_format).content
        assert answer in found
        assert store.formatted(f"{query} FORMAT {output_format}", "TSV").content[:4] == found[:4]
        with pytest.raises(StoreError, match="Unknown format Nonsense"):
            store.formatted(query, "Nonsense")


def test_rows_are_as_an_embedded_store_gives_them(url: str) -> None:
    hostile = 'it\'s \\ a\n\t"test" {x:String}'
    with open_store(url) as store:
        assert store.rows("SELECT {s:String} AS s, {n:Int64} AS n", {"s": hostile, "n": -3}) == [
            {"s": hostile, "n": -3}
        ]
        # A parameter may have the same name as a function that the server rejects.
        assert store.rows("SELECT {file:String} AS s", {"file": "x"}) == [{"s": "x"}]
        assert store.rows(
            "SELECT (1, 'a') AS t, map('k', [1]) AS m, toDate('2026-11-20') AS d, "
            "toIPv6('2001:db8::1') AS i, [(1, NULL)] AS l, 0.1 AS f, nan AS x, "
            "toDateTime64('2026-11-20 06:00:00.123456789', 9, 'UTC') AS at"
        ) == [
            {"t": [1, "a"], "m": {"k": [1]}, "d": "2026-11-20", "i": "2001:db8::1", "l": [[1, None]]}
            | {"f": 0.1, "x": None, "at": "2026-11-20 06:00:00.123456789"}
        ]
        assert store.rows("SELECT number FROM numbers(0)") == []
        assert [
            row["number"] for row in store.rows("SELECT number FROM numbers(200000) ORDER BY number")
        ] == list(range(200_000))
        other = "run AS r ON r.name = toString(l.one) || 'none'"
        assert store.rows(f"SELECT r.run FROM (SELECT 1 AS one) AS l LEFT JOIN {other}") == [{"run": None}]


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE run",
        "INSERT INTO run (run) VALUES ('x')",
        "ALTER TABLE run DELETE WHERE 1",
        "TRUNCATE TABLE run",
        "SELECT 1 SETTINGS readonly = 0",
        "SELECT file('/etc/passwd')",
        "SELECT 1 INTO OUTFILE 'x'",
        "SELECT * FROM url('http://127.0.0.1:9/', 'LineAsString')",
        "SELECT nope",
        "SELECT * FROM nowhere",
        "SELEC 1",
    ],
)
def test_a_question_changes_nothing_and_errors_are_one_sentence(url: str, query: str) -> None:
    with open_store(url) as store:
        with pytest.raises(FirstflightError) as caught:
            store.formatted(query, "TSV")
        assert caught.value.exit_status == 2
        assert "\n" not in str(caught.value)
        for noise in ("DB::Exception", "version", "Stack trace"):
            assert noise not in str(caught.value)
        assert store.rows("SELECT 1 AS one") == [{"one": 1}]


def test_a_type_that_cannot_be_sent_is_one_sentence(url: str) -> None:
    with open_store(url) as store:
        with pytest.raises(StoreError, match=r"values of type AggregateFunction.* select them as text"):
            store.rows("SELECT uniqState(number) AS u FROM numbers(3)")
        assert store.rows("SELECT finalizeAggregation(uniqState(number)) AS u FROM numbers(3)") == [{"u": 3}]


def test_views_answer(url: str, tmp_path: Path, run_id: str) -> None:
    rows = [
        probe("iack", run=run_id, sent_at=DAY_NS + 10**15),
        probe("coalesced", run=run_id, domain="b.example", sent_at=DAY_NS + 10**15),
    ]
    loader.load_files([write(tmp_path / "quic_probe.parquet", rows)], url)
    found = ask("SELECT cdn, domains, iack_share_max FROM table1_by_run WHERE run = {run:String}", run=run_id)
    assert found == [{"cdn": "Cloudflare", "domains": 2, "iack_share_max": 0.5}]
