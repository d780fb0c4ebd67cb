"""clickhouse-driver, with blocks passed on as they are.

The driver keeps connection, handshake, compression, packets and settings. Only what lies inside a block is
not turned into Python objects: it goes to and from the local engine in the format `Native`, so that types
arrive exactly (the driver's datetimes end at microseconds) and a batch needs no loop over its values.
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

from store.protocol.blocks import Block, read_wire
from store.protocol.columns import Window
from store.protocol.wire import ProtocolError
from store.url import ServerPlace

# Servers send sparse columns, whose form only an engine can read, from 54465 on.
REVISION = 54464

# What the driver has to say comes as exceptions, too; and it logs queries.
logging.getLogger("clickhouse_driver").addHandler(logging.NullHandler())
logging.getLogger("clickhouse_driver").propagate = False


class _BlocksIn(CompressedBlockInputStream):  # type: ignore[misc]
    """Reads blocks without looking at their values."""

    def read(self, use_numpy: bool | None = None) -> Block:  # noqa: ARG002
        window = Window(self.read_block)
        block, end = read_wire(window, self.context.server_info.used_revision)
        if end != len(window.data):
            raise ProtocolError("a compressed piece holds more than its block")
        return block


class _BlocksOut(CompressedBlockOutputStream):  # type: ignore[misc]
    """Writes blocks whose values are encoded, and the driver's own."""

    def write(self, block: Any) -> None:
        if isinstance(block, Block):
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
    """The driver's client for questions and inserts by blocks. It raises the driver's own errors."""

    def __init__(self, place: ServerPlace, database: str) -> None:
        """Connects when it is first used. `database` may be empty: the user's own."""
        options: dict[str, Any] = {
            "host": place.host,
            "port": place.port,
            "database": database,
            "user": place.user,
            "password": place.password,
            "client_name": "firstflight",
            "secure": place.secure,
            "verify": place.verify,
            "ca_certs": place.ca_certs,
            "compression": place.compression,
            "connect_timeout": place.connect_timeout,
            "send_receive_timeout": place.send_receive_timeout,
            "sync_request_timeout": min(place.send_receive_timeout, 5),
            "client_revision": REVISION,
            "tcp_keepalive": True,
        }
        super().__init__(**options, settings={"server_side_params": True})
        # The one that the driver made was never connected.
        self.connection: _Connection = _Connection(**options)
        self.make_query_settings({})

    def ask(self, sql: str, parameters: Mapping[str, str], settings: Mapping[str, object]) -> list[Block]:
        """The blocks of an answer, the first with names and types if it has columns at all."""
        blocks: list[Block] = []
        with self.disconnect_on_error(sql, dict(settings)):
            self.connection.send_query(sql, params=dict(parameters))
            self.connection.send_external_tables(None)
            for packet in self.packet_generator():
                if packet.type == ServerPacketTypes.DATA and packet.block.names:
                    blocks.append(packet.block)
        return blocks

    def insert(
        self, sql: str, encode: Callable[[Block], list[Block]], settings: Mapping[str, object]
    ) -> None:
        """`INSERT INTO ... VALUES`: `encode` gives the blocks, for the columns that the server expects."""
        with self.disconnect_on_error(sql, dict(settings)):
            self.connection.send_query(sql)
            self.connection.send_external_tables(None)
            for block in encode(self.receive_sample_block()):
                self.connection.send_data(block)
                self.receive_profile_events()
            self.connection.send_data(RowOrientedBlock())
            self.receive_profile_events()
            self.receive_end_of_insert_query()
