"""Relays between the engine and a server, which lose, double, reorder or falsify datagrams on loopback."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

HOST = "127.0.0.1"

Rule = Callable[[bool, int, bytes], Iterable[bytes]]
"""Takes whether a datagram is from the server, its number in that direction from 0, and its bytes. Returns
the datagrams that the relay sends in its place."""


class _Relay:
    """One relay, for one connection."""

    def __init__(self, server: int, rule: Rule) -> None:
        self.client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.client.bind((HOST, 0))
        self.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.server.connect((HOST, server))
        self.rule = rule
        self.counts = [0, 0]
        self.peer: tuple[str, int] | None = None

    def port(self) -> int:
        """Return the port that clients send to."""
        return int(self.client.getsockname()[1])

    def close(self) -> None:
        """Close both sockets."""
        self.client.close()
        self.server.close()

    def pass_on(self, from_server: bool) -> None:
        """Read one datagram and send the datagrams that the rule returns for it."""
        try:
            if from_server:
                datagram = self.server.recv(65536)
            else:
                datagram, self.peer = self.client.recvfrom(65536)
            number = self.counts[from_server]
            self.counts[from_server] += 1
            for forwarded in self.rule(from_server, number, datagram):
                if not from_server:
                    self.server.send(forwarded)
                elif self.peer is not None:
                    self.client.sendto(forwarded, self.peer)
        except ConnectionRefusedError:
            pass  # ICMP of an earlier datagram: the other end is gone.


@contextmanager
def relays(server: int, rules: dict[str, Rule]) -> Iterator[dict[str, int]]:
    """Run a relay to port `server` for each rule while the block runs; yield a mapping of names to ports.

    If a rule raises an exception, the exit from the block raises it.
    """
    running = {name: _Relay(server, rule) for name, rule in rules.items()}
    wake, woken = socket.socketpair()
    failures: list[BaseException] = []

    def work() -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            for relay in running.values():
                selector.register(relay.client, selectors.EVENT_READ, (relay, False))
                selector.register(relay.server, selectors.EVENT_READ, (relay, True))
            while True:
                for key, _ in selector.select():
                    if key.data is None:
                        return
                    relay, from_server = key.data
                    try:
                        relay.pass_on(from_server)
                    except Exception as error:
                        failures.append(error)
                        return

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield {name: relay.port() for name, relay in running.items()}
    finally:
        wake.send(b"x")
        thread.join()
        for relay in running.values():
            relay.close()
        wake.close()
        woken.close()
    if failures:
        raise failures[0]
