"""Three shards answer every named query and view as one store does.

The engine in this process takes the place of all servers: `remote()` with its own address three times acts as
a Distributed table with independent shards. A filter by shard number leaves each shard the rows that the
sharding key assigns to it. Only the network and replication are missing.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chdb.state.sqlitelike import Connection

from reports import query
from schemas import sharding, sql
from store.load import loader
from tests import drawn
from tests.queries import every_table
from tests.queries.conftest import RUN_1, RUN_2

SHARDS = 3
DIALECT = sql.Dialect("firstflight")
READ = re.compile(rf"\bFROM firstflight\.({'|'.join(sharding.KEYS)})\b(?!\s+AS\b)")
# As of every store, and as of a sharded one.
ONE = "asterisk_include_alias_columns = 1, join_use_nulls = 1"
MANY = ", ".join(f"{name} = {value}" for name, value in sql.Dialect("f", "c", sharded=True).settings.items())
# Each query that has these parameters runs with each of them. `NEEDED` fills parameters without a default.
GIVEN: tuple[dict[str, str], ...] = ({}, {"run": "newest"}, {"domain": "n1.example"})
NEEDED = {"since": "2026-11-25"}
# Queries with empty answers here, and the reasons. All other queries must return rows to compare.
NOTHING = {
    "unit_not_rolled_up": "a load rolls up; test_probes_that_are_not_rolled_up_count_alike has such units",
    "not_rolled_up {}": "the same",
    "testbed_acks {}": "it reads trials alone, which no store shards",
    "testbed_gain {}": "the same",
}
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
        named_query = query.load(name)
        known = {parameter.name for parameter in named_query.parameters}
        needed = {p.name: NEEDED[p.name] for p in named_query.parameters if p.default is None}
        for given in GIVEN:
            if given.keys() <= known:
                found[f"{name} {given}"] = named_query.rendered(needed | given, DIALECT)
    for name in ("name_patterns", "table1_report"):
        found[name] = sql.query(name, DIALECT).replace("{run:String}", f"'{RUN_1}'")
    return found


@pytest.fixture(scope="module")
def filled(campaign: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The campaign's unsharded store with rows in every table that has names."""
    folder = tmp_path_factory.mktemp("filled")
    shutil.copytree(campaign.removeprefix("chdb:"), folder / "store", symlinks=True)
    files = every_table.write_all(folder)
    results = loader.load_files(files, f"chdb:{folder / 'store'}", replace=True)  # the campaign's run, too
    assert all(isinstance(result, loader.Loaded) for result in results), results
    return folder / "store"


@pytest.fixture
def engine(filled: Path, tmp_path: Path) -> Iterator[Ask]:
    """An engine with a copy of the store."""
    shutil.copytree(filled, tmp_path / "store", symlinks=True)
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


@pytest.mark.drawn
def test_the_answers_are_those_of_one_store(engine: Ask) -> None:
    sampled = dict(drawn.few("questions to shards", questions().items(), 20))
    wanted = {name: engine(text) for name, text in sampled.items()}
    assert {name for name, answer in wanted.items() if not answer} == NOTHING.keys() & sampled.keys()
    shard(engine)
    for name, text in sampled.items():
        assert engine(over_shards(text)) == wanted[name], name


def test_each_shard_has_rows_of_every_table(engine: Ask) -> None:
    row_counts = {
        table: json.loads(engine(f"SELECT count() FROM firstflight.{table}")) for table in sharding.KEYS
    }
    shard(engine)
    for table, count in row_counts.items():
        spread = engine(
            over_shards(f"SELECT shardNum(), count() FROM firstflight.{table} GROUP BY 1 ORDER BY 1")
        )
        shards, counts = zip(*map(json.loads, spread.splitlines()), strict=True)
        assert (shards, [sum(map(int, counts))]) == ((1, 2, 3), list(map(int, count))), table


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
    """Each shard joins its own rows; the sums over the shards equal the sums of an unsharded store."""
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
