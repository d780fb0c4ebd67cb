"""A UDP path: forwards datagrams between clients and one server, with delay, reordering and loss.

Run as `python -m tests.recording.relay LISTEN UPSTREAM --delay-ms 10 --lose c0,s3 --late c5,s9`: c5 is the
sixth datagram of clients, s9 the tenth of the server. LISTEN and UPSTREAM are ADDRESS,PORT. Each client has a
separate socket towards the server; --rebind-after N replaces it after the client's N-th datagram, like a NAT
that forgot the mapping.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass, field
from typing import cast

LATE_S = 0.006
Address = tuple[str, int]


@dataclass
class Fate:
    """Delay, loss and order of the datagrams in one direction."""

    delay_s: float
    lost: frozenset[int]
    late: frozenset[int]
    count: int = 0

    def next(self) -> float | None:
        """Return the seconds until the next datagram arrives; `None`: never."""
        n = self.count
        self.count += 1
        if n in self.lost:
            return None
        return self.delay_s + (LATE_S if n in self.late else 0)


@dataclass
class Relay(asyncio.DatagramProtocol):
    """The socket towards clients."""

    upstream: Address
    to_server: Fate
    to_client: Fate
    rebind_after: int | None
    servers: dict[Address, asyncio.DatagramTransport] = field(default_factory=dict)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)
        self.queue: asyncio.Queue[tuple[bytes, Address]] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self.queue.put_nowait((data, addr))

    async def forward(self) -> None:
        """Forward the clients' datagrams in the order of arrival."""
        loop = asyncio.get_running_loop()
        while True:
            data, client = await self.queue.get()
            if client not in self.servers or self.to_server.count == self.rebind_after:
                transport, _ = await loop.create_datagram_endpoint(
                    lambda client=client: Upstream(self, client),  # type: ignore[misc]
                    remote_addr=self.upstream,
                )
                self.servers[client] = transport
            wait = self.to_server.next()
            if wait is not None:
                loop.call_later(wait, self.servers[client].sendto, data)


@dataclass
class Upstream(asyncio.DatagramProtocol):
    """The socket towards the server, for one client."""

    relay: Relay
    client: Address

    def datagram_received(self, data: bytes, _addr: Address) -> None:
        wait = self.relay.to_client.next()
        if wait is not None:
            asyncio.get_running_loop().call_later(wait, self.relay.transport.sendto, data, self.client)


def address(text: str) -> Address:
    """Parse ADDRESS,PORT."""
    host, port = text.rsplit(",", 1)
    return host, int(port)


def ordinals(text: str, side: str) -> frozenset[int]:
    """Return the ordinals for `side` (c or s) in a list such as c0,s3."""
    return frozenset(int(word[1:]) for word in text.split(",") if word.startswith(side))


async def serve(options: argparse.Namespace) -> None:
    """Print READY when the socket is bound, and forward until the process is killed."""
    delay_s = options.delay_ms / 1000
    fates = [Fate(delay_s, ordinals(options.lose, s), ordinals(options.late, s)) for s in "cs"]
    _, relay = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Relay(address(options.upstream), fates[0], fates[1], options.rebind_after),
        local_addr=address(options.listen),
    )
    print("READY", flush=True)
    await relay.forward()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("listen")
    parser.add_argument("upstream")
    parser.add_argument("--delay-ms", type=float, default=10)
    parser.add_argument("--lose", default="")
    parser.add_argument("--late", default="")
    parser.add_argument("--rebind-after", type=int)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
