"""Routing tables: MRT dumps (RFC 6396) -> prefix and origin AS, as a pyasn text database.

This module reads the framing of records, so that errors name an offset; pyasn.mrtx parses their content. The
rules for origins are pyasn's:

- of the routes to a prefix, the record's first one counts (that of the RIB's first peer);
- the origin is the last AS of the path; reserved and private numbers (64496 to 131071, from 1,000,000 on)
  are skipped in favour of the one before;
- a path that ends in an AS_SET has several origins; pyasn takes any of them, this module the smallest, so
  that the same table always gives the same result (`as_sets` counts them);
- prefixes without a usable origin (empty path) are omitted (`no_origin`), and so are default routes;
- of a prefix that occurs twice, in one table or in two, the first counts (`repeated`).
"""

from __future__ import annotations

import bz2
import gzip
import io
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, NamedTuple, cast

from pyasn.mrtx import BgpAttribute, MrtRecord

from firstflight.errors import InputError, UsageError

# RFC 6396 2: timestamp, type, subtype, length of the body.
_HEADER = struct.Struct(">IHHI")
TABLE_DUMP = 12
TABLE_DUMP_V2 = 13
PEER_INDEX_TABLE = 1
_RIB_SUBTYPES = {TABLE_DUMP: (1, 2), TABLE_DUMP_V2: (2, 4)}  # unicast, IPv4 and IPv6
# Far above any record of a real table; a larger length means that the file is damaged or not MRT.
MAX_RECORD_BYTES = 1 << 26
# A full table has a million records; a compressed file of some megabytes could hold billions.
MAX_RECORDS = 20_000_000
_DEFAULT_ROUTES = frozenset({"0.0.0.0/0", "::/0"})
# Exceptions of pyasn for content that does not parse.
_PARSE_ERRORS = (AssertionError, IndexError, struct.error, ValueError, OSError)


class Record(NamedTuple):
    """One MRT record: offset of its header in the (decompressed) file, and its bytes, with the header."""

    offset: int
    timestamp: int
    type: int
    subtype: int
    data: bytes


@dataclass
class RoutingTable:
    """Origins by prefix, and counts: every RIB record is in `origins` or in one of the counts."""

    origins: dict[str, int] = field(default_factory=dict)
    dumped_at: datetime | None = None  # of the first record
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def prefixes_v6(self) -> int:
        """The number of IPv6 prefixes."""
        return sum(":" in prefix for prefix in self.origins)


def read(path: Path, table: RoutingTable) -> None:
    """Add the routes of the MRT file at `path` (plain, bz2 or gz) to `table`.

    UsageError if the file cannot be opened. InputError naming file and offset if it is truncated, damaged or
    no table dump; then `table` must not be used, because a partial table would give wrong origins.
    """
    try:
        with path.open("rb") as raw, _decompressed(raw) as stream:
            seen = 0
            for record in _records(stream, path):
                seen += 1
                if seen > MAX_RECORDS:
                    raise InputError(f"{path} has more than {MAX_RECORDS} records: it is no routing table")
                if table.dumped_at is None:
                    table.dumped_at = datetime.fromtimestamp(record.timestamp, UTC)
                _add(table, record, path)
    except OSError as error:
        raise UsageError(f"cannot read the routing table {path}: {error.strerror or error}") from error
    if seen == 0:
        raise InputError(f"the routing table {path} is empty")


def write(table: RoutingTable, path: Path, source: str) -> None:
    """Write the table as a pyasn text database: comment lines with `;`, then PREFIX, tab, AS number."""
    with path.open("w", encoding="ascii", errors="replace") as out:
        out.write(f"; IP-ASN32-DAT file\n; source: {source}\n; prefixes: {len(table.origins)}\n")
        for prefix, origin in table.origins.items():
            out.write(f"{prefix}\t{origin}\n")


def _records(stream: IO[bytes], path: Path) -> Iterator[Record]:
    offset = 0
    while header := _exactly(stream, _HEADER.size, offset, offset, path):
        timestamp, kind, subtype, length = _HEADER.unpack(header)
        if length > MAX_RECORD_BYTES or kind not in _RIB_SUBTYPES:
            what = "this is BGP traffic, not a table" if kind in (16, 17) else "is it a RIB?"
            raise InputError(
                f"{path} is not an MRT table dump: at byte {offset} is a record of type {kind}.{subtype} "
                f"and {length} bytes; {what}"
            )
        body = _exactly(stream, length, offset, offset + _HEADER.size, path)
        if length and not body:
            raise _cut(path, offset, offset + _HEADER.size)
        yield Record(offset, timestamp, kind, subtype, header + body)
        offset += _HEADER.size + length


def _exactly(stream: IO[bytes], wanted: int, record_at: int, at: int, path: Path) -> bytes:
    """Read `wanted` bytes, or none at the end of the file; InputError for a partial read or damage."""
    try:
        data = stream.read(wanted)
    except EOFError as error:  # the compressed stream is truncated
        raise _cut(path, record_at, at) from error
    except (OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(
            f"the routing table {path} is damaged after byte {at}: {error}; fetch it again"
        ) from error
    if data and len(data) < wanted:
        raise _cut(path, record_at, at + len(data))
    return data


def _cut(path: Path, record_at: int, at: int) -> InputError:
    if at < _HEADER.size:
        return InputError(f"{path} is not an MRT table dump: it ends after {at} bytes; is it a RIB?")
    return InputError(
        f"the routing table {path} is cut short: it ends after byte {at} (decompressed), within the record "
        f"that starts at byte {record_at}; a part of a table gives wrong origins, so none of it is used: "
        "fetch it again"
    )


def _add(table: RoutingTable, record: Record, path: Path) -> None:
    if record.type == TABLE_DUMP_V2 and record.subtype == PEER_INDEX_TABLE:
        return
    if record.subtype not in _RIB_SUBTYPES[record.type]:
        # Multicast, generic, and additional paths (RFC 8050): not the unicast best routes of a peer.
        table.counts[f"skipped_type_{record.type}_{record.subtype}"] += 1
        return
    table.counts["records"] += 1
    try:
        parsed = MrtRecord.next_dump_table_record(io.BytesIO(record.data))
        prefix = str(parsed.prefix)
        attributes = parsed.detail.attrs if record.type == TABLE_DUMP else parsed.detail.entries[0].attrs
        paths = [attr.path_detail() for attr in attributes if attr.bgp_type == BgpAttribute.ATTR_AS_PATH]
    except _PARSE_ERRORS as error:
        raise InputError(
            f"the routing table {path} has a record at byte {record.offset} that cannot be parsed "
            f"(type {record.type}.{record.subtype}): {error or type(error).__name__}; fetch it again"
        ) from error
    if prefix in _DEFAULT_ROUTES:
        table.counts["default_routes"] += 1
    elif prefix in table.origins:
        table.counts["repeated"] += 1
    else:
        try:
            origin = paths[0].get_origin_as()
        except (AssertionError, IndexError):
            table.counts["no_origin"] += 1
            return
        if isinstance(origin, set):
            table.counts["as_sets"] += 1
            origin = min(origin)
        table.origins[prefix] = origin


@contextmanager
def _decompressed(raw: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield the stream, decompressed according to its first bytes."""
    magic = raw.read(3)
    raw.seek(0)
    if magic == b"BZh":
        with bz2.open(raw, "rb") as stream:
            yield stream
    elif magic[:2] == b"\x1f\x8b":
        with gzip.open(raw, "rb") as stream:
            yield cast(IO[bytes], stream)
    else:
        yield raw
