"""Rows of the handshake engine against tshark and the dissector with its key log, and against aioquic as a
second client: the same transport parameters, certificates, header fields and milestones.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import ssl
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pylsqpack
import pytest
from aioquic._buffer import Buffer
from aioquic.asyncio.client import connect as quic_connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent
from aioquic.tls import ExtensionType
from cryptography.hazmat.primitives.serialization import Encoding

from firstflight.capture import Capture
from lab.model import Answer
from tests.dissect.conftest import rows
from tests.handshake.conftest import CONTACT, HOST, Http3, connect, http3
from tests.handshake.test_http3 import segments
from tests.lab_servers.running import endpoint, running

__all__ = ["http3"]
STACKS = ("quiche", "quic-go", "aioquic", "http3")
H3_NO_ERROR = 0x100  # RFC 9114 8.1
ANSWER = Answer(404, (("server", "lab/1"), ("cf-ray", "8f3a1b2c3d4e5f60-FRA"), ("age", "7")))
# Times are floored to microseconds on both sides: differences of two may be one apart.
ROUNDING_US = 1
# A stamp that is wrong by this is found (docs/design/0013).
FAULT_US = 100
SIZES = ("small", "large")
# Column of the engine -> of the dissector.
SAME = {
    "first_answer": "first_answer",
    "retry": "retry",
    "hello_retry": "hello_retry",
    "cipher": "cipher_suite",
    "alpn": "alpn_selected",
    "certificate_bytes": "certificate_message_bytes",
    "datagrams_sent": "datagrams_client",
    "server_cid": "server_scid",
}
TIMES = {"ack_us": "ack_us", "sh_us": "sh_us", "confirmed_us": "handshake_done_us"}


@dataclass
class PacketLog:
    """What somebody saw of one server."""

    parameters: list[tuple[int, bytes]] = field(default_factory=list)
    certificates: list[str] = field(default_factory=list)
    stream: dict[int, bytes] = field(default_factory=dict)
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)


@dataclass
class Compared:
    """One server's rows, and its connections as tshark (by the client's ID) and the dissector saw them."""

    rows: list[dict[str, Any]]
    folder: Path
    tshark: dict[str, PacketLog]
    dissected: dict[str, dict[str, Any]]
    # Of the second client, by name.
    second: dict[str, PacketLog]


def _shown(element: ElementTree.Element) -> str:
    return element.get("show") or ""


def _value(element: ElementTree.Element) -> bytes:
    return bytes.fromhex(element.get("value") or "")


def by_tshark(capture: Path, keys: Path, port: int) -> dict[str, PacketLog]:
    """Return what the server at `port` sent to each connection ID of a client."""
    argv = ["tshark", "-2", "-r", str(capture), "-o", f"tls.keylog_file:{keys}", "-T", "pdml"]
    argv += ["-Y", f"quic && udp.srcport == {port}"]
    done = subprocess.run(argv, capture_output=True, check=True)
    found: dict[str, PacketLog] = {}
    for packet in ElementTree.fromstring(done.stdout).iter("packet"):
        fields = [(one.get("name"), one) for one in packet.iter("field")]
        # Connections share ports; their IDs are their own.
        client = next(_shown(one).replace(":", "") for name, one in fields if name == "quic.dcid")
        log = found.setdefault(client, PacketLog())
        # Messages that a busy machine's server sends again are dissected again.
        parameters: list[tuple[int, bytes]] = []
        for name, one in fields:
            if name == "tls.quic.parameter.type":
                parameters.append((int(_shown(one), 0), b""))
            elif name == "tls.quic.parameter.value":
                parameters[-1] = (parameters[-1][0], _value(one))
            elif name == "tls.handshake.certificate":
                digest = hashlib.sha256(_value(one)).hexdigest()
                log.certificates += [digest] if digest not in log.certificates else []
            elif name == "quic.frame":
                parts = {part.get("name"): part for part in one.iter("field")}
                if "quic.stream_data" in parts and _shown(parts["quic.stream.stream_id"]) == "0":
                    offset = parts.get("quic.stream.offset")
                    at = 0 if offset is None else int(_shown(offset))
                    log.stream[at] = bytes.fromhex(_shown(parts["quic.stream_data"]).replace(":", ""))
        log.parameters = log.parameters or parameters
    return found


def parameters_of(extension: bytes) -> list[tuple[int, bytes]]:
    """Return identifiers and values of transport parameters in wire order."""
    buffer, found = Buffer(data=extension), []
    while not buffer.eof():
        number = buffer.pull_uint_var()
        found.append((number, buffer.pull_bytes(buffer.pull_uint_var())))
    return found


class Asking(QuicConnectionProtocol):
    """A client of HTTP/3 that sends one request."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._http = H3Connection(self._quic)
        self._response: asyncio.Future[list[tuple[bytes, bytes]]] = self._loop.create_future()

    async def head(self, authority: str) -> list[tuple[bytes, bytes]]:
        """Return the header section of the final response to a HEAD request."""
        request = [(b":method", b"HEAD"), (b":scheme", b"https"), (b":authority", authority.encode())]
        stream = self._quic.get_next_available_stream_id()
        self._http.send_headers(stream, [*request, (b":path", b"/")], end_stream=True)
        self.transmit()
        return await self._response

    def quic_event_received(self, event: QuicEvent) -> None:
        """Keep the first header section that is no interim one."""
        for found in self._http.handle_event(event):
            if isinstance(found, HeadersReceived) and not self._response.done():
                fields = [(bytes(name), bytes(value)) for name, value in found.headers]
                if not dict(fields)[b":status"].startswith(b"1"):
                    self._response.set_result(fields)


