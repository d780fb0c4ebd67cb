"""HTTP/3 of the real stacks, read with aioquic: SETTINGS, and the declared responses to HEAD and GET."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnectionError
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent, StreamDataReceived

from lab import stacks
from lab.declared.model import HttpAnswer
from lab.hosts.servers import CHAIN_BYTES
from tests.waiting import PATIENCE_S

from .reader import InitialClient
from .running import HOST, RunningServer, endpoint, running

STACKS = ("quiche", "quic-go", "aioquic")
FIELDS = (
    ("server", "x/1"),
    ("location", "https://www.a.test/"),
    ("cf-ray", "0123-HAM"),
    ("x-two", "1"),
    ("x-two", "2"),
)
LATE_US = 60_000


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningServer]]:
    """Start one server of each stack; the first label of a name selects the response."""
    with ExitStack() as stack:
        started = {}
        for name in STACKS:
            plain = endpoint(name, "wait", None)
            endpoints = [
                replace(plain, domain="moved.small.test", http=HttpAnswer(301, FIELDS)),
                replace(plain, domain="late.small.test", http=HttpAnswer(503, (), LATE_US)),
                replace(plain, domain="silent.small.test"),
                replace(plain, domain="moved.large.test", certificate="large", http=HttpAnswer(200, FIELDS)),
            ]
            endpoints += [
                replace(plain, domain=f"{alpn or 'nothing'}.small.test", alpn=alpn)
                for alpn in sorted(stacks.find(name).alpn - {"h3"})
            ]
            folder = tmp_path_factory.mktemp(name)
            started[name] = stack.enter_context(running(folder, name, endpoints))
        yield started


@dataclass
class Answered:
    """A request's result."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    settings: dict[int, int] = field(default_factory=dict)
    after_s: float | None = None


class Http3Client(QuicConnectionProtocol):
    """An HTTP/3 client that waits for one response."""

    ended: int | None = None
    http: H3Connection | None = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.answered = Answered()
        self.came = asyncio.Event()
        self.has_settings = asyncio.Event()

    def quic_event_received(self, event: QuicEvent) -> None:
        """Record SETTINGS, the response, or the end of the connection."""
        if isinstance(event, HandshakeCompleted):
            self.http = H3Connection(self._quic)
        if isinstance(event, ConnectionTerminated):
            self.ended = event.error_code
            self.came.set()
            self.has_settings.set()
        for found in self.http.handle_event(event) if self.http else []:
            if isinstance(found, HeadersReceived):
                self.answered.fields = [(name.decode(), value.decode()) for name, value in found.headers]
                self.came.set()
        if self.http and self.http.received_settings:
            self.has_settings.set()


async def request(server: RunningServer, name: str, method: str, patience_s: float = PATIENCE_S) -> Answered:
    """Send one request; return the data that arrives until `patience_s` after the server's SETTINGS."""
    configuration = QuicConfiguration(alpn_protocols=["h3"], server_name=name)
    configuration.load_verify_locations(str(server.authority))
    async with connect(HOST, server.port, configuration=configuration, create_protocol=Http3Client) as client:
        assert isinstance(client, Http3Client) and client.http is not None
        stream = client._quic.get_next_available_stream_id()
        pseudo = {":method": method, ":scheme": "https", ":authority": name, ":path": "/"}
        client.http.send_headers(
            stream, [(k.encode(), v.encode()) for k, v in pseudo.items()], end_stream=True
        )
        began = time.monotonic()
        client.transmit()
        async with asyncio.timeout(PATIENCE_S):
            await client.has_settings.wait()
        try:
            async with asyncio.timeout(patience_s):
                await client.came.wait()
            client.answered.after_s = time.monotonic() - began
        except TimeoutError:
            assert client.ended is None
        client.answered.settings = client.http.received_settings or {}
        return client.answered


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("method", ["HEAD", "GET"])
@pytest.mark.parametrize(("name", "status"), [("moved.small.test", "301"), ("moved.large.test", "200")])
def test_the_declared_answer(
    servers: dict[str, RunningServer], stack: str, method: str, name: str, status: str
) -> None:
    found = asyncio.run(request(servers[stack], name, method))
    (key, given), *fields = found.fields
    assert (key, given) == (":status", status)
    assert sorted(set(fields) - {("content-length", "0")}) == sorted(FIELDS)
    shown = stacks.find(stack).shown
    assert shown is not None
    assert found.settings.items() >= {int(key, 0): value for key, value in shown.settings.items()}.items()


