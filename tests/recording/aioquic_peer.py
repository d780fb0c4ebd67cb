"""An aioquic client and server for recordings: an upload with key updates, datagrams of any size.

Run as `python -m tests.recording.aioquic_peer ADDRESS PORT --keys FILE --bytes N`.
With --chain and --key, it is a server.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
from pathlib import Path

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived

PIECE = 4000


class Silent(QuicConnectionProtocol):
    """Ignores all received data."""

    def quic_event_received(self, event: QuicEvent) -> None: ...


class Counting(QuicConnectionProtocol):
    """Answers a stream with half as many bytes."""

    got = 0
    is_answered = False

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived) and not self.is_answered:
            self.got += len(event.data)
            if event.end_stream:
                self.is_answered = True
                self._quic.send_stream_data(event.stream_id, bytes(self.got // 2), end_stream=True)
                self.transmit()


async def client(options: argparse.Namespace) -> None:
    configuration = QuicConfiguration(
        is_client=True,
        alpn_protocols=["h3"],
        server_name=options.name,
        max_datagram_size=options.datagram_size,
    )
    configuration.verify_mode = ssl.CERT_NONE
    with Path(options.keys).open("a") as keys:
        configuration.secrets_log_file = keys
        async with connect(
            options.address, options.port, configuration=configuration, create_protocol=Silent
        ) as connection:
            await connection.wait_connected()
            quic = connection._quic
            pieces = [min(PIECE, options.bytes - at) for at in range(0, options.bytes, PIECE)]
            for n, size in enumerate(pieces):
                quic.send_stream_data(0, bytes(size), end_stream=n == len(pieces) - 1)
                connection.transmit()
                await asyncio.sleep(options.pause_ms / 1000)
                if n < options.key_updates:
                    quic.request_key_update()
            await asyncio.sleep(0.15)


async def server(options: argparse.Namespace) -> None:
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=["h3"], max_datagram_size=options.datagram_size
    )
    configuration.load_cert_chain(options.chain, options.key)
    await serve(options.address, options.port, configuration=configuration, create_protocol=Counting)
    print("READY", flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--name", default="www.example.net")
    parser.add_argument("--keys")
    parser.add_argument("--chain")
    parser.add_argument("--key")
    parser.add_argument("--bytes", type=int, default=20_000)
    parser.add_argument("--pause-ms", type=float, default=10)
    parser.add_argument("--key-updates", type=int, default=0)
    parser.add_argument("--datagram-size", type=int, default=1280)
    options = parser.parse_args()
    asyncio.run(client(options) if options.keys else server(options))


if __name__ == "__main__":
    main()
