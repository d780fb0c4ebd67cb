"""Retry packets of the lab's aioquic server (RFC 9000, 8.1.2)."""

from __future__ import annotations

import os

from aioquic.quic.connection import NetworkAddress
from aioquic.quic.packet import QuicHeader, encode_quic_retry
from aioquic.quic.retry import QuicRetryTokenHandler

from lab.stacks.aioquic.held import ConnectionIds

_CID_BYTES = 8


class Retries:
    """Answers first Initials with a Retry, and recognizes the tokens that clients return."""

    def __init__(self) -> None:
        self._tokens = QuicRetryTokenHandler()

    def packet(self, header: QuicHeader, addr: NetworkAddress, now: float) -> bytes:
        """Return the Retry for a client's Initial; `now` is the loop's time in seconds."""
        assert header.version is not None
        source_cid = os.urandom(_CID_BYTES)
        token = self._tokens.create_token(
            address=addr,
            original_destination_connection_id=header.destination_cid,
            retry_source_connection_id=source_cid,
            now=now,
        )
        return encode_quic_retry(
            version=header.version,
            source_cid=source_cid,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=token,
        )

    def ids(self, header: QuicHeader, addr: NetworkAddress, now: float) -> ConnectionIds | None:
        """Return the connection IDs that an Initial's token proves; `None` without a valid token."""
        if not header.token:
            return None
        try:
            original = self._tokens.validate_token(
                address=addr, destination_cid=header.destination_cid, token=header.token, now=now
            )
        except ValueError:
            return None
        return ConnectionIds(original, header.destination_cid)
