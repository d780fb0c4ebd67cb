"""A real HTTP/3 server (aioquic) on loopback addresses: `python quic_server.py PORT ADDRESS...`.

The server answers every request with only a header section, and for the name ALIASED with a CDN's header.
"""

from __future__ import annotations

import asyncio
import datetime
import sys
import tempfile
from pathlib import Path

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, QuicEvent
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate and its key as PEM files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "edge.camp.test")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "cert.pem", folder / "key.pem"
    chain.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return chain, secret


ALIASED = "edge3.camp.test"
HEADERS = [(b":status", b"204"), (b"server", b"loopback"), (b"alt-svc", b'h3=":443"')]


class ServerProtocol(QuicConnectionProtocol):
    """A connection's server side."""

    http: H3Connection | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        """Answer requests."""
        if isinstance(event, HandshakeCompleted):
            self.http = H3Connection(self._quic)
        for found in self.http.handle_event(event) if self.http is not None else []:
            if isinstance(found, HeadersReceived):
                assert self.http is not None
                host = dict(found.headers)[b":authority"].decode()
                more = [(b"cf-ray", b"8f3a-HAM")] if host.startswith(ALIASED) else []
                self.http.send_headers(found.stream_id, HEADERS + more, end_stream=True)
                self.transmit()


async def main(port: int, addresses: list[str]) -> None:
    """Serve until killed; print `ready` when all sockets are bound."""
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
    with tempfile.TemporaryDirectory() as folder:
        configuration.load_cert_chain(*certificate(Path(folder)))
    for address in addresses:
        await serve(address, port, configuration=configuration, create_protocol=ServerProtocol)
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2:]))
