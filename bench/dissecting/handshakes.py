"""Record real handshakes for the dissector's bench: `python -m bench.dissecting.handshakes FOLDER`

An aioquic client connects to the lab's servers on loopback while tcpdump captures: one capture and key log
for each server stack (quiche with BoringSSL, quic-go, aioquic), with a certificate chain of the usual length
of QUIC services. `firstflight-captures` multiplies them. The bench also records one TCP connection of the
kernel with a small answer.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent
from aioquic.tls import CipherSuite

from lab import stacks
from lab.declared.model import Endpoint
from lab.hosts.certificates import issue, make_authority
from lab.hosts.servers import configuration
from tests.free_port import free_port

HOST = "127.0.0.1"
NAME = "www.example.test"
STACKS = ("quiche", "quic-go", "aioquic")
# Median of the certificate chains of QUIC services: Nawrocki et al., "On the Interplay between TLS
# Certificates and QUIC Performance" (CoNEXT 2022).
CHAIN_BYTES = 2329
SECONDS = 20
ANSWER, SEGMENT = 20_000, 1400


def record(folder: Path) -> list[Path]:
    """Record a handshake with each stack as STACK.pcap and STACK.keys. Raises SystemExit if one fails."""
    return [_record(folder, stack) for stack in STACKS]


def _record(folder: Path, stack: str) -> Path:
    capture = folder / f"{stack}.pcap"
    with _server(folder, stack) as port, _tcpdump(capture, f"udp port {port}"):
        asyncio.run(_handshake(port, capture.with_suffix(".keys")))
    return capture


@contextmanager
def _server(folder: Path, stack: str) -> Iterator[int]:
    """Run the lab's server of `stack` on a free port until the block ends."""
    port = free_port()
    authority = make_authority(folder / stack)
    certificates = {"small": issue(authority, stack, [NAME], chain_bytes=CHAIN_BYTES)}
    endpoint = Endpoint(
        domain=NAME, ip=HOST, host="loopback", stack=stack, mode="wait", delay_us=None, certificate="small"
    )
    file = folder / f"{stack}.json"
    file.write_text(json.dumps(configuration([endpoint], certificates, port)))
    with subprocess.Popen(stacks.find(stack).command(file), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "READY\n":
                raise SystemExit(f"bench: the {stack} server does not start")
            yield port
        finally:
            process.kill()


@contextmanager
def _tcpdump(capture: Path, packets: str) -> Iterator[None]:
    """Capture `packets` (a filter) on loopback until the block ends."""
    argv = ["tcpdump", "-i", "lo", "-U", "--immediate-mode", "-w", str(capture), packets]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        if not any("listening on" in line for line in process.stderr):
            raise SystemExit("bench: tcpdump cannot capture on loopback: run the bench as root")
        try:
            yield
            time.sleep(0.2)
        finally:
            process.send_signal(signal.SIGINT)


def record_tcp(folder: Path) -> Path:
    """Record a connection that sends ANSWER bytes in segments of at most SEGMENT, as tcp.pcap."""
    capture = folder / "tcp.pcap"
    with socket.create_server((HOST, 0)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
        port = int(server.getsockname()[1])
        with _tcpdump(capture, f"tcp port {port}"):
            answering = threading.Thread(target=_answer, args=(server,))
            answering.start()
            with socket.create_connection((HOST, port), timeout=SECONDS) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                while client.recv(1 << 16):
                    pass
            answering.join()
    return capture


def _answer(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1 << 16)
        connection.sendall(bytes(ANSWER))


class SilentClient(QuicConnectionProtocol):
    """A client that ignores all events."""

    def quic_event_received(self, event: QuicEvent) -> None:
        """Ignore `event`: the client reads no stream."""


async def _handshake(port: int, keys: Path) -> None:
    """Connect, send the first flight of an HTTP/3 request, and close after the handshake is confirmed."""
    with keys.open("w") as log:
        settings = QuicConfiguration(
            is_client=True,
            alpn_protocols=H3_ALPN,
            server_name=NAME,
            verify_mode=ssl.CERT_NONE,
            secrets_log_file=log,
            # The groups that browsers offer first.
            cipher_suites=[CipherSuite.AES_128_GCM_SHA256, CipherSuite.AES_256_GCM_SHA384],
        )
        async with (
            asyncio.timeout(SECONDS),
            connect(HOST, port, configuration=settings, create_protocol=SilentClient) as client,
        ):
            http = H3Connection(client._quic)
            stream = client._quic.get_next_available_stream_id()
            headers = [(b":method", b"GET"), (b":scheme", b"https")]
            headers += [(b":authority", NAME.encode()), (b":path", b"/"), (b"user-agent", b"firstflight")]
            http.send_headers(stream, headers, end_stream=True)
            client.transmit()
            await client.ping()
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
    record_tcp(Path(sys.argv[1]))
