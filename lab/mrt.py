"""MRT dumps (RFC 6396) that BIRD wrote: walks their records and changes their time."""

from __future__ import annotations

from collections.abc import Iterator

from firstflight.errors import InputError

HEADER_BYTES = 12
TABLE_DUMP_V2 = 13
PEER_INDEX_TABLE = 1
RIB_IPV4_UNICAST = 2
RIB_IPV6_UNICAST = 4


def records(dump: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield (offset of header, type, subtype, bytes of body) per record; InputError if cut off."""
    at = 0
    while at < len(dump):
        if at + HEADER_BYTES > len(dump):
            raise InputError(f"MRT dump ends within a record header at byte {at}; write it again")
        kind = int.from_bytes(dump[at + 4 : at + 6])
        subtype = int.from_bytes(dump[at + 6 : at + 8])
        length = int.from_bytes(dump[at + 8 : at + 12])
        if at + HEADER_BYTES + length > len(dump):
            raise InputError(f"MRT dump ends within the record at byte {at}; write it again")
        yield at, kind, subtype, length
        at += HEADER_BYTES + length


def count_prefixes(dump: bytes) -> int:
    """Count the prefixes (RIB records of either family) of a TABLE_DUMP_V2; InputError if it is none."""
    prefixes = 0
    for at, kind, subtype, _ in records(dump):
        if kind != TABLE_DUMP_V2 or (at == 0) != (subtype == PEER_INDEX_TABLE):
            raise InputError(f"not a TABLE_DUMP_V2: record type {kind}.{subtype} at byte {at}")
        prefixes += subtype in (RIB_IPV4_UNICAST, RIB_IPV6_UNICAST)
    return prefixes


def retimed(dump: bytes, timestamp: int) -> bytes:
    """Return the same table as if written at `timestamp` (seconds, UTC).

    Changes the time of the record headers; the entries' originated time (RFC 6396 4.3.4), at which a route
    was learned, is only capped at the dump's time, so that no route is younger than its table.
    """
    out = bytearray(dump)
    for at, _, subtype, length in records(dump):
        out[at : at + 4] = timestamp.to_bytes(4)
        if subtype in (RIB_IPV4_UNICAST, RIB_IPV6_UNICAST):
            for originated in _originated_times(dump, at + HEADER_BYTES, length):
                if int.from_bytes(dump[originated : originated + 4]) > timestamp:
                    out[originated : originated + 4] = timestamp.to_bytes(4)
    return bytes(out)


def _originated_times(dump: bytes, body: int, length: int) -> Iterator[int]:
    """Yield offsets of the 4-byte originated times in one RIB record whose body starts at `body`."""
    prefix_bytes = (dump[body + 4] + 7) // 8  # after the 4-byte sequence number: prefix length in bits
    at = body + 5 + prefix_bytes + 2  # then the prefix and the entry count
    while at < body + length:
        yield at + 2  # after the peer index
        at += 8 + int.from_bytes(dump[at + 6 : at + 8])
