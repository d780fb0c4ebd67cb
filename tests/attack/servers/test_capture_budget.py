"""Strangers cannot fill a vantage point's disk: captures and downloads have limits where bytes arrive.

As it was tried: a flood of UDP to the probe's source ports made a capture of 913 MB in 6 s, and a web server
that sends one endless chunk extension made one of 345 MB in 10 s with a body of 0 bytes.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from downloader.clients import curl, shared
from downloader.clients.contract import ClientAnswer, Request
from downloader.option_sets import SETS
from downloader.transfers.session import CaptureFull, Limits, Session
from firstflight import capture, capture_files
from firstflight.egress.permitted import Permitted
from scanner.driver.capture import BYTES_PER_PROBE, BYTES_PER_STAGE, answers_to, budget
from tests.dissect import build, test_stage_trim
from tests.dissect.build import MS
from tests.dissect.conftest import dissect
from tests.dissect.test_stage_trim import make
from tests.waiting import until

PORTS = "61900-61999"
LIMIT = 200_000
DATAGRAM = bytes(1200)


def flood(count: int, port: int = 61950, to: str = "127.0.0.1", source: int = 0) -> None:
    with socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_DGRAM) as sender:
        if source:
            sender.bind((to, source))
        for _ in range(count):
            sender.sendto(DATAGRAM, (to, port))


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a flooded capture with a small limit. The capture finished without an error."""
    folder = tmp_path_factory.mktemp("flooded")
    running = capture.TcpdumpCapture(
        folder / "probe.pcap", "lo", answers_to(PORTS, 443), snaplen=262_144, buffer_kib=16_384, drain_s=1.1,
        max_bytes=LIMIT,
    )  # fmt: skip
    with running:
        flood(1000, source=443)
        until(lambda: running.size() == LIMIT, "a full capture")
        running.check()  # the probe continues
        flood(1000, source=443)
    return folder


def test_a_flood_takes_no_more_than_the_limit_of_the_capture(flooded: Path) -> None:
    path = flooded / "probe.pcap"
    assert LIMIT - 2 * len(DATAGRAM) < path.stat().st_size <= LIMIT
    (record,) = capture_files.records(flooded)
    assert record.max_bytes == LIMIT
    data, at, complete = path.read_bytes(), 24, 0
    while at < len(data):
        at += 16 + int(struct.unpack_from("=8xI", data, at)[0])
        complete += 1
    assert at == len(data), "the last packet is cut"
    assert record.captured is not None and record.cut == record.captured - complete > 0


def test_a_truncated_capture_is_a_warning(flooded: Path) -> None:
    (record,) = capture_files.records(flooded)
    (warning, *_) = capture_files.losses(flooded)
    assert warning.startswith(f"probe.pcap lacks its last {record.cut} packets: it reached its limit")


def test_a_capture_never_takes_more_than_half_of_the_free_disk(tmp_path: Path) -> None:
    free = capture._free_bytes(tmp_path)
    running = capture.TcpdumpCapture(
        tmp_path / "probe.pcap", "lo", "icmp", snaplen=256, buffer_kib=256, drain_s=0, max_bytes=1 << 60
    )
    with running:
        pass
    (record,) = capture_files.records(tmp_path)
    assert record.max_bytes is not None and record.max_bytes < 0.6 * free
    assert record.cut == 0


@pytest.mark.parametrize("probes", [0, 1, 1_000_000])
def test_each_probe_adds_a_fixed_amount_to_the_limit(probes: int) -> None:
    assert budget(probes) == BYTES_PER_STAGE + probes * BYTES_PER_PROBE


def _icmp(quoted_port: int, kind: int = 3, version: int = 4) -> bytes:
    """Return an ICMP message that quotes a UDP datagram from this port, as a frame of loopback."""
    udp = struct.pack("!HHHH", quoted_port, 443, 8, 0)
    ethernet = bytes(12) + (b"\x08\x00" if version == 4 else b"\x86\xdd")
    if version == 4:
        inner = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 0, 0, 64, 17, 0, bytes(4), bytes(4)) + udp
        message = struct.pack("!BBHI", kind, 3, 0, 0) + inner
        outer = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(message), 0, 0, 64, 1, 0, bytes(4), bytes(4))
    else:
        inner = struct.pack("!IHBB16s16s", 6 << 28, 8, 17, 64, bytes(16), bytes(16)) + udp
        message = struct.pack("!BBHI", kind, 3, 0, 0) + inner
        outer = struct.pack("!IHBB16s16s", 6 << 28, len(message), 58, 64, bytes(16), bytes(16))
    return ethernet + outer + message


