"""Compares rows of the handshake engine with tshark, with the dissector, and with aioquic as a second client.

All must have the same transport parameters, certificates, header fields and milestones. tshark and the
dissector use the engine's key log.
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

from firstflight.capture import TcpdumpCapture
from lab.declared.model import HttpAnswer
from tests.dissect.conftest import rows
from tests.handshake.conftest import CONTACT, HOST, Http3, connect, http3
from tests.handshake.test_http3 import segments
from tests.lab_servers.running import endpoint, running

__all__ = ["http3"]
STACKS = ("quiche", "quic-go", "aioquic", "http3")
H3_NO_ERROR = 0x100  # RFC 9114 8.1
ANSWER = HttpAnswer(404, (("server", "lab/1"), ("cf-ray", "8f3a1b2c3d4e5f60-FRA"), ("age", "7")))
# Both sides floor times to microseconds, so differences of two times can differ by 1 us.
ROUNDING_US = 1
# The tests detect a timestamp error of this size (docs/design/0013).
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
    """Data from a server, as one observer recorded it."""

    parameters: list[tuple[int, bytes]] = field(default_factory=list)
    certificates: list[str] = field(default_factory=list)
    stream: dict[int, bytes] = field(default_factory=dict)
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)


@dataclass
class ComparedServer:
    """One server's rows, and its connections according to tshark (by the client's ID) and the dissector."""

    rows: list[dict[str, Any]]
    folder: Path
    tshark: dict[str, PacketLog]
    dissected: dict[str, dict[str, Any]]
    # Connections of the second client, by server name.
    second: dict[str, PacketLog]


def _shown(element: ElementTree.Element) -> str:
    return element.get("show") or ""


def _value(element: ElementTree.Element) -> bytes:
    return bytes.fromhex(element.get("value") or "")


def by_tshark(capture: Path, keys: Path, port: int) -> dict[str, PacketLog]:
    """Return the data that the server at `port` sent, by the client's connection ID."""
    argv = ["tshark", "-2", "-r", str(capture), "-o", f"tls.keylog_file:{keys}", "-T", "pdml"]
    argv += ["-Y", f"quic && udp.srcport == {port}"]
    done = subprocess.run(argv, capture_output=True, check=True)
    found: dict[str, PacketLog] = {}
    for packet in ElementTree.fromstring(done.stdout).iter("packet"):
        fields = [(element.get("name"), element) for element in packet.iter("field")]
        # Connections share ports, but have different IDs.
        client = next(_shown(element).replace(":", "") for name, element in fields if name == "quic.dcid")
        log = found.setdefault(client, PacketLog())
        # The server of a busy machine can retransmit messages, and tshark dissects them again.
        parameters: list[tuple[int, bytes]] = []
        for name, element in fields:
            if name == "tls.quic.parameter.type":
                parameters.append((int(_shown(element), 0), b""))
            elif name == "tls.quic.parameter.value":
                parameters[-1] = (parameters[-1][0], _value(element))
            elif name == "tls.handshake.certificate":
                digest = hashlib.sha256(_value(element)).hexdigest()
                log.certificates += [digest] if digest not in log.certificates else []
            elif name == "quic.frame":
                parts = {part.get("name"): part for part in element.iter("field")}
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


class RequestingClient(QuicConnectionProtocol):
    """An HTTP/3 client that sends one request."""

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
        """Keep the header section of the final response; skip interim responses."""
        for found in self._http.handle_event(event):
            if isinstance(found, HeadersReceived) and not self._response.done():
                fields = [(bytes(name), bytes(value)) for name, value in found.headers]
                if not dict(fields)[b":status"].startswith(b"1"):
                    self._response.set_result(fields)


def second_client(name: str, port: int) -> PacketLog:
    """Send a request with aioquic, and return the data it received."""

    async def main() -> PacketLog:
        settings = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name=name)
        settings.verify_mode = ssl.CERT_NONE
        async with quic_connect(
            HOST, port, configuration=settings, create_protocol=RequestingClient
        ) as client:
            assert isinstance(client, RequestingClient)
            tls = client._quic.tls
            kind = ExtensionType.QUIC_TRANSPORT_PARAMETERS
            extensions = dict(tls.received_extensions or [])
            assert tls._peer_certificate is not None
            chain = [tls._peer_certificate, *tls._peer_certificate_chain]
            return PacketLog(
                parameters_of(extensions[kind]),
                [hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest() for certificate in chain],
                fields=await client.head(f"{name}:{port}"),
            )

    return asyncio.run(asyncio.wait_for(main(), 20))


def compared(folder: Path, names: list[str], port: int) -> ComparedServer:
    """Run the engine for these names on a server, with a capture; then run the second client."""
    capture, keys = folder / "engine.pcap", folder / "keys"
    found, secrets = [], ""
    with TcpdumpCapture(
        capture, "lo", f"udp port {port}", snaplen=2048, buffer_kib=4096, drain_s=1.2, max_bytes=1 << 30
    ):
        # Run one name at a time, because tshark merges connections that share ports.
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
    return ComparedServer(found, folder, by_tshark(capture, keys, port), dissected, second)


@pytest.fixture(scope="module", params=STACKS)
def found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ComparedServer]:
    stack = str(request.param)
    folder = tmp_path_factory.mktemp(stack)
    if stack == "http3":
        server: Http3 = request.getfixturevalue("http3")
        yield compared(folder, ["plain.http3.test", "early.http3.test", "large.http3.test"], server.port)
        return
    endpoints = [replace(endpoint(stack, "wait", None, certificate=size), http=ANSWER) for size in SIZES]
    with running(folder, stack, endpoints) as lab:
        yield compared(folder, [served.domain for served in endpoints], lab.port)


