"""Limits of the dashboard: requests per client, and limits of each query to a real store."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from reports.dashboard.asking.asker import Asker, Question
from reports.dashboard.asking.faults import NoAnswer
from reports.dashboard.limits import OWN, ClientRate
from store import open_store
from store.base import QueryLimits
from store.errors import OUT_OF_TIME, TOO_MANY_ROWS, StoreError
from tests.queries.conftest import campaign as campaign
from tests.queries.conftest import template as template


def test_a_client_gets_its_burst_and_then_its_rate() -> None:
    rate = ClientRate(per_second=2, burst=3)
    assert [rate.wait_s("192.0.2.1", 10.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert rate.wait_s("192.0.2.1", 10.25) == 0.25  # a refused request costs nothing
    assert rate.wait_s("192.0.2.1", 10.5) == 0
    assert rate.wait_s("192.0.2.1", 10.5) == 0.5
    assert [rate.wait_s("192.0.2.1", 1000.0) for _ in range(4)] == [0, 0, 0, 0.5]  # never above the burst


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        ("2001:db8:1:2::9", True),
        ("2001:db8:1:3::1", False),
        ("2001:db8:1:2::1%eth0", True),
        ("192.0.2.1", False),
    ],
)
def test_clients_of_one_ipv6_network_share_their_rate(other: str, shared: bool) -> None:
    rate = ClientRate(per_second=1, burst=1)
    assert rate.wait_s("2001:db8:1:2::1", 0.0) == 0
    assert (rate.wait_s(other, 0.0) > 0) == shared


def test_mapped_addresses_are_ipv4_clients() -> None:
    rate = ClientRate(per_second=1, burst=1)
    assert rate.wait_s("::ffff:192.0.2.1", 0.0) == 0
    assert rate.wait_s("192.0.2.1", 0.0) == 1
    assert rate.wait_s("::ffff:192.0.2.2", 0.0) == 0


def test_only_the_newest_clients_are_remembered() -> None:
    rate = ClientRate(per_second=1, burst=1)
    assert rate.wait_s("first", 0.0) == 0
    for number in range(10_000):
        assert rate.wait_s(f"client {number}", 0.0) == 0
    assert rate.wait_s("client 9999", 0.0) == 1
    assert rate.wait_s("first", 0.0) == 0


@pytest.mark.parametrize(
    ("change", "sql", "code"),
    [
        ({"rows": 5}, "SELECT number FROM numbers(6)", TOO_MANY_ROWS),
        ({"seconds": 1}, "SELECT sum(cityHash64(number)) FROM numbers(1000000000000)", OUT_OF_TIME),
        ({"memory_bytes": 10_000_000}, "SELECT uniqExact(number) FROM numbers(100000000)", 241),
        ({"result_bytes": 1000}, "SELECT number FROM numbers(100000)", TOO_MANY_ROWS),
    ],
    ids=["rows", "seconds", "memory", "bytes"],
)
def test_the_engine_keeps_each_limit(campaign: str, change: dict[str, int], sql: str, code: int) -> None:
    # Any query may take longer than a second.
    with open_store(campaign, limits=replace(OWN, **change | {"seconds": OWN.seconds})) as store:
        assert store.rows("SELECT 1 AS one") == [{"one": 1}]
    with open_store(campaign, limits=replace(OWN, **change)) as store:
        for ask in (lambda: store.rows(sql), lambda: store.formatted(sql, "CSV")):
            with pytest.raises(StoreError) as refused:
                ask()
            assert refused.value.code == code


def test_an_answer_above_the_limit_is_refused_by_the_querying_process(
    campaign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_STORE", campaign)
    question = Question("iack_share", {}, "CSV")

    async def answer_of(limits: QueryLimits) -> bytes:
        asker = Asker(limits)
        try:
            return await asker.answer(question)
        finally:
            await asker.close()

    assert asyncio.run(answer_of(OWN)).count(b"\n") > 1
    with pytest.raises(NoAnswer, match="select fewer rows") as refused:
        asyncio.run(answer_of(replace(OWN, rows=1)))
    assert refused.value.fault == "size"
