"""A name's connections: all to one address, checked when the socket is opened, with received bytes counted.

Scrapy resolves a host for each connection, so it may contact another address than the checked one. Here, a
name's requests can reach no other address, whatever their host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from twisted.internet import defer, interfaces, ssl
from twisted.internet.endpoints import TCP4ClientEndpoint, TCP6ClientEndpoint, wrapClientTLS
from twisted.internet.protocol import connectionDone
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.client import HTTPConnectionPool
from zope.interface import implementer

from crawler.files.fetching.fetch import Blocked

if TYPE_CHECKING:
    from twisted.web.client import URI

PORT = 443
CONNECT_TIMEOUT_S = 10.0
_IDLE_S = 15  # a connection that waits for the next request


class NotPermitted(Exception):
    """A connection to a destination that is not permitted."""


class Wire:
    """All connections for a name to `address`.

    `why_not(address, host)` returns why the address may not be contacted for a host, or `None`. `most_bytes`
    limits all received bytes. A request may receive as many bytes as `allow` grants.
    """

    def __init__(
        self, address: str, why_not: Callable[[str, str], str | None], most_bytes: int, port: int = PORT
    ) -> None:
        self.address = str(ipaddress.ip_address(address))
        self.received = 0
        self.port = port
        self._why_not = why_not
        self._most_bytes = most_bytes
        self._until = 0
        self._open: set[Connection] = set()
        self.pool: HTTPConnectionPool | None = None

    def new_pool(self, reactor: Any) -> HTTPConnectionPool:
        """Return the pool of this name's idle connections, made on first use."""
        if self.pool is None:
            self.pool = HTTPConnectionPool(reactor, persistent=True)
            self.pool.maxPersistentPerHost = 1
            self.pool.cachedConnectionTimeout = _IDLE_S
            self.pool.retryAutomatically = False  # the limits count each request
        return self.pool

    def allow(self, count: int) -> None:
        """Let the next request receive `count` bytes. A connection that receives more is closed."""
        self._until = min(self.received + count, self._most_bytes)

    @property
    def is_spent(self) -> bool:
        """Whether the name has reached the limit of received bytes."""
        return self.received >= self._most_bytes

    def count(self, count: int) -> bool:
        """Count received bytes. Return whether the connection may continue."""
        self.received += count
        return self.received <= self._until

    def opened(self, connection: Connection) -> None:
        """Register a connection. Raise NotPermitted if the peer is not the pinned address."""
        peer = cast(Any, connection.transport).getPeer().host
        if ipaddress.ip_address(peer) != ipaddress.ip_address(self.address):
            raise NotPermitted(f"the connection leads to {peer}")
        self._open.add(connection)

    def closed(self, connection: Connection) -> None:
        """Remove a connection."""
        self._open.discard(connection)

    def close(self) -> None:
        """Close all connections immediately, even if their peers still send data."""
        if self.pool is not None:
            self.pool.closeCachedConnections()  # else their timers keep them
        for connection in list(self._open):
            connection.abortConnection()

    def why_not(self, host: str) -> str | None:
        """Return why the address may not be contacted for a host now; `None` if it may."""
        return self._why_not(self.address, host)

    def check(self, host: str) -> None:
        """Raise Blocked and close all connections if the address may no longer be contacted for a host."""
        why = self.why_not(host)
        if why is not None:
            self.close()
            raise Blocked(why)

    def connect(self, reactor: Any, factory: Any, host: str) -> defer.Deferred[Any]:
        """Open a connection to the pinned address, if it may be contacted for `host` now."""
        why = self.why_not(host)
        if why is not None:
            return defer.fail(Blocked(why))
        kind = TCP6ClientEndpoint if ":" in self.address else TCP4ClientEndpoint
        endpoint = kind(reactor, self.address, self.port, timeout=CONNECT_TIMEOUT_S)
        connected = endpoint.connect(cast(Any, _Counting(factory, self)))
        return connected.addCallback(lambda outer: outer.wrappedProtocol)


class Connection(ProtocolWrapper):
    """A TCP connection below TLS. Counts the bytes."""

    def __init__(self, factory: _Counting, protocol: Any) -> None:
        super().__init__(cast(Any, factory), protocol)
        self._wire = factory.wire

    def makeConnection(self, transport: Any) -> None:
        """Start, if the transport's peer is permitted."""
        self.transport = transport
        try:
            self._wire.opened(self)
        except NotPermitted:
            transport.abortConnection()
            return
        super().makeConnection(transport)  # type: ignore[no-untyped-call]

    def dataReceived(self, data: bytes) -> None:
        """Pass on data up to the limit, then close the connection."""
        if self._wire.count(len(data)):
            super().dataReceived(data)  # type: ignore[no-untyped-call]
        else:
            self.abortConnection()

    def abortConnection(self) -> None:
        """Close without waiting for the peer."""
        cast(Any, self.transport).abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Forget the connection."""
        self._wire.closed(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]


class _Counting(WrappingFactory):
    protocol = Connection
    noisy = False

    def __init__(self, factory: Any, wire: Wire) -> None:
        super().__init__(factory)  # type: ignore[no-untyped-call]
        self.wire = wire

    def registerProtocol(self, protocol: Any) -> None:
        """Do nothing: the wire keeps the list of connections."""

    def unregisterProtocol(self, protocol: Any) -> None:
        """Do nothing: the wire keeps the list of connections."""


@implementer(interfaces.IStreamClientEndpoint)
class _Pinned:
    def __init__(self, reactor: Any, wire: Wire, host: str) -> None:
        self._reactor, self._wire, self._host = reactor, wire, host

    def connect(self, factory: Any) -> defer.Deferred[Any]:
        return self._wire.connect(self._reactor, factory, self._host)


class Endpoints:
    """Twisted's endpoint factory (IAgentEndpointFactory) for a wire: TLS with verified certificates."""

    def __init__(self, reactor: Any, wire: Wire, roots: Any) -> None:
        self._reactor, self._wire, self._roots = reactor, wire, roots

    def endpointForURI(self, uri: URI) -> Any:
        """Return a URI's endpoint. Raise NotPermitted unless it is https at the default port."""
        if uri.scheme != b"https" or uri.port != PORT:
            raise NotPermitted(f"{uri.scheme!r}, port {uri.port}, is not permitted")
        host = uri.host.decode("ascii")
        options = ssl.optionsForClientTLS(host, trustRoot=self._roots)
        return wrapClientTLS(options, cast(Any, _Pinned(self._reactor, self._wire, host)))