def of_kind(found: ComparedServer, kind: str) -> list[dict[str, Any]]:
    return [
        segment for row in found.rows for segment in segments(found.folder / row["domain"] / "all" / kind)
    ]


def parameters_in(row: dict[str, Any]) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = json.loads(row["transport_parameters"])
    return parameters


def is_value(shown: object, value: bytes) -> bool:
    """Return whether a row's value represents these bytes."""
    if shown is True:
        return value == b""
    if isinstance(shown, int):
        return Buffer(data=value).pull_uint_var() == shown
    return shown == value.hex()


def test_transport_parameters(found: ComparedServer) -> None:
    for row in found.rows:
        assert row["outcome"] == "done", row
        log = found.tshark[row["client_cid"]]
        assert len(parameters_in(row)) == len(log.parameters) > 8
        for parameter, (number, value) in zip(parameters_in(row), log.parameters, strict=True):
            assert int(parameter["id"], 16) == number and is_value(parameter["value"], value), (
                parameter,
                value.hex(),
            )
        dissected = found.dissected[row["client_cid"]]
        # The dissector writes identifiers without leading zeros.
        of_dissector = json.loads(dissected["transport_parameters_server"])
        assert [
            {**parameter, "id": f"{int(parameter['id'], 16):#04x}"} for parameter in of_dissector
        ] == parameters_in(row)


def test_a_second_client_is_sent_the_same_parameters(found: ComparedServer) -> None:
    for row in found.rows:
        # Flags and integers are the same for all connections to a server. Connection IDs, tokens and the
        # reserved parameters that a stack chooses at random differ for each connection.
        ours = {
            parameter["id"]: parameter["value"]
            for parameter in parameters_in(row)
            if not isinstance(parameter["value"], str)
        }
        theirs = {f"{number:#04x}": value for number, value in found.second[row["domain"]].parameters}
        assert ours.keys() <= theirs.keys()
        assert all(is_value(shown, theirs[number]) for number, shown in ours.items())


def test_certificates(found: ComparedServer) -> None:
    described = {certificate["sha256"]: certificate for certificate in of_kind(found, "certificate")}
    for row in found.rows:
        chain = found.tshark[row["client_cid"]].certificates
        assert chain == found.second[row["domain"]].certificates
        assert (row["leaf_sha256"], row["chain_length"]) == (chain[0], len(chain))
        assert set(chain) <= described.keys()
        issuers = [described[digest]["issuer_sha256"] for digest in chain]
        assert issuers == [*chain[1:], None]


def header_fields(stream: bytes) -> list[tuple[bytes, bytes]]:
    """Return the fields of the last HEADERS frame in a response, decoded by ls-qpack."""
    buffer, decoder, last = Buffer(data=stream), pylsqpack.Decoder(0, 0), []
    while not buffer.eof():
        kind, length = buffer.pull_uint_var(), buffer.pull_uint_var()
        payload = buffer.pull_bytes(length)
        if kind == 1:
            last = decoder.feed_header(0, payload)[1]
    return last


def test_header_fields(found: ComparedServer) -> None:
    responses = {response["domain"]: response for response in of_kind(found, "http3_response")}
    assert responses.keys() == {row["domain"] for row in found.rows}
    for row in found.rows:
        stream = found.tshark[row["client_cid"]].stream
        fields = header_fields(b"".join(stream[at] for at in sorted(stream)))
        text = [[name.decode(), value.decode()] for name, value in fields]
        assert text[0] == [":status", str(row["status"])]
        assert json.loads(responses[row["domain"]]["headers"]) == text[1:]
        # The date differs between responses, and so does quic-go's order.
        second = found.second[row["domain"]].fields
        assert sorted(field for field in second if field[0] != b"date") == sorted(
            field for field in fields if field[0] != b"date"
        )


def crossing(row: dict[str, Any], seen: dict[str, Any]) -> int | None:
    """Return by how much a row's times are later than the capture's; `None` if they contradict each other.

    Both use the kernel's timestamps of received datagrams. For the Initial, the engine uses the time of
    sending and the capture the later time of arrival. All milestones of the row are later by this difference.
    """
    later = [row[name] - seen[other] for name, other in TIMES.items()]
    is_one = min(later) >= -ROUNDING_US and max(later) - min(later) <= ROUNDING_US
    return min(later) if is_one else None


def test_milestones_as_the_dissector_sees_them(found: ComparedServer) -> None:
    for row in found.rows:
        seen = found.dissected[row["client_cid"]]
        assert {name: row[name] for name in SAME} == {name: seen[other] for name, other in SAME.items()}
        assert row["datagrams_received"] + row["after_close"] == seen["datagrams_server"]
        assert seen["undecrypted_packets"] == 0
        close = [seen[f"closed_{name}"] for name in ("by", "by_application", "code", "reason")]
        assert close == ["client", True, H3_NO_ERROR, CONTACT]
        assert crossing(row, seen) is not None, (row, seen)
        # One milestone with a wrong timestamp is detected.
        for name, fault_us in itertools.product(TIMES, (-FAULT_US, FAULT_US)):
            assert crossing({**row, name: row[name] + fault_us}, seen) is None


def test_times_count_from_the_sending(http3: Http3, tmp_path: Path) -> None:
    """If the send timestamp is too early, all times are later, and no time is close to the capture's."""
    targets = [(HOST, f"n{number}.http3.test", http3.port) for number in range(12)]
    with TcpdumpCapture(
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
        return min(difference_us for difference_us in crossings if difference_us is not None)

    assert least_crossing(0) < FAULT_US <= least_crossing(FAULT_US)