def _udp(source: int, destination: int) -> bytes:
    udp = struct.pack("!HHHH", source, destination, 8, 0)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28, 0, 0, 64, 17, 0, bytes(4), bytes(4))
    return bytes(12) + b"\x08\x00" + ip + udp


@pytest.mark.parametrize(
    ("frame", "taken"),
    [
        (_udp(443, 61900), True),
        (_udp(61999, 443), True),
        (_udp(443, 62000), False),
        (_udp(444, 61900), False),
        (_udp(61900, 61901), False),
        (_icmp(61950), True),
        (_icmp(61950, kind=11), True),
        (_icmp(50000), False),
        (_icmp(61950, kind=8), False),
        (_icmp(61950, kind=0), False),
        (_icmp(61950, kind=1, version=6), True),
        (_icmp(61950, kind=2, version=6), True),
        (_icmp(50000, kind=1, version=6), False),
        (_icmp(61950, kind=128, version=6), False),
        (_icmp(61950, kind=135, version=6), False),
    ],
)
def test_the_filter_takes_only_what_can_be_of_a_probe(tmp_path: Path, frame: bytes, taken: bool) -> None:
    """The filter took all ICMP of the machine, and so all echo requests."""
    path = tmp_path / "one.pcap"
    header = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    path.write_bytes(header + struct.pack("=IIII", 1, 0, len(frame), len(frame)) + frame)
    argv = ["tcpdump", "-nn", "-r", str(path), "-w", str(tmp_path / "taken.pcap"), answers_to(PORTS, 443)]
    subprocess.run(argv, check=True, capture_output=True)
    assert ((tmp_path / "taken.pcap").stat().st_size > 24) == taken


class EndlessServer:
    """A web server that answers with an empty body and an endless chunk extension."""

    def __init__(self, folder: Path, piece: int) -> None:
        self.sent = 0
        self.client: tuple[str, int] | None = None
        self.roots = folder / "cert.pem"
        self._piece = b"x" * piece
        key = folder / "key.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-keyout", str(key), "-out", str(self.roots), "-days", "2", "-subj", "/CN=a.test",
             "-addext", "subjectAltName=DNS:a.test"],
            check=True, capture_output=True,
        )  # fmt: skip
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.roots, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        try:
            plain, self.client = self._listener.accept()
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._context.wrap_socket(plain, server_side=True) as client:
                client.recv(4096)
                client.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;e=")
                while True:
                    client.sendall(self._piece)
                    self.sent += len(self._piece)
        except OSError:
            pass  # the client has gone

    def close(self) -> None:
        self._listener.close()


