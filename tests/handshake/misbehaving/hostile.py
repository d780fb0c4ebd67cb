"""Servers that send random frames in packets that authenticate: in Initial packets, or in 1-RTT packets after
a complete handshake (`python -m tests.handshake.misbehaving.hostile PORT CHAIN KEY`).
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import H3_ALPN
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.events import HandshakeCompleted, QuicEvent
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import Epoch

NUMBERS = (0, 0, 0, 1, 2, 3, 7, 63, 64, 1 << 14, (1 << 30) - 1, 1 << 30, (1 << 62) - 1)
# Frame types that take a number of numbers, and data with a length before it (RFC 9000 19).
FRAMES = {
    0x00: (0, False),
    0x01: (0, False),
    0x02: (4, False),
    0x03: (7, False),
    0x04: (3, False),
    0x05: (2, False),
    0x06: (1, True),
    0x07: (0, True),
    0x0A: (1, True),
    0x0B: (1, True),
    0x0E: (2, True),
    0x0F: (2, True),
    0x10: (1, False),
    0x11: (2, False),
    0x12: (1, False),
    0x13: (1, False),
    0x14: (1, False),
    0x18: (2, True),
    0x19: (1, False),
    0x1C: (2, True),
    0x1D: (1, True),
    0x1E: (0, False),
    0x30: (0, False),
    0x31: (0, True),
}


# After its random frames a server waits so long for the client to end the connection.
CLOSE_S = 1.0
INITIAL = (0x00, 0x01, 0x02, 0x03, 0x06, 0x1C)


def payload(draw: random.Random, kinds: Sequence[int], most: int = 1000) -> bytes:
    """Return some frames with numbers at their limits, occasionally with bytes that are no frame."""
    made = b""
    for _ in range(draw.randrange(1, 12)):
        kind = draw.choice(kinds)
        numbers, data = FRAMES[kind]
        frame = encode_uint_var(kind)
        frame += b"".join(encode_uint_var(draw.choice(NUMBERS)) for _ in range(numbers))
        if data:
            content = draw.randbytes(draw.choice((0, 1, 4, 40, 400)))
            frame += encode_uint_var(len(content)) + content
        if draw.random() < 0.05:
            frame = frame[: draw.randrange(1, len(frame) + 1)] + draw.randbytes(2)
        if len(made) + len(frame) <= most:
            made += frame
    return made.ljust(4, b"\0")


def source_of(client: bytes) -> bytes:
    """Return the source connection ID in a client's long header."""
    place = 6 + client[5]
    return client[place + 1 : place + 1 + client[place]]


def server_keys(client: bytes) -> CryptoPair:
    """Return a server's Initial keys for a client's first datagram."""
    keys = CryptoPair()
    keys.setup_initial(cid=client[6 : 6 + client[5]], is_client=False, version=QuicProtocolVersion.VERSION_1)
    return keys


def initial(keys: CryptoPair, client: bytes, number: int, frames: bytes) -> bytes:
    """Return an Initial packet with `frames` to the sender of `client`."""
    source = source_of(client)
    header = b"\xc1\0\0\0\1" + bytes([len(source)]) + source + b"\x04host\0"
    header += (0x4000 | len(frames) + 2 + 16).to_bytes(2, "big") + number.to_bytes(2, "big")
    return keys.encrypt_packet(header, frames, number)


def initials(draw: random.Random, client: bytes) -> list[bytes]:
    """Return Initial packets with random frames that answer the client's first datagram."""
    keys = server_keys(client)
    return [
        initial(keys, client, number, payload(draw, INITIAL if draw.random() < 0.9 else [*FRAMES]))
        for number in range(draw.randrange(1, 6))
    ]


class HostileConnection(QuicConnectionProtocol):
    """One connection; the client's connection ID is the seed."""

    def quic_event_received(self, event: QuicEvent) -> None:
        """When the handshake is complete, print the client ID, send random frames, then a close."""
        if not isinstance(event, HandshakeCompleted):
            return
        quic = self._quic
        print(quic._peer_cid.cid.hex(), flush=True)
        asyncio.get_running_loop().call_later(CLOSE_S, self.close)
        self.transmit()
        draw = random.Random(quic._peer_cid.cid)
        for number in range(1000, 1000 + draw.randrange(1, 8)):
            header = b"\x41" + quic._peer_cid.cid + number.to_bytes(2, "big")
            packet = quic._cryptos[Epoch.ONE_RTT].encrypt_packet(header, payload(draw, [*FRAMES]), number)
            assert self._transport is not None
            self._transport.sendto(packet, quic._network_paths[0].addr)


async def _main(port: int, chain: str, key: str) -> None:
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(chain, key)
    await serve("127.0.0.1", port, configuration=configuration, create_protocol=HostileConnection)
    print("READY", flush=True)
    await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), *sys.argv[2:4]))
