"""Three shards answer every named query and view as one store does.

The engine in this process plays all servers: `remote()` with its own address three times is the engine's
Distributed table, of which each shard answers by itself. A filter that knows the shard's number leaves every
shard the rows that the sharding key gives it. Only the network and replication are missing.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chdb.state.sqlitelike import Connection

from reports import query
from schemas import sharding, sql
from store.load import loader
from tests.store.rows import download, handshake, tcp_option, write
from tests.watch.test_watch_views import slot

from .conftest import RUN_1, RUN_2

SHARDS = 3
DIALECT = sql.Dialect("firstflight")
READ = re.compile(rf"\bFROM firstflight\.({'|'.join(sharding.KEYS)})\b(?!\s+AS\b)")
# As of every store, and as of a sharded one.
ONE = "asterisk_include_alias_columns = 1, join_use_nulls = 1"
MANY = ", ".join(f"{name} = {value}" for name, value in sql.Dialect("f", "c", sharded=True).settings.items())
GIVEN: tuple[dict[str, str], ...] = (
    {},
    {"run": "newest"},
    {"since": "2026-11-25"},
)
STATES = "ack_us, iack_to_sh_us, sh_to_handshake_us, ack_delay_us"

Ask = Callable[[str], str]


def over_shards(text: str) -> str:
    """Return the query with every sharded table read as a Distributed table."""
    hosts = ",".join(["127.0.0.1"] * SHARDS)
    return READ.sub(rf"FROM remote('{hosts}', 'firstflight', '\1_local') AS \1", text)


def questions() -> dict[str, str]:
    """Return each view and each named query with several parameters, as SQL."""
    found = {}
    for view in sql.views():
        columns = f"* EXCEPT ({STATES})" if view.name == "probe_day_all" else "*"
        found[view.name] = f"SELECT {columns} FROM firstflight.{view.name} ORDER BY ALL"
    for name in query.names():
        asked = query.load(name)
        known = {parameter.name for parameter in asked.parameters}
        needed = {p.name for p in asked.parameters if p.default is None}
        for given in GIVEN:
            if needed <= given.keys() <= known:
                found[f"{name} {given}"] = asked.rendered(given, DIALECT)
    for name in ("name_patterns", "table1_report"):
        found[name] = sql.query(name, DIALECT).replace("{run:String}", f"'{RUN_1}'")
    return found


@pytest.fixture
def engine(campaign: str, tmp_path: Path) -> Iterator[Ask]:
    """An engine with the campaign's store, a watch and rows of other stages, all in one place."""
    shutil.copytree(campaign.removeprefix("chdb:"), tmp_path / "store", symlinks=True)
    outcomes = ("iack", "coalesced", None)
    rows = [slot(n, outcomes[n % 3], 100 + n, 250, domain=f"w{n % 7}.example") for n in range(40)]
    survey = [
        tcp_option(domain=f"n{n}.example", ip=f"198.18.48.{n % 5}", ecn=n % 3 == 0, sack=n % 2 == 0)
        for n in range(40)
    ]
    connected = [handshake(domain=f"n{n}.example", handshake_us=30_000 + n) for n in range(0, 40, 3)]
    downloads = [
        download(domain=f"n{n}.example", repetition=1, set=name, download_throughput_bps=1_000 * n + size)
        for n in range(20)
        for name in ("bl", "ws14", "quiche")
        for size in (1, 2, 5)
    ]
    paths = [
        write(tmp_path / "quic_handshake.parquet", connected, "quic_handshake"),
        write(tmp_path / "download.parquet", downloads, "download"),
        write(tmp_path / "watch_slot.parquet", rows, "watch_slot"),
        write(tmp_path / "tcp_option.parquet", survey, "tcp_option"),
    ]
    loader.load_files(paths, f"chdb:{tmp_path / 'store'}")
    connection = Connection(f"{tmp_path / 'store'}")

    def ask(text: str) -> str:
        return str(connection.query(text, "JSONCompactEachRow"))

    ask(f"SET {ONE}")
    yield ask
    connection.close()


def shard(ask: Ask) -> None:
    """Spread the rows of the sharded tables over the shards."""
    filters = []
    for table, key in sharding.KEYS.items():
        ask(f"RENAME TABLE firstflight.{table} TO firstflight.{table}_local")
        filters.append(f"'firstflight.{table}_local': '{key} % {SHARDS} = shardNum() - 1'")
    for view in sql.views():
        ask(over_shards(view.statement(DIALECT)))
    ask(f"SET {MANY}, additional_table_filters = {{{', '.join(filters)}}}")


def test_the_answers_are_those_of_one_store(engine: Ask) -> None:
    wanted = {name: engine(text) for name, text in questions().items()}
    shard(engine)
    spread = "SELECT shardNum(), uniqExact(domain) FROM firstflight.quic_probe GROUP BY ALL ORDER BY 1"
    assert [line[:2] for line in engine(over_shards(spread)).splitlines()] == ["[1", "[2", "[3"]
    for name, text in questions().items():
        assert engine(over_shards(text)) == wanted[name], name
    answered = (
        "table1",
        "watch_hourly",
        "iack_share {}",
        "name_patterns",
        "tcp_option_shares {}",
        "name_measures {}",
    )
    assert all(wanted[name] for name in answered)


def test_probes_that_are_not_rolled_up_count_alike(engine: Ask) -> None:
    for table in ("probe_day", "probe_unit"):
        engine(f"ALTER TABLE firstflight.{table} DELETE WHERE run = '{RUN_2}' SETTINGS mutations_sync = 2")
    names = ("unit_not_rolled_up", "newest_run", "probe_day_all", "table1", "first_iack {}")
    wanted = {name: engine(questions()[name]) for name in names}
    assert RUN_2 in wanted["unit_not_rolled_up"]
    shard(engine)
    for name in names:
        assert engine(over_shards(questions()[name])) == wanted[name], name


def test_a_join_by_name_needs_no_rows_of_other_shards(engine: Ask) -> None:
    """Each shard joins its own rows; the sums over the shards are those of one store."""
    joined = (
        "SELECT probe.domain AS domain, target.rank AS rank FROM firstflight.quic_probe{0} AS probe "
        "INNER JOIN firstflight.target{0} AS target ON probe.domain = target.domain"
    )
    sums = "SELECT count(), uniqExact(domain), sum(rank) FROM {}"
    wanted = engine(sums.format(f"({joined.format('')})"))
    shard(engine)
    hosts = ",".join(["127.0.0.1"] * SHARDS)
    assert engine(sums.format(f"remote('{hosts}', view({joined.format('_local')}))")) == wanted
    assert not wanted.startswith("[0")
    for table in ("quic_probe", "target", "watch_slot"):
        places = f"SELECT domain FROM firstflight.{table} GROUP BY domain HAVING uniqExact(_shard_num) > 1"
        assert engine(over_shards(places)) == ""