def second_client(name: str, port: int) -> PacketLog:
    """Connect and ask by aioquic, and return what it saw."""

    async def main() -> PacketLog:
        settings = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name=name)
        settings.verify_mode = ssl.CERT_NONE
        async with quic_connect(HOST, port, configuration=settings, create_protocol=Asking) as client:
            assert isinstance(client, Asking)
            tls = client._quic.tls
            kind = ExtensionType.QUIC_TRANSPORT_PARAMETERS
            extensions = dict(tls.received_extensions or [])
            assert tls._peer_certificate is not None
            chain = [tls._peer_certificate, *tls._peer_certificate_chain]
            return PacketLog(
                parameters_of(extensions[kind]),
                [hashlib.sha256(one.public_bytes(Encoding.DER)).hexdigest() for one in chain],
                fields=await client.head(f"{name}:{port}"),
            )

    return asyncio.run(asyncio.wait_for(main(), 20))


def compared(folder: Path, names: list[str], port: int) -> Compared:
    """Run the engine over these names of a server, captured; then the second client."""
    capture, keys = folder / "engine.pcap", folder / "keys"
    found, secrets = [], ""
    with Capture(
        capture, "lo", f"udp port {port}", snaplen=2048, buffer_kib=4096, drain_s=1.2, max_bytes=1 << 30
    ):
        # One at a time: tshark takes connections that share ports for one.
        for name in names:
            own_folder, log = folder / name, folder / f"{name}.keys"
            own_folder.mkdir()
            options = (
                "--timeout",
                30,
                "--keylog",
                log,
                "--format",
                "jsonl",
                "--segments",
                own_folder / "all",
            )
            done = connect(own_folder, [(HOST, name, port)], *options)
            assert done.status == 0, done.messages
            found += done.rows
            secrets += log.read_text()
    keys.write_text(secrets)
    dissected = {row["client_scid"]: row for row in rows(capture, "--keys", keys)}
    second = {name: second_client(name, port) for name in names}
    return Compared(found, folder, by_tshark(capture, keys, port), dissected, second)


@pytest.fixture(scope="module", params=STACKS)
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    stack = str(request.param)
    folder = tmp_path_factory.mktemp(stack)
    if stack == "http3":
        server: Http3 = request.getfixturevalue("http3")
        yield compared(folder, ["plain.http3.test", "early.http3.test", "large.http3.test"], server.port)
        return
    endpoints = [replace(endpoint(stack, "wait", None, certificate=size), http=ANSWER) for size in SIZES]
    with running(folder, stack, endpoints) as lab:
        yield compared(folder, [one.domain for one in endpoints], lab.port)


def of_kind(found: Compared, kind: str) -> list[dict[str, Any]]:
    return [one for row in found.rows for one in segments(found.folder / row["domain"] / "all" / kind)]