@pytest.mark.parametrize("stack", STACKS)
def test_a_late_and_a_missing_answer(servers: dict[str, RunningServer], stack: str) -> None:
    late = asyncio.run(request(servers[stack], "late.small.test", "HEAD"))
    assert late.fields[0] == (":status", "503") and (late.after_s or 0) >= LATE_US / 1e6
    silent = asyncio.run(request(servers[stack], "silent.small.test", "HEAD", patience_s=0.3))
    assert silent.fields == [] and silent.settings != {}


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("size", CHAIN_BYTES)
def test_http3_adds_nothing_to_the_first_flight(
    servers: dict[str, RunningServer], stack: str, size: str
) -> None:
    """Servers send no 1-RTT packet, and so no SETTINGS, before the client's Finished.

    quic-go sends 1-RTT packets, but without SETTINGS.
    """
    with InitialClient(HOST, servers[stack].port, f"moved.{size}.test") as client:
        client.send_hello()
        answers = client.read(PATIENCE_S, until=2) + client.read(0.15)
        client.send_close()
    packets = [packet for answer in answers for packet in answer.packets]
    assert {"initial", "handshake"} <= {packet.kind for packet in packets}
    assert sum(packet.size for packet in packets if packet.kind == "one_rtt") <= (stack == "quic-go") * 51


class AskingForALine(QuicConnectionProtocol):
    """An HTTP/0.9 client that waits for a complete response."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.body = b""
        self.came = asyncio.Event()

    def quic_event_received(self, event: QuicEvent) -> None:
        """Record the response."""
        if isinstance(event, StreamDataReceived):
            self.body += event.data
            if event.end_stream:
                self.came.set()


@pytest.mark.parametrize(("stack", "mode"), [("aioquic", "iack"), ("quic-go", "wait")])
def test_http09_answers_with_a_line(tmp_path: Path, stack: str, mode: str) -> None:
    """Clients without HTTP/3 use HTTP/0.9."""

    async def answer_to_request(server: RunningServer) -> bytes:
        configuration = QuicConfiguration(alpn_protocols=["hq-interop"], server_name="a.small.test")
        configuration.load_verify_locations(str(server.authority))
        async with connect(
            HOST, server.port, configuration=configuration, create_protocol=AskingForALine
        ) as client:
            assert isinstance(client, AskingForALine)
            client._quic.send_stream_data(0, b"GET /\r\n", end_stream=True)
            client.transmit()
            async with asyncio.timeout(PATIENCE_S):
                await client.came.wait()
            return client.body

    plain = endpoint(stack, mode, None)
    line = replace(plain, domain="a.small.test", alpn="hq-interop", http=HttpAnswer(200, FIELDS))
    with running(tmp_path, stack, [line]) as server:
        assert asyncio.run(answer_to_request(server)) == b"\r\n"


def test_other_protocols_end_the_handshake(servers: dict[str, RunningServer]) -> None:
    with pytest.raises((ConnectionError, QuicConnectionError)):
        asyncio.run(request(servers["quic-go"], "h2.small.test", "HEAD"))
    with pytest.raises((ConnectionError, QuicConnectionError)):
        asyncio.run(request(servers["aioquic"], "nothing.small.test", "HEAD"))


@pytest.mark.parametrize(
    ("stack", "alpn", "words"), [("quiche", "h2", "only h3"), ("quic-go", "", "is empty")]
)
def test_a_protocol_that_a_stack_cannot_have_is_refused(
    tmp_path: Path, stack: str, alpn: str, words: str
) -> None:
    with (
        pytest.raises(AssertionError, match=words),
        running(tmp_path, stack, [replace(endpoint(stack, "wait", None), alpn=alpn)]),
    ):
        pass
