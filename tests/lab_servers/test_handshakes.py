"""A real client (aioquic) completes its handshake with every stack, trusting only the lab's authority."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, QuicEvent
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from lab.hosts.servers import CHAIN_BYTES

from .running import HOST, RunningServer


class HandshakeClient(QuicConnectionProtocol):
    """Records the negotiated protocol."""

    alpn: str | None = None

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, HandshakeCompleted):
            self.alpn = event.alpn_protocol


async def handshake(server: RunningServer, name: str) -> tuple[str | None, list[x509.Certificate]]:
    """Connect; return the negotiated protocol and the server's certificates."""
    configuration = QuicConfiguration(alpn_protocols=["h3"], server_name=name)
    configuration.load_verify_locations(str(server.authority))
    async with asyncio.timeout(60):
        async with connect(
            HOST, server.port, configuration=configuration, create_protocol=HandshakeClient
        ) as client:
            await client.ping()
            peer = cast(HandshakeClient, client)
            context = client._quic.tls
            return peer.alpn, [
                cast(x509.Certificate, context._peer_certificate),
                *context._peer_certificate_chain,
            ]


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize(
    ("server", "mode"),
    [
        ("quiche", "wait"),
        ("quiche", "iack"),
        ("quiche", "retry"),
        ("quiche", "retry-iack"),
        ("quiche", "sh-then-certificate"),
        ("aioquic", "wait"),
        ("aioquic", "iack"),
        ("quic-go", "wait"),
    ],
    indirect=["server"],
)
def test_handshake_is_verified(server: RunningServer, mode: str, size: str) -> None:
    alpn, chain = asyncio.run(handshake(server, f"{mode}.{size}.test"))
    assert alpn == "h3"
    length = sum(len(certificate.public_bytes(Encoding.DER)) for certificate in chain)
    assert CHAIN_BYTES[size] - 10 <= length <= CHAIN_BYTES[size] + 40


def test_a_name_outside_the_certificate_is_refused_by_the_client(quiche: RunningServer) -> None:
    with pytest.raises((ConnectionError, TimeoutError)):
        asyncio.run(handshake(quiche, "www.example.test"))