@pytest.fixture(params=[1, 60_000])
def endless(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[EndlessServer]:
    """An endless server that sends pieces of a single byte, or of 60,000 bytes."""
    server = EndlessServer(tmp_path, request.param)
    yield server
    server.close()


def test_an_answer_without_body_ends_at_the_limit_of_the_network(endless: EndlessServer) -> None:
    """Its body stays at 0 bytes, so that the limit of the body was never reached."""
    request = Request(
        url=f"https://a.test:{endless.port}/", host="a.test", ip="127.0.0.1", port=endless.port, path="/",
        user_agent="test", timeout_s=30, max_bytes=100_000, roots=str(endless.roots), max_wire_bytes=300_000,
    )  # fmt: skip
    answer = curl.answer(request, Permitted([], [], ["127.0.0.0/8"]))
    assert (answer.end, answer.body_bytes, answer.status) == ("wire_limit", 0, 200)
    assert answer.detail is not None and "from the network for 0 bytes of the body" in answer.detail
    assert answer.wire_bytes is not None and answer.wire_bytes > 300_000
    assert endless.sent < 100_000_000
    # The packets of the download are found by these.
    assert (answer.client_ip, answer.client_port) == endless.client


def test_the_network_limit_exceeds_a_normal_download() -> None:
    limits = Limits()
    # 40 bytes of headers for each 512 bytes of TLS, and a fifth of all packets retransmitted.
    assert limits.max_wire_bytes > 1.2 * (40 + 512) / 512 * limits.max_bytes
    assert Limits(max_bytes=1).max_wire_bytes > 100_000


def test_a_download_ends_that_takes_too_much_of_the_capture(tmp_path: Path) -> None:
    """Also if its client hangs, or does not count."""
    option_set, limits = SETS["warmup"], Limits(max_bytes=1)
    session = Session([option_set], tmp_path, [], limits, lambda: None)
    taken = capture.TcpdumpCapture(
        tmp_path / "warmup.pcap", "lo", "tcp", snaplen=128, buffer_kib=256, drain_s=0, max_bytes=1 << 30
    )
    session.captures[option_set.name] = taken
    part = capture_files.part_of(taken.path)
    part.write_bytes(bytes(1000))
    session._watch_capture(option_set)
    os.truncate(part, 1000 + limits.max_capture_bytes)
    session._look()
    os.truncate(part, 1001 + limits.max_capture_bytes)
    with pytest.raises(CaptureFull):
        session._look()


def test_received_bytes_include_headers() -> None:
    wire = shared.Wire(limit=20_000)
    assert not wire.is_over()
    flood(10)
    assert 12_000 < wire.bytes() < 20_000
    flood(10)
    until(wire.is_over, "the limit")
    assert ClientAnswer("wire_limit").end == "wire_limit"


def strangers(count: int, port: int) -> list[tuple[int, bytes]]:
    """Return datagrams in a flood to a probe's port, each with the time."""
    found = []
    for number in range(count):
        source = (f"203.0.113.{number % 250}", 1024 + number)
        payload = bytes([0x40 | number % 64]) + DATAGRAM
        found.append((5 * MS + number, build.udp(source, ("192.0.2.11", port), payload)))
    return found


def test_trimming_removes_what_belongs_to_no_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """911 of 913 MB were left, for a year."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    run = make(tmp_path)
    key = run.key("here", 1)
    path = run.layout.captures(key)[0]
    answered = test_stage_trim.answered(build.CLIENT_CID, 1)
    answered.write(path)
    quiet = path.stat().st_size
    answered.packets += strangers(500, 1)
    answered.write(path)
    assert path.stat().st_size > quiet + 500 * len(DATAGRAM)
    assert test_stage_trim.done(run)["trimmed"] == [2, 2]
    assert path.stat().st_size < quiet
    records = capture_files.records(path.parent)
    assert [record.removed for record in records] == [500, 0]


def test_without_the_option_a_copy_has_all_packets(tmp_path: Path) -> None:
    capture_path = tmp_path / "probe.pcap"
    story = test_stage_trim.answered(build.CLIENT_CID, 1)
    story.packets += strangers(20, 1)
    story.write(capture_path)
    sizes = {}
    for name, options in (("all", ()), ("probes", ("--trim-others",))):
        done = dissect(
            capture_path,
            "--kind",
            "quic_connection",
            "--format",
            "jsonl",
            "--trim",
            tmp_path / name,
            *options,
        )
        assert done.returncode == 0, done.stderr
        counts = json.loads((tmp_path / name / "probe.pcap.json").read_text())
        sizes[name] = (tmp_path / name / "probe.pcap").stat().st_size
        assert (counts["frames"], counts["removed"]) == (23, 0 if name == "all" else 20)
    assert sizes["all"] > sizes["probes"] + 20 * len(DATAGRAM)


def test_a_capture_of_unrelated_packets_becomes_empty(tmp_path: Path) -> None:
    path = tmp_path / "probe.pcap"
    story = build.CaptureBuilder()
    story.packets += strangers(20, 1)
    story.write(path)
    done = dissect(path, "--kind", "quic_connection", "--trim", tmp_path / "out", "--trim-others")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "probe.pcap").stat().st_size == 24
