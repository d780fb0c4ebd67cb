"""A public dashboard under attack by one client: others still get their pages, and memory stays bounded."""

from __future__ import annotations

import asyncio
import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn

from reports.dashboard.asking.asker import CLIENT, Asker, Question, _Worker
from reports.dashboard.asking.fair_queue import MOST_WAITING, FairQueue, TooManyWait
from reports.dashboard.asking.faults import NoAnswer
from reports.dashboard.connection import connections, sending
from reports.dashboard.limits import PUBLIC, Allowances, ClientRate
from reports.dashboard.pages import events
from store.address.url import ServerLocation
from tests.dashboard.serving import Dashboard, dashboard
from tests.waiting import until

ATTACKER, OTHER = "127.0.0.2", "127.0.0.3"
HALF = b"GET /queries HTTP/1.1\r\nHost: a.example\r\nX-Never: "


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A public dashboard with an unavailable store. It sees the clients' own addresses."""
    store = f"chdb:{tmp_path_factory.mktemp('store')}/none"
    with dashboard(store, "--host", "0.0.0.0", "--public") as server:
        yield server


def connected(served: Dashboard, client: str) -> socket.socket:
    """Return a connection from an address of loopback."""
    port = urlsplit(served.url).port
    assert port
    return socket.create_connection(("127.0.0.1", port), timeout=15, source_address=(client, 0))


def asked(served: Dashboard, client: str, path: str, host: str = "any.example") -> http.client.HTTPResponse:
    """Return the answer to one request from that address, read whole."""
    with closing(connected(served, client)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        answer.read()
        return answer


def is_closed(connection: socket.socket) -> bool:
    """Return whether the dashboard has closed it without an answer."""
    connection.settimeout(0.05)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_unfinished_requests_of_one_client_block_no_other(served: Dashboard) -> None:
    """Once, 400 unfinished requests kept other clients out."""
    with ExitStack() as open_ones:
        unfinished = [open_ones.enter_context(connected(served, ATTACKER)) for _ in range(400)]
        for connection in unfinished:
            with suppress(ConnectionError):
                connection.sendall(HALF)
        assert asked(served, OTHER, "/dashboard.css").status == 200
        until(lambda: sum(map(is_closed, unfinished)) >= 400 - connections.MOST_EACH, "the others closed")


def test_unfinished_requests_of_many_clients_make_room(served: Dashboard) -> None:
    with ExitStack() as open_ones:
        for n in range(connections.MOST):
            connection = open_ones.enter_context(connected(served, f"127.0.1.{n // 30 + 1}"))
            connection.sendall(HALF)
        assert asked(served, OTHER, "/dashboard.css").status == 200


def test_a_header_section_that_drips_has_an_end(served: Dashboard) -> None:
    """Bytes do not restart the timeout."""
    with closing(connected(served, ATTACKER)) as connection:
        connection.sendall(HALF)
        began = time.monotonic()

        def is_over() -> bool:
            try:
                connection.sendall(b"x")
            except ConnectionError:
                return True
            return is_closed(connection)

        until(is_over, "the connection ends")
        assert time.monotonic() - began < 6 * connections.REQUEST_S


def test_one_client_cannot_use_all_event_streams(served: Dashboard) -> None:
    """As nginx passes them on: from one address, with the client in a header."""
    with ExitStack() as open_ones:

        def stream(client: str) -> int:
            connection = open_ones.enter_context(connected(served, "127.0.0.1"))
            connection.sendall(
                f"GET /events HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n".encode()
            )
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            return answer.status

        statuses = [stream("192.0.2.1") for _ in range(events.MOST_EACH + 3)]
        assert statuses == [200] * events.MOST_EACH + [429] * 3
        assert stream("192.0.2.2") == 200


@pytest.mark.parametrize("path", ["/watch/", "/queries/", "/downloads/", "/handshakes/", "/nosuch/"])
def test_no_redirect_leads_to_the_host_that_a_client_names(served: Dashboard, path: str) -> None:
    answer = asked(served, OTHER, path, host="evil.test")
    assert answer.status == (404 if path == "/nosuch/" else 307)
    assert answer.headers.get("Location") in (None, path.rstrip("/"))
    assert "evil.test" not in str(answer.headers)


def test_a_client_that_reads_nothing_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The amount of data in the connection's buffer does not matter."""
    monkeypatch.setattr(connections, "UNREAD_S", 0.2)

    async def attack() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        app = _answering(50_000_000)
        config = uvicorn.Config(
            app, http=connections.HttpConnection, lifespan="off", ws="none", log_level="critical"
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve([listening]))
        with closing(socket.create_connection(listening.getsockname())) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            async with asyncio.timeout(60):
                while not server.server_state.total_requests:
                    await asyncio.sleep(0.01)
                while server.server_state.connections:
                    await asyncio.sleep(0.01)
        server.should_exit = True
        await running

    asyncio.run(attack())


class _Reader:
    """A client as the application sees it: it reads `pieces` of 64 KiB, and then no more."""

    def __init__(self, pieces: int) -> None:
        self.received = 0
        self.statuses: list[int] = []
        self._pieces = pieces
        self._gone = asyncio.Event()

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.statuses.append(message["status"])
            return
        if self._pieces <= 0:
            await self._gone.wait()
            return
        self._pieces -= 1
        self.received += len(message["body"])

    async def receive(self) -> Any:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def scope(self, client: str) -> Any:
        return {"type": "http", "client": (client, 1), "state": {connections.ABORT: self._gone.set}}


def _answering(size: int) -> Any:
    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(size)})

    return app


