"""The packets of ClickHouse's native protocol that a server reads and writes.

The fields and their order depend on the shared protocol revision, the lower one of both sides. docs/store.md
lists the unsupported parts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum

from store.protocol.wire import ProtocolError, Reader, text, varint

# The revision of clickhouse-driver 0.2.11; a newer client falls back to it.
REVISION = 54468
# Below this revision, settings are binary, each with its own type.
OLDEST = 54429

_QUOTA_KEY = 54060
_TIMEZONE = 54058
_DISPLAY_NAME = 54372
_VERSION_PATCH = 54401
_WRITE_INFO = 54420
_INTERSERVER_SECRET = 54441
_OPENTELEMETRY = 54442
_DISTRIBUTED_DEPTH = 54448
_QUERY_START_TIME = 54449
_PARALLEL_REPLICAS = 54453
PROFILE_EVENTS_IN_INSERT = 54456
_ADDENDUM = 54458
PARAMETERS = 54459
_ELAPSED = 54460
_PASSWORD_RULES = 54461
_NONCE = 54462
_TOTAL_BYTES = 54463

_MAX_QUERY = 1 << 24
_MAX_NAME = 4096  # of users, databases, settings
_MAX_SETTINGS = 1000
_TCP = 1
_IMPORTANT = 1


class ClientPacket(IntEnum):
    """Packets of the client."""

    HELLO = 0
    QUERY = 1
    DATA = 2
    CANCEL = 3
    PING = 4


class ServerPacket(IntEnum):
    """Packets of the server."""

    HELLO = 0
    DATA = 1
    EXCEPTION = 2
    PROGRESS = 3
    PONG = 4
    END_OF_STREAM = 5
    PROFILE_INFO = 6
    TOTALS = 7
    EXTREMES = 8
    PROFILE_EVENTS = 14


@dataclass(frozen=True)
class Hello:
    """A client's hello: user and password, revision, database."""

    client: str
    revision: int
    database: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Setting:
    """A setting for a query; an unknown one is an error only if `important`."""

    value: str
    important: bool


@dataclass(frozen=True)
class Query:
    """A query with the settings; `parameters` maps names to quoted literals."""

    text: str
    settings: dict[str, Setting]
    parameters: dict[str, str]
    compressed: bool


@dataclass
class QueryProgress:
    """Rows and bytes that a query has read, in all or since the last progress packet."""

    rows: int = 0
    bytes: int = 0
    total_rows: int = 0
    elapsed_ns: int = 0


def read_hello(reader: Reader) -> Hello:
    """Read a connection's first packet, without the number."""
    client = reader.text(_MAX_NAME)
    reader.varint()  # major and minor version
    reader.varint()
    revision = reader.varint()
    database, user, password = (reader.text(_MAX_NAME) for _ in range(3))
    return Hello(client, revision, database, user, password)


def hello(revision: int, version: tuple[int, int, int], timezone: str, display_name: str) -> bytes:
    """Return the answer to a hello, in the shared revision."""
    parts = [varint(ServerPacket.HELLO), text("ClickHouse"), *map(varint, version[:2]), varint(REVISION)]
    if revision >= _TIMEZONE:
        parts.append(text(timezone))
    if revision >= _DISPLAY_NAME:
        parts.append(text(display_name))
    if revision >= _VERSION_PATCH:
        parts.append(varint(version[2]))
    if revision >= _PASSWORD_RULES:
        parts.append(varint(0))
    if revision >= _NONCE:
        parts.append(bytes(8))
    return b"".join(parts)


def read_addendum(reader: Reader, revision: int) -> None:
    """Read the quota key, which a client sends after the server's hello."""
    if revision >= _ADDENDUM:
        reader.text(_MAX_NAME)


def read_query(reader: Reader, revision: int) -> Query:
    """Read a query, without the packet number."""
    reader.text()  # query id: the engine assigns its own
    _skip_client_info(reader, revision)
    settings = _read_settings(reader)
    if revision >= _INTERSERVER_SECRET:
        reader.text()
    reader.varint()  # stage: always complete, because no other server takes part
    compressed = reader.varint() != 0
    query = reader.text(_MAX_QUERY)
    parameters = _read_settings(reader) if revision >= PARAMETERS else {}
    return Query(query, settings, {name: given.value for name, given in parameters.items()}, compressed)


def _skip_client_info(reader: Reader, revision: int) -> None:
    if not reader.byte():
        return
    for _ in range(3):  # initial user, query id and address
        reader.text()
    if revision >= _QUERY_START_TIME:
        reader.take(8)
    if reader.byte() != _TCP:
        raise ProtocolError("a query names another interface than TCP")
    for _ in range(3):  # operating system user, host name, program
        reader.text()
    for _ in range(3):  # version and revision
        reader.varint()
    if revision >= _QUOTA_KEY:
        reader.text()
    if revision >= _DISTRIBUTED_DEPTH:
        reader.varint()
    if revision >= _VERSION_PATCH:
        reader.varint()
    if revision >= _OPENTELEMETRY and reader.byte():
        reader.take(24)  # trace and span
        reader.text()
        reader.byte()
    if revision >= _PARALLEL_REPLICAS:
        for _ in range(3):
            reader.varint()


def _read_settings(reader: Reader) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    while name := reader.text(_MAX_NAME):
        if len(settings) >= _MAX_SETTINGS:
            raise ProtocolError(f"a query has more than {_MAX_SETTINGS} settings")
        flags = reader.varint()
        settings[name] = Setting(reader.text(_MAX_QUERY), bool(flags & _IMPORTANT))
    return settings


def exception(code: int, message: str) -> bytes:
    """Return an exception packet with the engine's code and message."""
    return b"".join(
        [
            varint(ServerPacket.EXCEPTION),
            struct.pack("<i", code),
            text("DB::Exception"),
            text(f"DB::Exception: {message}"),
            text(""),  # no stack trace
            b"\x00",  # no nested exception
        ]
    )


def progress(revision: int, made: QueryProgress) -> bytes:
    """Return a packet with the progress since the last one."""
    parts = [varint(ServerPacket.PROGRESS), varint(made.rows), varint(made.bytes), varint(made.total_rows)]
    if revision >= _TOTAL_BYTES:
        parts.append(varint(0))
    if revision >= _WRITE_INFO:
        parts += [varint(0), varint(0)]
    if revision >= _ELAPSED:
        parts.append(varint(made.elapsed_ns))
    return b"".join(parts)


def profile_info(rows: int, blocks: int, size: int) -> bytes:
    """Return a packet with the size of the answer, without the number of rows before a LIMIT."""
    return b"".join([varint(ServerPacket.PROFILE_INFO), *map(varint, (rows, blocks, size)), bytes(3)])


def packet(number: ServerPacket) -> bytes:
    """Return a packet without content."""
    return varint(number)


def data(number: ServerPacket) -> bytes:
    """Return the header for a packet with a block: its number, and an empty name of a temporary table."""
    return varint(number) + text("")
