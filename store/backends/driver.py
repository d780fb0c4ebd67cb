"""clickhouse-driver, with blocks passed on undecoded.

The driver handles connection, handshake, compression, packets and settings. A block's content is not
converted to Python objects: it passes to and from the local engine in the format `Native`. This keeps types
exact (the driver's datetimes have only microseconds), and a batch needs no loop over its values.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from clickhouse_driver import Client
from clickhouse_driver.block import RowOrientedBlock
from clickhouse_driver.connection import Connection
from clickhouse_driver.protocol import ServerPacketTypes
from clickhouse_driver.streams.compressed import CompressedBlockInputStream, CompressedBlockOutputStream

from store.address.url import ServerLocation
from store.protocol.blocks import NativeBlock, read_wire
from store.protocol.columns import BlockWindow
from store.protocol.wire import ProtocolError

# From 54465 on, servers send sparse columns, which only an engine can decode.
REVISION = 54464

# The driver also raises every error that it logs, and its log contains queries.
logging.getLogger("clickhouse_driver").addHandler(logging.NullHandler())
logging.getLogger("clickhouse_driver").propagate = False


class _BlocksIn(CompressedBlockInputStream):  # type: ignore[misc]
    """Reads blocks without decoding their values."""

    def read(self, use_numpy: bool | None = None) -> NativeBlock:  # noqa: ARG002
        window = BlockWindow(self.read_block)
        block, end = read_wire(window, self.context.server_info.used_revision)
        if end != len(window.data):
            raise ProtocolError("a compressed frame contains data after its block")
        return block


class _BlocksOut(CompressedBlockOutputStream):  # type: ignore[misc]
    """Writes blocks with encoded values, and the driver's own blocks."""

    def write(self, block: Any) -> None:
        if isinstance(block, NativeBlock):
            self.fout.write(block.wire(self.context.server_info.used_revision))
            self.finalize()
        else:
            super().write(block)


class _Connection(Connection):  # type: ignore[misc]
    def get_block_in_stream(self) -> _BlocksIn:
        return _BlocksIn(self.fin, self.context)

    def get_block_out_stream(self) -> _BlocksOut:
        return _BlocksOut(self.compressor_cls, self.compress_block_size, self.fout, self.context)


class BlockClient(Client):  # type: ignore[misc]
    """The driver's client, for queries and inserts by blocks. It raises the driver's errors."""

    def __init__(self, location: ServerLocation, database: str) -> None:
        """Prepare a client, which connects on first use. An empty `database` means the user's default."""
        options: dict[str, Any] = {
            "host": location.host,
            "port": location.port,
            "database": database,
            "user": location.user,
            "password": location.password,
            "client_name": "firstflight",
            "secure": location.secure,
            "verify": location.verify,
            "ca_certs": location.ca_certs,
            "compression": location.compression,
            "connect_timeout": location.connect_timeout,
            "send_receive_timeout": location.send_receive_timeout,
            "sync_request_timeout": min(location.send_receive_timeout, 5),
            "client_revision": REVISION,
            "tcp_keepalive": True,
        }
        super().__init__(**options, settings={"server_side_params": True})
        # Replaces the driver's own connection, which was never established.
        self.connection: _Connection = _Connection(**options)
        self.make_query_settings({})

    def ask(
        self, sql: str, parameters: Mapping[str, str], settings: Mapping[str, object]
    ) -> list[NativeBlock]:
        """Return an answer's blocks; the first has names and types if the answer has columns."""
        blocks: list[NativeBlock] = []
        with self.disconnect_on_error(sql, dict(settings)):
            self.connection.send_query(sql, params=dict(parameters))
            self.connection.send_external_tables(None)
            for packet in self.packet_generator():
                if packet.type == ServerPacketTypes.DATA and packet.block.names:
                    blocks.append(packet.block)
        return blocks

    def insert(
        self, sql: str, encode: Callable[[NativeBlock], list[NativeBlock]], settings: Mapping[str, object]
    ) -> None:
        """Run `INSERT INTO ... VALUES`; `encode` returns the blocks for the columns the server expects."""
        with self.disconnect_on_error(sql, dict(settings)):
            self.connection.send_query(sql)
            self.connection.send_external_tables(None)
            for block in encode(self.receive_sample_block()):
                self.connection.send_data(block)
                self.receive_profile_events()
            self.connection.send_data(RowOrientedBlock())
            self.receive_profile_events()
            self.receive_end_of_insert_query()
