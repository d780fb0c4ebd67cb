"""Reads the records of MRT dumps (RFC 6396) from BIRD, and changes their time."""

from __future__ import annotations

from collections.abc import Iterator

from firstflight.errors import InputError

HEADER_BYTES = 12
TABLE_DUMP_V2 = 13
PEER_INDEX_TABLE = 1
RIB_IPV4_UNICAST = 2
RIB_IPV6_UNICAST = 4


def records(dump: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield (offset of header, type, subtype, bytes of body) per record; InputError if truncated."""
    offset = 0
    while offset < len(dump):
        if offset + HEADER_BYTES > len(dump):
            raise InputError(f"MRT dump is truncated in a record header at byte {offset}; write it again")
        kind = int.from_bytes(dump[offset + 4 : offset + 6])
        subtype = int.from_bytes(dump[offset + 6 : offset + 8])
        length = int.from_bytes(dump[offset + 8 : offset + 12])
        if offset + HEADER_BYTES + length > len(dump):
            raise InputError(f"MRT dump is truncated in the record at byte {offset}; write it again")
        yield offset, kind, subtype, length
        offset += HEADER_BYTES + length


def count_prefixes(dump: bytes) -> int:
    """Count the prefixes (RIB records of either family) in a TABLE_DUMP_V2; InputError for other dumps."""
    prefixes = 0
    for offset, kind, subtype, _ in records(dump):
        if kind != TABLE_DUMP_V2 or (offset == 0) != (subtype == PEER_INDEX_TABLE):
            raise InputError(f"not a TABLE_DUMP_V2: record type {kind}.{subtype} at byte {offset}")
        prefixes += subtype in (RIB_IPV4_UNICAST, RIB_IPV6_UNICAST)
    return prefixes


def retimed(dump: bytes, timestamp: int) -> bytes:
    """Return the same table as if written at `timestamp` (seconds, UTC).

    Changes the time of the record headers. The originated time of an entry (RFC 6396 4.3.4), when a route was
    learned, is only capped at the dump's time, so that no route is younger than its table.
    """
    changed = bytearray(dump)
    for offset, _, subtype, length in records(dump):
        changed[offset : offset + 4] = timestamp.to_bytes(4)
        if subtype in (RIB_IPV4_UNICAST, RIB_IPV6_UNICAST):
            for originated in _originated_times(dump, offset + HEADER_BYTES, length):
                if int.from_bytes(dump[originated : originated + 4]) > timestamp:
                    changed[originated : originated + 4] = timestamp.to_bytes(4)
    return bytes(changed)


def _originated_times(dump: bytes, body: int, length: int) -> Iterator[int]:
    """Yield offsets of the 4-byte originated times in a RIB record with its body at `body`."""
    prefix_bytes = (dump[body + 4] + 7) // 8  # after the 4-byte sequence number: prefix length in bits
    offset = body + 5 + prefix_bytes + 2  # then the prefix and the entry count
    while offset < body + length:
        yield offset + 2  # after the peer index
        offset += 8 + int.from_bytes(dump[offset + 6 : offset + 8])
