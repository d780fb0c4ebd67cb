"""One connection of a client: its packets, in the order that the protocol wants."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from types import TracebackType

from store.clickhouse.session import Session, refusal
from store.engine import EngineError
from store.protocol import compression, packets
from store.protocol.blocks import Block, read_wire
from store.protocol.columns import UnsupportedType, Window
from store.protocol.packets import Client, Hello, Progress, Query, Server
from store.protocol.refusal import NOT_IMPLEMENTED, Refusal
from store.protocol.wire import Disconnected, ProtocolError, Reader
from store.statements.statement import Insert, Statement

UNEXPECTED_PACKET = 101
LOGICAL_ERROR = 49
HELLO_S = 10.0
_KILL_AGAIN_MS = 50

_EVENTS = Block(
    ["host_name", "current_time", "thread_id", "type", "name", "value"],
    ["String", "DateTime", "UInt64", "Enum8('increment' = 1, 'gauge' = 2)", "String", "Int64"],
)


_log = logging.getLogger(__name__)


class Connection:
    """A client's connection, served by `run` in a thread of its own until it ends."""

    def __init__(
        self,
        sock: socket.socket,
        opened: Callable[[Hello], Session],
        kill: Callable[[], None],
        version: tuple[int, int, int],
        timezone: str,
    ) -> None:
        """`opened` checks who calls and gives a session, or raises Refusal; `kill` ends its running query."""
        self._sock = sock
        self._reader = Reader(sock.recv)
        self._opened = opened
        self._kill = kill
        self._version = version
        self._timezone = timezone
        self._revision = 0
        self._session: Session | None = None
        # Whether rows of an insert are on their way, which would be taken for packets after an error.
        self._receiving = False
        # What the client was told of a running query's progress; None while it does not expect to be told.
        self._told: Progress | None = None

    def run(self) -> None:
        """Serve until the client goes, or says what cannot be understood."""
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
        except Exception as error:  # one client's fault, or ours, is not the others'
            _log.error("firstflight: a client was sent away: %r", error)
            self._send_last(packets.exception(LOGICAL_ERROR, repr(error)))
        finally:
            if self._session is not None:
                self._session.close()
            self.end()
            self._sock.close()

    def end(self) -> None:
        """Break the connection, also from another thread; its own closes the socket."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def _greet(self) -> Session | None:
        self._sock.settimeout(HELLO_S)
        if self._reader.varint() != Client.HELLO:
            raise ProtocolError("the first packet of a client is a hello")
        hello = packets.read_hello(self._reader)
        self._revision = min(hello.revision, packets.REVISION)
        if hello.revision < packets.OLDEST:
            raise ProtocolError(f"revision {hello.revision} of the client is older than {packets.OLDEST}")
        try:
            session = self._session = self._opened(hello)
        except Refusal as error:
            self._send_last(packets.exception(error.code, error.message))
            return None
        self._send(packets.hello(self._revision, self._version, self._timezone, socket.gethostname()))
        packets.read_addendum(self._reader, self._revision)
        self._sock.settimeout(None)
        return session

    def _serve_one(self, session: Session) -> bool:
        """Serve the next packet; False if the connection is of no more use."""
        number = self._reader.varint()
        if number == Client.PING:
            self._send(packets.packet(Server.PONG))
        elif number == Client.QUERY:
            return self._serve_query(session, packets.read_query(self._reader, self._revision))
        elif number != Client.CANCEL:  # one that came when its query had ended
            raise ProtocolError(f"packet {number} where a query was expected")
        return True

    def _serve_query(self, session: Session, query: Query) -> bool:
        self._told = None
        watch = _Watch(self._sock, self._reader, self._kill)
        try:
            self._no_external_tables(query.compressed)
            asked = session.prepare(query)
            insert = asked.insert
            if insert is not None:
                self._take_rows(session, insert, query.compressed)
            else:
                with watch:
                    self._give_rows(session, asked, query)
        except (EngineError, Refusal, UnsupportedType) as error:
            if watch.gone:
                raise Disconnected from error
            if not watch.cancelled:
                self._send(_exception(error))
                return not self._receiving
        if watch.gone:
            raise Disconnected
        self._send(packets.packet(Server.END_OF_STREAM))
        return True

    def _give_rows(self, session: Session, asked: Statement, query: Query) -> None:
        rows = blocks = size = 0
        self._told = Progress()
        for block in session.answer(asked):
            if not blocks and block.names:
                # Clients take names and types from a block without rows.
                self._send_block(Server.DATA, Block(block.names, block.types), query.compressed)
            if block.rows:
                size += self._send_block(Server.DATA, block, query.compressed)
            rows, blocks = rows + block.rows, blocks + 1
        self._told = None
        if asked.has_totals:
            self._send_beside(session, asked, Server.TOTALS, query.compressed)
        if asked.is_select and query.settings.get("extremes", _OFF).value not in ("0", "false"):
            self._send_beside(session, asked, Server.EXTREMES, query.compressed)
        if blocks:
            self._send(packets.profile_info(rows, blocks, size))

    def _send_beside(self, session: Session, asked: Statement, number: Server, compressed: bool) -> None:
        block = session.beside(asked, number.name.lower())
        if block is not None:
            self._send_block(number, block, compressed)

    def _take_rows(self, session: Session, insert: Insert, compressed: bool) -> None:
        header = session.insert_header(insert)
        self._send_block(Server.DATA, header, compressed)
        self._receiving = True
        with session.spool() as spool:
            while True:
                number = self._reader.varint()
                if number == Client.CANCEL:
                    self._receiving = False
                    return
                if number != Client.DATA:
                    raise ProtocolError(f"packet {number} where rows of an insert were expected")
                block = self._read_block(compressed)
                if not block.names:
                    self._receiving = False
                    break
                spool.add(block)
                self._send_events()
            session.insert(insert, header, spool)
        self._send_events()

    def _no_external_tables(self, compressed: bool) -> None:
        """Read the block that ends the external tables of a query, of which there may be none."""
        self._receiving = True
        if self._reader.varint() != Client.DATA:
            raise ProtocolError("a query is followed by the end of its external tables")
        if self._read_block(compressed).names:
            raise ProtocolError("this server takes no external tables: insert into a temporary one")
        self._receiving = False

    def _read_block(self, compressed: bool) -> Block:
        self._reader.text()  # the name of an external table
        reader = self._reader
        window = Window((lambda: compression.unpack_piece(reader)) if compressed else reader.some)
        block, end = read_wire(window, self._revision)
        rest = bytes(window.data[end:])
        if rest and compressed:
            raise ProtocolError("a compressed piece holds more than its block")
        reader.put_back(rest)
        return block

    def _send_block(self, number: Server, block: Block, compressed: bool) -> int:
        plain = block.wire(self._revision)
        self._send(packets.data(number) + (compression.pack(plain) if compressed else plain))
        return len(plain)

    def _send_events(self) -> None:
        """Events of the engine: none, but clients wait for them after each block that they send."""
        if self._revision >= packets.PROFILE_EVENTS_IN_INSERT:
            self._send(packets.data(Server.PROFILE_EVENTS) + _EVENTS.wire(self._revision))

    def _progress(self, sums: Mapping[str, int]) -> None:
        """Tell the client what was read since the last time; the engine calls it in the query's thread."""
        if self._told is None:
            return
        now = Progress(sums["read_rows"], sums["read_bytes"], sums["total_rows_to_read"], sums["elapsed_ns"])
        before, self._told = self._told, now
        made = Progress(
            max(0, now.rows - before.rows),
            max(0, now.bytes - before.bytes),
            max(0, now.total_rows - before.total_rows),
            max(0, now.elapsed_ns - before.elapsed_ns),
        )
        with contextlib.suppress(OSError):  # who has gone is noticed where the answer is sent
            self._send(packets.progress(self._revision, made))

    def _send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def _send_last(self, data: bytes) -> None:
        """Send what may not arrive any more."""
        with contextlib.suppress(OSError):
            self._sock.sendall(data)