@pytest.mark.parametrize(
    ("clients", "statuses"),
    [(1, {200: 2, 503: 38}), (40, {200: 23, 503: 17})],
    ids=["one client", "many clients"],
)
def test_unread_answers_are_bounded(
    clients: int, statuses: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 of 11.5 MB took 427 MB for 75 s."""
    monkeypatch.setattr(sending, "_BEGIN_S", 0.05)
    monkeypatch.setattr(sending, "_BYTES_PER_S", 1e9)
    app = sending.Sending(_answering(11_500_000), ClientRate(per_second=1, burst=1 << 30))

    async def attack() -> list[int]:
        readers = [_Reader(pieces=1) for _ in range(40)]
        tasks = [
            asyncio.create_task(app(reader.scope(f"192.0.2.{n % clients}"), reader.receive, reader.send))
            for n, reader in enumerate(readers)
        ]
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks)
        assert app.reserve("192.0.2.0", 0) and not +app._unread  # all is given back
        return [reader.statuses[0] for reader in readers]

    found = asyncio.run(attack())
    assert {status: found.count(status) for status in set(found)} == statuses


def test_a_read_answer_is_complete_and_counts_against_the_rate() -> None:
    rate = ClientRate(per_second=1_000_000, burst=1_000_000)
    app = sending.Sending(_answering(11_500_000), rate)

    async def twice() -> list[_Reader]:
        readers = [_Reader(pieces=1000) for _ in range(2)]
        for reader in readers:
            await app(reader.scope("192.0.2.1"), reader.receive, reader.send)
        return readers

    first, second = asyncio.run(twice())
    assert (first.statuses, first.received) == ([200], 11_500_000)
    assert second.statuses == [429]


def test_an_answer_that_does_not_start_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "ANSWER_S", 0.05)

    async def never(_scope: Any, _receive: Any, _send: Any) -> None:
        await asyncio.Event().wait()

    async def ask() -> list[int]:
        reader = _Reader(pieces=10)
        await sending.Sending(never, ClientRate(1, 1000))(
            reader.scope("192.0.2.1"), reader.receive, reader.send
        )
        return reader.statuses

    assert asyncio.run(ask()) == [504]


def test_requests_of_one_client_that_wait_are_bounded() -> None:
    """This holds for a proxy, too, although all connections have the same address."""
    go_on = asyncio.Event()

    async def slow(_scope: Any, _receive: Any, send: Any) -> None:
        await go_on.wait()
        await _answering(1)(_scope, _receive, send)

    async def attack() -> list[int]:
        app = sending.Sending(slow, ClientRate(per_second=1, burst=1 << 20))
        clients = [f"2001:db8:0:1::{n:x}" for n in range(connections.MOST_EACH + 3)] + ["2001:db8:0:2::1"]
        readers = [(_Reader(pieces=10), client) for client in clients]
        tasks = [asyncio.create_task(app(r.scope(c), r.receive, r.send)) for r, c in readers]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*tasks)
        return [reader.statuses[0] for reader, _ in readers]

    assert asyncio.run(attack()) == [200] * connections.MOST_EACH + [429] * 3 + [200]


class _Slow(Asker):
    """Asks a store that needs `seconds` for a client's questions."""

    def __init__(self, seconds: dict[str, float], allowances: Allowances) -> None:
        super().__init__(PUBLIC, _Somewhere(), allowances)  # type: ignore[arg-type]
        self._seconds = seconds
        self.order: list[str] = []

    async def _worker(self, location: ServerLocation) -> _Worker:  # noqa: ARG002
        return None  # type: ignore[return-value]

    async def _ask(self, worker: _Worker, question: Question) -> bytes:  # noqa: ARG002
        self.order.append(CLIENT.get())
        await asyncio.sleep(self._seconds[CLIENT.get()])
        return b""


class _Somewhere:
    async def location(self) -> None:
        return None


def test_costly_questions_of_one_client_leave_places_to_others() -> None:
    """Six of eight requests of others were answered by 503."""
    allowances = Allowances()
    asker = _Slow({"bad": 0.2, "good": 0.001, "": 0.001}, allowances)

    async def ask(client: str) -> bytes:
        CLIENT.set(client)
        return await asker.answer(Question("q", {}, "CSV"))

    async def attack() -> None:
        costly = [asyncio.create_task(ask("bad")) for _ in range(8)]
        await asyncio.sleep(0)
        for _ in range(8):
            await asyncio.create_task(ask("good"))
        # A question of the attacker has started, or two if this process was suspended, but never all.
        assert asker.order.count("good") == 8 and not all(question.done() for question in costly)
        await asker.answer(Question("q", {}, "CSV"), own=True)
        for question in costly:
            question.cancel()

    asyncio.run(attack())


def test_a_client_that_used_the_store_for_too_long_is_refused_and_others_are_not() -> None:
    allowances = Allowances()
    allowances.store_s.charge("bad", time.monotonic(), 10_000)
    asker = _Slow({"bad": 0, "good": 0}, allowances)

    async def ask(client: str) -> bytes:
        CLIENT.set(client)
        return await asker.answer(Question("q", {}, "CSV"))

    with pytest.raises(NoAnswer, match="too much of the store's time") as refused:
        asyncio.run(ask("bad"))
    assert refused.value.fault == "cost"
    assert asyncio.run(ask("good")) == b""


def test_the_queue_is_round_robin_and_survives_cancellation() -> None:
    async def attack() -> list[str]:
        queue, order = FairQueue(2, each=1), list[str]()

        async def take_turn(client: str) -> None:
            await queue.take(client)
            order.append(client)
            await asyncio.sleep(0)
            queue.give_back(client)

        await queue.take("a")
        waiting = [asyncio.create_task(take_turn("a")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        waiting += [asyncio.create_task(take_turn(client)) for client in "bcbc"]
        await asyncio.sleep(0)
        queue.give_back("a")
        await asyncio.gather(*waiting, return_exceptions=True)
        # The queue is empty: both places are free for any client.
        await queue.take("x")
        await queue.take("y")
        return order

    order = asyncio.run(attack())
    assert sorted(order) == ["a", "a", "b", "b", "c", "c"]
    assert set(order[:3]) == {"a", "b", "c"} or order[:2] in (["b", "c"], ["b", "a"])


def test_questions_of_one_client_that_wait_are_bounded() -> None:
    async def attack() -> None:
        queue = FairQueue(1, each=1)
        await queue.take("a")
        waiting = [asyncio.create_task(queue.take("a")) for _ in range(MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyWait):
            await queue.take("a")
        for task in waiting:
            task.cancel()

    asyncio.run(attack())