def own(row: dict[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = json.loads(row["transport_parameters"])
    return parameters


def is_value(shown: object, value: bytes) -> bool:
    """Return whether a value in a row stands for these bytes."""
    if shown is True:
        return value == b""
    if isinstance(shown, int):
        return Buffer(data=value).pull_uint_var() == shown
    return shown == value.hex()


def test_transport_parameters(found: Compared) -> None:
    for row in found.rows:
        assert row["outcome"] == "done", row
        log = found.tshark[row["client_cid"]]
        assert len(own(row)) == len(log.parameters) > 8
        for one, (number, value) in zip(own(row), log.parameters, strict=True):
            assert int(one["id"], 16) == number and is_value(one["value"], value), (one, value.hex())
        dissected = found.dissected[row["client_cid"]]
        # The dissector writes identifiers without leading zeros.
        same = json.loads(dissected["transport_parameters_server"])
        assert [{**one, "id": f"{int(one['id'], 16):#04x}"} for one in same] == own(row)


def test_a_second_client_is_sent_the_same_parameters(found: Compared) -> None:
    for row in found.rows:
        # Flags and integers are of the server; connection IDs and tokens are of the connection, as is what a
        # stack reserves at random.
        ours = {one["id"]: one["value"] for one in own(row) if not isinstance(one["value"], str)}
        theirs = {f"{number:#04x}": value for number, value in found.second[row["domain"]].parameters}
        assert ours.keys() <= theirs.keys()
        assert all(is_value(shown, theirs[number]) for number, shown in ours.items())


def test_certificates(found: Compared) -> None:
    described = {one["sha256"]: one for one in of_kind(found, "certificate")}
    for row in found.rows:
        chain = found.tshark[row["client_cid"]].certificates
        assert chain == found.second[row["domain"]].certificates
        assert (row["leaf_sha256"], row["chain_length"]) == (chain[0], len(chain))
        assert set(chain) <= described.keys()
        issuers = [described[one]["issuer_sha256"] for one in chain]
        assert issuers == [*chain[1:], None]


def header_fields(stream: bytes) -> list[tuple[bytes, bytes]]:
    """Return the fields of the last HEADERS frame of a response, decoded by ls-qpack."""
    buffer, decoder, last = Buffer(data=stream), pylsqpack.Decoder(0, 0), []
    while not buffer.eof():
        kind, length = buffer.pull_uint_var(), buffer.pull_uint_var()
        payload = buffer.pull_bytes(length)
        if kind == 1:
            last = decoder.feed_header(0, payload)[1]
    return last


def test_header_fields(found: Compared) -> None:
    responses = {one["domain"]: one for one in of_kind(found, "http3_response")}
    assert responses.keys() == {row["domain"] for row in found.rows}
    for row in found.rows:
        stream = found.tshark[row["client_cid"]].stream
        fields = header_fields(b"".join(stream[at] for at in sorted(stream)))
        text = [[name.decode(), value.decode()] for name, value in fields]
        assert text[0] == [":status", str(row["status"])]
        assert json.loads(responses[row["domain"]]["headers"]) == text[1:]
        # The date is of the answer, and so is quic-go's order.
        second = found.second[row["domain"]].fields
        assert sorted(one for one in second if one[0] != b"date") == sorted(
            one for one in fields if one[0] != b"date"
        )


def crossing(row: dict[str, Any], seen: dict[str, Any]) -> int | None:
    """Return by how much a row's times are later than the capture's; None if they cannot both be right.

    Both take the kernel's stamp of a received datagram. Of the Initial the engine has the one of sending, the
    capture the one of its arrival, which is later: by the same time for each milestone.
    """
    later = [row[name] - seen[other] for name, other in TIMES.items()]
    is_one = min(later) >= -ROUNDING_US and max(later) - min(later) <= ROUNDING_US
    return min(later) if is_one else None


def test_milestones_as_the_dissector_sees_them(found: Compared) -> None:
    for row in found.rows:
        seen = found.dissected[row["client_cid"]]
        assert {name: row[name] for name in SAME} == {name: seen[other] for name, other in SAME.items()}
        assert row["datagrams_received"] + row["after_close"] == seen["datagrams_server"]
        assert seen["undecrypted_packets"] == 0
        close = [seen[f"closed_{name}"] for name in ("by", "by_application", "code", "reason")]
        assert close == ["client", True, H3_NO_ERROR, CONTACT]
        assert crossing(row, seen) is not None, (row, seen)
        # One milestone's stamp that is wrong.
        for name, fault_us in itertools.product(TIMES, (-FAULT_US, FAULT_US)):
            assert crossing({**row, name: row[name] + fault_us}, seen) is None


def test_times_count_from_the_sending(http3: Http3, tmp_path: Path) -> None:
    """A stamp of sending that is too early makes all times later: not one is nearly that of the capture."""
    targets = [(HOST, f"n{number}.http3.test", http3.port) for number in range(12)]
    with Capture(
        tmp_path / "pcap",
        "lo",
        f"udp port {http3.port}",
        snaplen=2048,
        buffer_kib=4096,
        drain_s=1.2,
        max_bytes=1 << 30,
    ):
        done = connect(tmp_path, targets, "--timeout", 30, "--keylog", tmp_path / "keys")
    assert done.status == 0, done.messages
    dissected = {row["client_scid"]: row for row in rows(tmp_path / "pcap", "--keys", tmp_path / "keys")}

    def least_crossing(fault_us: int) -> int:
        moved = [{**row, **{name: row[name] + fault_us for name in TIMES}} for row in done.rows]
        crossings = [crossing(row, dissected[row["client_cid"]]) for row in moved]
        assert len(crossings) == len(targets) and None not in crossings
        return min(one for one in crossings if one is not None)

    assert least_crossing(0) < FAULT_US <= least_crossing(FAULT_US)