_OFF = packets.Setting("0", important=False)


class _Watch:
    """Looks for a Cancel of the client, or its end, while the engine works; `with` it around the work.

    Until the answer is complete, nothing else can come from the client.
    """

    def __init__(self, sock: socket.socket, reader: Reader, kill: Callable[[], None]) -> None:
        self._sock = sock
        self._reader = reader
        self._kill = kill
        self.cancelled = False
        self.gone = False

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
        while not (self.cancelled or self.gone):
            if not self._reader.buffered and not _pending(self._sock):
                ready = {handle for handle, _ in poll.poll()}
                if self._done.fileno() in ready:
                    return
            try:
                number = self._reader.varint()
                self.cancelled = number == Client.CANCEL
                self.gone = not self.cancelled
            except (Disconnected, ProtocolError, OSError):
                self.gone = True
        poll.unregister(self._sock)
        # The query may not have begun in the engine yet: until it has ended, end it.
        self._kill()
        while not poll.poll(_KILL_AGAIN_MS):
            self._kill()


def _pending(sock: socket.socket) -> bool:
    return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0


def _exception(error: EngineError | Refusal | UnsupportedType) -> bytes:
    if isinstance(error, EngineError):
        error = refusal(error)
    if isinstance(error, Refusal):
        return packets.exception(error.code, error.message)
    return packets.exception(NOT_IMPLEMENTED, str(error))
