"""One connection from a client: reads and writes its packets in the order of the protocol."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType

from store.clickhouse.counts import ServerCounts
from store.clickhouse.session import ClientSession
from store.engine.session import EngineError
from store.protocol import compression, packets
from store.protocol.blocks import NativeBlock, read_wire
from store.protocol.columns import BlockWindow, UnsupportedType
from store.protocol.packets import ClientPacket, Hello, Query, QueryProgress, ServerPacket
from store.protocol.refusal import NOT_IMPLEMENTED, Refusal
from store.protocol.wire import Disconnected, ProtocolError, Reader
from store.statements.statement import Insert, Statement

UNEXPECTED_PACKET = 101
LOGICAL_ERROR = 49
HELLO_S = 10.0
_KILL_AGAIN_MS = 50
# Server name for clients; the host's own name stays private.
_SHOWN_NAME = "firstflight"

_EVENTS = NativeBlock(
    ["host_name", "current_time", "thread_id", "type", "name", "value"],
    ["String", "DateTime", "UInt64", "Enum8('increment' = 1, 'gauge' = 2)", "String", "Int64"],
)


_log = logging.getLogger(__name__)


class NativeConnection:
    """A client's connection. `run` serves it in a separate thread until the client disconnects."""

    def __init__(
        self,
        sock: socket.socket,
        open_session: Callable[[Hello], ClientSession],
        kill: Callable[[], None],
        version: tuple[int, int, int],
        timezone: str,
        counts: ServerCounts,
    ) -> None:
        """`open_session` checks the login and returns a session or raises Refusal; `kill` stops its query."""
        self._sock = sock
        self._reader = Reader(sock.recv)
        self._open_session = open_session
        self._kill = kill
        self._version = version
        self._timezone = timezone
        self._counts = counts
        self._revision = 0
        self._session: ClientSession | None = None
        # Whether the client still sends rows of an insert. After an error they would be read as packets.
        self._receiving = False
        # The progress of a running query as last sent to the client; `None` while it expects no progress
        # packets.
        self._sent_progress: QueryProgress | None = None

    def run(self) -> None:
        """Serve until the client disconnects or violates the protocol."""
        try:
            session = self._greet()
            if session is not None:
                session.on_progress(self._progress)
                while self._serve_one(session):
                    pass
        except ProtocolError as error:
            self._send_last(packets.exception(UNEXPECTED_PACKET, str(error)))
        except (Disconnected, OSError):
            pass
        except Exception as error:  # an error must not affect other connections
            _log.error("firstflight: a client's connection was closed after an error: %r", error)
            self._send_last(packets.exception(LOGICAL_ERROR, repr(error)))
        finally:
            if self._session is not None:
                self._session.close()
            self.end()
            self._sock.close()

    def end(self) -> None:
        """Break the connection, also from another thread; the connection's own thread closes the socket."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def _greet(self) -> ClientSession | None:
        self._sock.settimeout(HELLO_S)
        if self._reader.varint() != ClientPacket.HELLO:
            raise ProtocolError("the first packet of a client must be a hello")
        hello = packets.read_hello(self._reader)
        self._revision = min(hello.revision, packets.REVISION)
        if hello.revision < packets.OLDEST:
            raise ProtocolError(f"revision {hello.revision} of the client is older than {packets.OLDEST}")
        try:
            session = self._session = self._open_session(hello)
        except Refusal as error:
            self._counts.refused()
            self._send_last(packets.exception(error.code, error.message))
            return None
        self._send(packets.hello(self._revision, self._version, self._timezone, _SHOWN_NAME))
        packets.read_addendum(self._reader, self._revision)
        self._sock.settimeout(None)
        return session

    def _serve_one(self, session: ClientSession) -> bool:
        """Serve the next packet; return False if the connection cannot be used any more."""
        number = self._reader.varint()
        if number == ClientPacket.PING:
            self._send(packets.packet(ServerPacket.PONG))
        elif number == ClientPacket.QUERY:
            return self._serve_query(session, packets.read_query(self._reader, self._revision))
        elif number != ClientPacket.CANCEL:  # a Cancel may arrive after the query
            raise ProtocolError(f"packet {number} where a query was expected")
        return True

    def _serve_query(self, session: ClientSession, query: Query) -> bool:
        self._sent_progress = None
        watch = _Watch(self._sock, self._reader, self._kill)
        began = time.monotonic()
        try:
            self._no_external_tables(query.compressed)
            prepared = session.prepare(query)
            insert = prepared.insert
            if insert is not None:
                rows = self._take_rows(session, insert, query.compressed)
            else:
                with watch:
                    rows = self._give_rows(session, prepared, query)
            self._counts.query("answered" if insert is None else "inserted", time.monotonic() - began, rows)
        except (EngineError, Refusal, UnsupportedType) as error:
            self._counts.query("failed", time.monotonic() - began)
            if watch.disconnected:
                raise Disconnected from error
            if not watch.cancelled:
                self._send(_exception(session, error))
                return not self._receiving
        if watch.disconnected:
            raise Disconnected
        self._send(packets.packet(ServerPacket.END_OF_STREAM))
        return True

    def _give_rows(self, session: ClientSession, prepared: Statement, query: Query) -> int:
        """Send a query's answer; return its rows."""
        rows = blocks = size = 0
        self._sent_progress = QueryProgress()
        for block in session.answer(prepared):
            if not blocks and block.names:
                # Clients read names and types from a block without rows.
                self._send_block(ServerPacket.DATA, NativeBlock(block.names, block.types), query.compressed)
            if block.rows:
                size += self._send_block(ServerPacket.DATA, block, query.compressed)
            rows, blocks = rows + block.rows, blocks + 1
        self._sent_progress = None
        if prepared.has_totals:
            self._send_totals_or_extremes(session, prepared, ServerPacket.TOTALS, query.compressed)
        if prepared.is_select and query.settings.get("extremes", _OFF).value not in ("0", "false"):
            self._send_totals_or_extremes(session, prepared, ServerPacket.EXTREMES, query.compressed)
        if blocks:
            self._send(packets.profile_info(rows, blocks, size))
        return rows

    def _send_totals_or_extremes(
        self, session: ClientSession, prepared: Statement, number: ServerPacket, compressed: bool
    ) -> None:
        block = session.totals_or_extremes(prepared, number.name.lower())
        if block is not None:
            self._send_block(number, block, compressed)

    def _take_rows(self, session: ClientSession, insert: Insert, compressed: bool) -> int:
        """Insert the client's rows; return their number, or 0 if the client cancels."""
        header = session.insert_header(insert)
        self._send_block(ServerPacket.DATA, header, compressed)
        self._receiving = True
        with session.insert_buffer() as buffer:
            while True:
                number = self._reader.varint()
                if number == ClientPacket.CANCEL:
                    self._receiving = False
                    return 0
                if number != ClientPacket.DATA:
                    raise ProtocolError(f"packet {number} where rows of an insert were expected")
                block = self._read_block(compressed)
                if not block.names:
                    self._receiving = False
                    break
                buffer.add(block)
                self._send_events()
            session.insert(insert, header, buffer)
            rows = buffer.rows
        self._send_events()
        return rows

    def _no_external_tables(self, compressed: bool) -> None:
        """Read the end of a query's external tables; ProtocolError if there are any."""
        self._receiving = True
        if self._reader.varint() != ClientPacket.DATA:
            raise ProtocolError("a query must be followed by the end of its external tables")
        if self._read_block(compressed).names:
            raise ProtocolError("this server accepts no external tables: insert into a temporary table")
        self._receiving = False

    def _read_block(self, compressed: bool) -> NativeBlock:
        self._reader.text()  # the name of an external table
        reader = self._reader
        window = BlockWindow((lambda: compression.unpack_frame(reader)) if compressed else reader.some)
        block, end = read_wire(window, self._revision)
        rest = bytes(window.data[end:])
        if rest and compressed:
            raise ProtocolError("a compressed frame contains data after its block")
        reader.put_back(rest)
        return block

    def _send_block(self, number: ServerPacket, block: NativeBlock, compressed: bool) -> int:
        plain = block.wire(self._revision)
        self._send(packets.data(number) + (compression.pack(plain) if compressed else plain))
        return len(plain)

    def _send_events(self) -> None:
        """Send an empty list of profile events: clients wait for one after each block that they send."""
        if self._revision >= packets.PROFILE_EVENTS_IN_INSERT:
            self._send(packets.data(ServerPacket.PROFILE_EVENTS) + _EVENTS.wire(self._revision))

    def _progress(self, sums: Mapping[str, int]) -> None:
        """Send the client the progress since the last packet; the engine calls this in the query's thread."""
        if self._sent_progress is None:
            return
        now = QueryProgress(
            sums["read_rows"], sums["read_bytes"], sums["total_rows_to_read"], sums["elapsed_ns"]
        )
        before, self._sent_progress = self._sent_progress, now
        since = QueryProgress(
            max(0, now.rows - before.rows),
            max(0, now.bytes - before.bytes),
            max(0, now.total_rows - before.total_rows),
            max(0, now.elapsed_ns - before.elapsed_ns),
        )
        with contextlib.suppress(OSError):  # sending the answer detects a disconnected client
            self._send(packets.progress(self._revision, since))

    def _send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def _send_last(self, data: bytes) -> None:
        """Send a final packet, which may fail to arrive."""
        with contextlib.suppress(OSError):
            self._sock.sendall(data)


