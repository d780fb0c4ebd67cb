"""Every type of the driver makes a round trip through `store serve`, compressed and not."""

from __future__ import annotations

import ipaddress
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from clickhouse_driver import Client
from clickhouse_driver.errors import ServerException

from tests.store.served.serving import Served, serving

# (type, values): reading returns the written values, and the engine shows them as text.
VALUES: list[tuple[str, list[Any]]] = [
    ("Int8", [-128, 0, 127]),
    ("UInt64", [0, 2**63, 2**64 - 1]),
    ("Int128", [-(2**127), 1]),
    ("UInt256", [2**256 - 1, 0]),
    ("Float32", [0.5, -1.25]),
    ("Float64", [0.1, float("inf"), -0.0]),
    ("Bool", [True, False]),
    ("String", ["", "a", "ü" * 70, "\0\n'", "x" * 20_000]),
    ("FixedString(3)", ["abc", "ü."]),
    ("Date", [date(1970, 1, 1), date(2026, 11, 20)]),
    ("Date32", [date(1925, 1, 1)]),
    ("DateTime('UTC')", [datetime(2026, 11, 20, 6, tzinfo=UTC)]),
    ("DateTime64(6, 'UTC')", [datetime(2026, 11, 20, 6, 0, 0, 123456, tzinfo=UTC)]),
    ("UUID", [uuid.UUID(int=2**127 + 5)]),
    ("IPv4", [ipaddress.IPv4Address("198.18.0.1")]),
    ("IPv6", [ipaddress.IPv6Address("2001:db8::1")]),
    ("Decimal(9, 2)", [Decimal("-1.50")]),
    ("Decimal(38, 10)", [Decimal("12345678901234567890.0000000001")]),
    ("Enum8('iack' = 1, 'it''s, (odd)' = 2)", ["iack", "it's, (odd)"]),
    ("Enum16('a' = 1000)", ["a"]),
    ("Nullable(Int64)", [None, 0, -1]),
    ("Nullable(String)", [None, "", "a"]),
    ("LowCardinality(String)", ["a", "b", "a", ""]),
    ("LowCardinality(Nullable(String))", [None, "a", ""]),
    ("LowCardinality(String)", [f"value {n}" for n in range(1000)]),
    ("Array(UInt16)", [[], [1, 2], [3]]),
    ("Array(Nullable(String))", [[None, "a"], []]),
    ("Array(LowCardinality(String))", [["a", "b", "a"], [], ["c"]]),
    ("Array(Array(Int32))", [[[1], []], [], [[2, 3]]]),
    ("Map(String, Array(UInt8))", [{}, {"a": [1], "b": []}]),
    ("Map(LowCardinality(String), Nullable(Int8))", [{"x": None, "y": 1}]),
    ("Tuple(Int8, String)", [(1, "a"), (2, "b")]),
    ("Tuple(a Int8, b Nullable(String))", [(1, None)]),
    ("Array(Tuple(String, UInt16, Array(Bool)))", [[("a", 1, [True])], []]),
    ("SimpleAggregateFunction(max, Int64)", [5]),
    ("Point", [(1.5, 2.5)]),
    ("Polygon", [[[(0.0, 0.0), (1.0, 1.0)], []]]),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("types") / "store") as found:
        yield found


@pytest.fixture(scope="module", params=["lz4", "zstd", False], ids=["lz4", "zstd", "plain"])
def client(served: Served, request: pytest.FixtureRequest) -> Iterator[Client]:
    with served.client(compression=request.param) as found:
        yield found


def test_every_type_survives_a_round_trip(client: Client) -> None:
    columns = ", ".join(f"c{n} {type_name}" for n, (type_name, _) in enumerate(VALUES))
    client.execute("DROP TABLE IF EXISTS types")
    client.execute(f"CREATE TABLE types (n UInt32, {columns}) ENGINE = MergeTree ORDER BY n")
    length = max(len(values) for _, values in VALUES)
    rows = [(n, *(values[n % len(values)] for _, values in VALUES)) for n in range(length)]
    assert client.execute("INSERT INTO types VALUES", rows) == length
    found, described = client.execute("SELECT * FROM types ORDER BY n", with_column_types=True)
    for place, (type_name, _) in enumerate(VALUES, start=1):
        assert [row[place] for row in found] == [row[place] for row in rows], type_name
        assert _plain(described[place][1]) == _plain(type_name)
    assert client.execute("SELECT * FROM types WHERE n > 10000", with_column_types=True) == ([], described)


def _plain(type_name: str) -> str:
    """Return a type name without spaces and with uniform quotes."""
    return type_name.replace(" ", "").replace("''", "\\'")


def test_nanoseconds_and_not_a_number_arrive(client: Client) -> None:
    asked = "SELECT toUnixTimestamp64Nano(t), isNaN(f) FROM exact"
    client.execute("DROP TABLE IF EXISTS exact")
    client.execute("CREATE TABLE exact (t DateTime64(9, 'UTC'), f Float64) ENGINE = MergeTree ORDER BY t")
    client.execute("INSERT INTO exact VALUES", [(1_795_154_400_123_456_789, float("nan"))])
    assert client.execute(asked) == [(1_795_154_400_123_456_789, 1)]


def test_json_arrives_as_text(client: Client) -> None:
    client.execute("DROP TABLE IF EXISTS documents")
    client.execute("CREATE TABLE documents (j JSON) ENGINE = MergeTree ORDER BY tuple()")
    client.execute("""INSERT INTO documents SELECT '{"a": {"b": [1, 2]}, "c": "x"}'""")
    ((found,),) = client.execute("SELECT j FROM documents")
    assert found == {"a": {"b": [1, 2]}, "c": "x"} or json.loads(found) == {"a": {"b": [1, 2]}, "c": "x"}


def test_blocks_of_many_rows_keep_their_order(client: Client) -> None:
    query = "SELECT number, toString(number), number % 7 = 0 ? NULL : number FROM numbers(150000)"
    numbers, texts, holes = client.execute(query, columnar=True, settings={"max_threads": 1})
    assert numbers == tuple(range(150_000))
    assert texts == tuple(map(str, range(150_000)))
    assert holes[:8] == (None, 1, 2, 3, 4, 5, 6, None)
    client.execute("DROP TABLE IF EXISTS many")
    client.execute("CREATE TABLE many (n UInt64, t String) ENGINE = MergeTree ORDER BY n")
    inserted = client.execute(
        "INSERT INTO many (t, n) VALUES", [list(texts), list(numbers)], columnar=True,
        settings={"insert_block_size": 70_000},
    )  # fmt: skip
    assert inserted == 150_000
    assert client.execute("SELECT count(), uniqExact(n), countIf(t = toString(n)) FROM many") == [
        (150_000, 150_000, 150_000)
    ]


def test_a_type_that_cannot_be_sent_is_named(client: Client) -> None:
    with pytest.raises(ServerException, match=r"AggregateFunction\(uniq, UInt64\) cannot be sent") as caught:
        client.execute("SELECT uniqState(number) FROM numbers(3)")
    assert caught.value.code == 48
    assert client.execute("SELECT finalizeAggregation(uniqState(number)) FROM numbers(3)") == [(3,)]
