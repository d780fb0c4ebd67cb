"""A server that misbehaves during or after a handshake.

    python -m tests.handshake.misbehaving.rogue PORT CHAIN KEY

The first label of the requested name selects the fault: rogue_tls.MODES alters TLS messages,
rogue_frames.HANDSHAKE and COMPLETE send frames, rogue_http.MODES answer the request, the `slow-` modes send a
byte a second, and `moved` answers the request from another port. The server answers other names correctly.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any, ClassVar

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.h3.connection import H3_ALPN, FrameType, H3Connection, encode_frame
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, ProtocolNegotiated, QuicEvent
from aioquic.quic.packet import encode_quic_version_negotiation
from aioquic.tls import Epoch

from tests.handshake.misbehaving import rogue_frames, rogue_http, rogue_tls

PERIOD_S = 1.0
# The number of key updates that a mode starts. A PING follows each.
UPDATES = {"key-update": 1, "key-update-twice": 2}
NAMES = rogue_tls.AlteredNames()
MODES = sorted(
    {*rogue_tls.MODES, *rogue_frames.HANDSHAKE, *rogue_frames.COMPLETE, *rogue_http.MODES}
    | {"slow-headers", "negotiation-late", "moved", *UPDATES}
)


class RogueConnection(QuicConnectionProtocol):
    """One connection."""

    elsewhere: ClassVar[asyncio.DatagramTransport]
    mode: str | None = None
    _http: H3Connection | None = None

    def datagram_received(self, data: bytes | str, addr: Any) -> None:
        """Read the mode from the ClientHello, and send the frames that follow the server's messages."""
        NAMES.mode = ""
        super().datagram_received(data, addr)
        if self.mode is None and NAMES.mode:
            self.mode = NAMES.mode
            if self.mode == "parameters-all":
                # The client accepts two connection IDs; the preferred address has the second (RFC 9000 5.1.1)
                self._quic._remote_active_connection_id_limit = 1
            self._send(Epoch.HANDSHAKE, rogue_frames.HANDSHAKE.get(self.mode, ()))
            if self.mode == "slow-messages":
                self._slowly(0)

    def quic_event_received(self, event: QuicEvent) -> None:
        """Send frames after the handshake, and answer requests."""
        quic, mode = self._quic, self.mode or ""
        if isinstance(event, HandshakeCompleted):
            self._send(Epoch.ONE_RTT, rogue_frames.COMPLETE.get(mode, ()))
            for _ in range(UPDATES.get(mode, 0)):
                quic._cryptos[Epoch.ONE_RTT].update_key()
                self._send(Epoch.ONE_RTT, [b"\x01"])
            if mode == "negotiation-late":
                self._write(encode_quic_version_negotiation(quic.host_cid, quic._peer_cid.cid, [0x6B3343CF]))
        if isinstance(event, ProtocolNegotiated):
            self._http = H3Connection(quic)
        if self._http is None:
            return
        for found in self._http.handle_event(event):
            if isinstance(found, HeadersReceived):
                if mode == "moved":
                    self._transport = RogueConnection.elsewhere
                if mode == "slow-headers":
                    self._slow_headers(found.stream_id, 0)
                else:
                    answer = rogue_http.MODES.get(mode, rogue_http.plain)
                    answer(self._http, quic, found.stream_id)
                self.transmit()

    def _write(self, datagram: bytes) -> None:
        assert self._transport is not None
        self._transport.sendto(datagram, self._quic._network_paths[0].addr)

    def _send(self, epoch: Epoch, payloads: Iterable[bytes]) -> None:
        """Send packets with these frames."""
        quic = self._quic
        for frames in payloads:
            number = quic._packet_number
            quic._packet_number += 1
            payload = frames.ljust(4, b"\0")
            if epoch is Epoch.ONE_RTT:
                header = bytes([0x41 | quic._cryptos[epoch].key_phase << 2]) + quic._peer_cid.cid
            else:
                peer, host = quic._peer_cid.cid, quic.host_cid
                header = b"\xe1\0\0\0\1" + bytes([len(peer)]) + peer + bytes([len(host)]) + host
                header += (0x4000 | len(payload) + 2 + 16).to_bytes(2, "big")
            header += (number & 0xFFFF).to_bytes(2, "big")
            self._write(quic._cryptos[epoch].encrypt_packet(header, payload, number))

    def _slowly(self, offset: int) -> None:
        """Send a byte of EncryptedExtensions, and the next one a second later."""
        self._send(
            Epoch.HANDSHAKE, [rogue_frames.crypto(offset, b"\x08\0\x40\0"[offset : offset + 1] or b"\0")]
        )
        asyncio.get_running_loop().call_later(PERIOD_S, self._slowly, offset + 1)

    def _slow_headers(self, stream: int, place: int) -> None:
        data = encode_frame(FrameType.HEADERS, rogue_http.OK + bytes(100))
        self._quic.send_stream_data(stream, data[place : place + 1])
        self.transmit()
        asyncio.get_running_loop().call_later(PERIOD_S, self._slow_headers, stream, place + 1)


async def _main(port: int, chain: str, key: str) -> None:
    NAMES.install()
    configuration = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN)
    configuration.load_cert_chain(chain, key)
    endpoint = asyncio.get_running_loop().create_datagram_endpoint
    RogueConnection.elsewhere, _ = await endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
    await serve("127.0.0.1", port, configuration=configuration, create_protocol=RogueConnection)
    print("READY", flush=True)
    await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), *sys.argv[2:4]))
