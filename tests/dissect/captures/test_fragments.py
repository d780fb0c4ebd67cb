"""IP fragments, in any order, compared with the same complete datagrams."""

from __future__ import annotations

import ipaddress
import struct
from pathlib import Path

import pytest

from tests.dissect import build as b
from tests.dissect.conftest import dissect, rows


def udp(payload: bytes) -> bytes:
    """Return a UDP datagram from the client's port to the server's."""
    return struct.pack("!HHHH", b.CLIENT[1], b.SERVER[1], 8 + len(payload), 0) + payload


def fragments(family: int, payload: bytes, size: int) -> list[bytes]:
    """Return IP packets with pieces of `payload`."""
    found = []
    for at in range(0, len(payload), size):
        piece, more = payload[at : at + size], at + size < len(payload)
        if family == 4:
            addresses = b"".join(ipaddress.ip_address(end[0]).packed for end in (b.CLIENT, b.SERVER))
            place = at // 8 | (0x2000 if more else 0)
            head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(piece), 7, place, 64, 17, 0)
            found.append(head + addresses + piece)
        else:
            addresses = b"".join(ipaddress.ip_address(a).packed for a in ("2001:db8::1", "2001:db8::2"))
            extension = struct.pack("!BBHI", 17, 0, at | more, 7)
            head = struct.pack("!IHBB", 6 << 28, 8 + len(piece), 44, 64)
            found.append(head + addresses + extension + piece)
    return found


def write(path: Path, packets: list[bytes]) -> Path:
    """Write a raw IP capture, a millisecond between packets."""
    out = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101)
    for n, data in enumerate(packets):
        out += struct.pack("<IIII", 1_700_000_000, n * b.MS, len(data), len(data)) + data
    path.write_bytes(out)
    return path


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("order", [1, -1])
def test_a_client_hello_in_fragments(family: int, order: int, tmp_path: Path) -> None:
    pieces = fragments(family, udp(b.hello_datagram()), 400)[::order]
    assert len(pieces) == 4
    # A copy of a piece changes nothing.
    (row,) = rows(write(tmp_path / "f.pcap", [pieces[0], *pieces]), "--kind", "quic_connection")
    assert (row["odcid"], row["sni"]) == (b.ODCID.hex(), "www.example.net")
    (pace,) = rows(tmp_path / "f.pcap", "--kind", "pacing")
    assert (pace["packets"], pace["payload_bytes"]) == (1, len(b.hello_datagram()))
    assert pace["ip_bytes"] == row["ip_bytes_client"] == sum(map(len, [pieces[0], *pieces]))


def test_a_missing_piece_is_reported(tmp_path: Path) -> None:
    pieces = fragments(4, udp(b.hello_datagram()), 400)
    done = dissect(write(tmp_path / "f.pcap", pieces[:2] + pieces[3:]))
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"3 IP fragments of datagrams that are not whole" in done.stderr


def test_pieces_that_contradict_each_other_make_nothing(tmp_path: Path) -> None:
    pieces = fragments(4, udp(b.hello_datagram()), 400)
    other = pieces[1][:-1] + bytes([pieces[1][-1] ^ 1])
    done = dissect(write(tmp_path / "f.pcap", [pieces[0], pieces[1], other, *pieces[2:]]))
    assert (done.returncode, done.stdout) == (0, b"")