_OFF = packets.Setting("0", important=False)


class _Watch:
    """Context manager that detects a Cancel or a disconnect of the client while the engine works.

    Until the answer is complete, a client can send nothing else.
    """

    def __init__(self, sock: socket.socket, reader: Reader, kill: Callable[[], None]) -> None:
        self._sock = sock
        self._reader = reader
        self._kill = kill
        self.cancelled = False
        self.disconnected = False

    def __enter__(self) -> _Watch:
        self._done, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._look, name="watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.send(b".")
        self._thread.join()
        self._done.close()
        self._stop.close()

    def _look(self) -> None:
        poll = select.poll()
        poll.register(self._done, select.POLLIN)
        poll.register(self._sock, select.POLLIN)
        while not (self.cancelled or self.disconnected):
            if not self._reader.buffered and not _pending(self._sock):
                ready = {handle for handle, _ in poll.poll()}
                if self._done.fileno() in ready:
                    return
            try:
                number = self._reader.varint()
                self.cancelled = number == ClientPacket.CANCEL
                self.disconnected = not self.cancelled
            except (Disconnected, ProtocolError, OSError):
                self.disconnected = True
        poll.unregister(self._sock)
        # The query may not have started in the engine yet, so repeat the kill until the query stops.
        self._kill()
        while not poll.poll(_KILL_AGAIN_MS):
            self._kill()


def _pending(sock: socket.socket) -> bool:
    return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0


def _exception(session: ClientSession, error: EngineError | Refusal | UnsupportedType) -> bytes:
    if isinstance(error, EngineError):
        error = session.refusal(error)
    if isinstance(error, Refusal):
        return packets.exception(error.code, error.message)
    return packets.exception(NOT_IMPLEMENTED, str(error))
