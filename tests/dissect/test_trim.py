"""Trimmed captures: the rows stay the same, decryptable packets stay whole, and padding is restored."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dissect import build as b
from tests.dissect.build import MS, CaptureBuilder
from tests.dissect.conftest import dissect, rows

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
CAPTURES = sorted([*(FIXTURES / "interop").glob("*.pcap"), *(FIXTURES / "quic").glob("*.pcap")])
KINDS = ("--kind", "quic_connection,quic_packet,pacing")


def trim(capture: Path, into: Path, *options: str | Path) -> Path:
    """Trim a capture and return the copy."""
    done = dissect(capture, *KINDS, "--out", into.with_name("rows"), "--trim", into, *options)
    assert done.returncode == 0, done.stderr.decode()
    return into / capture.name


def restored(copy: Path) -> Path:
    """Put the padding back into a trimmed copy; return the standard capture."""
    done = dissect(copy, "--restore")
    assert (done.returncode, done.stderr) == (0, b"")
    restored_file = copy.with_name(f"restored-{copy.name}")
    restored_file.write_bytes(done.stdout)
    return restored_file


def all_rows(capture: Path, *options: str | Path) -> bytes:
    done = dissect(capture, *KINDS, "--source-name", "x", *options)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def records(path: Path) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield time, original length and bytes of each record in a capture."""
    content = path.read_bytes()
    at = 24
    while at < len(content):
        captured, length = struct.unpack_from("=II", content, at + 8)
        yield content[at : at + 8], length, content[at + 16 : at + 16 + captured]
        at += 16 + captured


@pytest.mark.parametrize("fixture", CAPTURES, ids=lambda path: path.stem)
def test_rows_of_a_trimmed_capture_are_the_same(fixture: Path, tmp_path: Path) -> None:
    capture = Path(shutil.copy(fixture, tmp_path))  # without its key log
    copy = trim(capture, tmp_path / "trimmed")
    assert all_rows(copy) == all_rows(capture)
    counts = json.loads(copy.with_name(f"{copy.name}.json").read_text())
    cut = unpadded = 0
    for (_, length, original_bytes), (_, copied_length, copied_bytes), (_, now_length, restored_bytes) in zip(
        records(capture), records(copy), records(restored(copy)), strict=True
    ):
        assert (now_length, copied_length, original_bytes[: len(restored_bytes)]) == (
            length,
            length,
            restored_bytes,
        )
        cut += len(restored_bytes) < len(original_bytes)
        unpadded += len(copied_bytes) < len(restored_bytes)
        assert len(copied_bytes) < len(restored_bytes) or copied_bytes == restored_bytes
    frames = sum(1 for _ in records(capture))
    assert counts == {"frames": frames, "trimmed": cut, "unpadded": unpadded, "removed": 0}
    assert cut and (unpadded or "fragments" in fixture.stem) and copy.stat().st_size < capture.stat().st_size
    trimmed_twice = trim(copy, tmp_path / "again")
    assert trimmed_twice.read_bytes() == copy.read_bytes()
    assert (
        trimmed_twice.with_name(f"{trimmed_twice.name}.json").read_text()
        == copy.with_name(f"{copy.name}.json").read_text()
    )


@pytest.mark.parametrize("fixture", CAPTURES, ids=lambda path: path.stem)
def test_with_keys_nothing_is_trimmed(fixture: Path, tmp_path: Path) -> None:
    capture = Path(shutil.copy(fixture, tmp_path))
    keys = fixture.with_suffix(".keys")
    copy = trim(capture, tmp_path / "trimmed", "--keys", keys)
    assert [packet for *_, packet in records(restored(copy))] == [
        original for *_, original in records(capture)
    ]


def test_a_trimmed_capture_has_no_more_rows_with_keys_than_a_cut_one(tmp_path: Path) -> None:
    """With keys, the columns of removed ciphertext are null."""
    fixture = FIXTURES / "quic" / "quiche_iack.pcap"
    capture = Path(shutil.copy(fixture, tmp_path))
    copy = trim(capture, tmp_path / "trimmed")
    (row,) = (
        row
        for row in map(json.loads, all_rows(copy, "--keys", fixture.with_suffix(".keys")).splitlines())
        if row["kind"] == "quic_connection"
    )
    assert row["payload_bytes_server"] is None and row["certificate_bytes"] is None


def story() -> CaptureBuilder:
    """An answered probe, an instant ACK and a late Handshake packet; ICMP, another protocol."""
    capture = CaptureBuilder().sent(0, b.hello_datagram()).came(10 * MS, b.initial(b.ack(), 0))
    capture.came(12 * MS, b.initial(b.crypto(b.server_hello()), 1) + b.handshake(900))
    capture.came(13 * MS, b.handshake(1100)).came(14 * MS, b.handshake(300) + b.handshake(200))
    capture.icmp(20 * MS, 3, 3)
    return capture.sent(30 * MS, b.initial(b.close(0, b""), 1, from_client=True, pad_to=1200))


def test_only_what_cannot_be_decrypted_is_missing(tmp_path: Path) -> None:
    capture = story().write(tmp_path / "probe.pcap")
    copy = trim(capture, tmp_path / "trimmed")
    missing = [length - len(packet) for _, length, packet in records(restored(copy))]
    assert missing == [0, 0, 900, 1100, 200, 0, 0]
    # Two of our Initials are padded. Frames without padding are unchanged.
    padded = [len(packet) < length for _, length, packet in records(copy)]
    assert padded == [True, False, True, True, True, False, True]
    assert [time for time, *_ in records(copy)] == [time for time, *_ in records(capture)]


def test_other_captures_of_the_same_datagrams_are_still_cut(tmp_path: Path) -> None:
    """With one byte less or more than a trimmed record has, the capture counts as cut at that answer."""
    early = CaptureBuilder().sent(0, b.hello_datagram()).came(5 * MS, b.handshake(500))
    early.came(10 * MS, b.initial(b.ack() + b.crypto(b.server_hello()), 0))
    capture = early.write(tmp_path / "probe.pcap")
    copy = trim(capture, tmp_path / "trimmed")
    found = [*records(copy)]
    for more in (-1, 0, 1):
        time, length, data = found[1]
        others = [found[0], (time, length, (data + b"\0")[: len(data) + more]), found[2]]
        parts = [t + struct.pack("=II", len(d), n) + d for t, n, d in others]
        path = tmp_path / f"cut{more}.pcap"
        path.write_bytes(copy.read_bytes()[:24] + b"".join(parts))
        if more == 0:
            assert all_rows(path) == all_rows(capture)
            continue
        (row,) = (r for r in map(json.loads, all_rows(path).splitlines()) if r["kind"] == "quic_connection")
        assert (row["first_answer"], row["detail"]) == ("malformed", "cut by the capture")


def test_named_connections_are_not_trimmed(tmp_path: Path) -> None:
    capture = story().write(tmp_path / "probe.pcap")
    names = tmp_path / "except"
    names.write_text(f"{b.CLIENT_CID.hex()}\n")
    copy = trim(capture, tmp_path / "trimmed", "--trim-except", names)
    assert [packet for *_, packet in records(copy)] == [original for *_, original in records(capture)]


def test_a_capture_that_cannot_be_copied_is_one_sentence(tmp_path: Path) -> None:
    capture = story().write(tmp_path / "probe.pcap")
    (tmp_path / "file").write_text("")
    (tmp_path / "names").write_text("no hex\n")
    for options, status, words in (
        (("--trim", tmp_path / "file"), 3, "a trimmed copy in"),
        (("--trim", tmp_path / "t", "--trim-except", tmp_path / "names"), 2, "no hex is not a connection ID"),
        (("--trim-except", tmp_path / "names"), 2, "--trim"),
        (("--trim", tmp_path / "t", "--kind", "pacing"), 2, "--trim needs --kind quic_connection"),
    ):
        done = dissect(capture, *options)
        assert (done.returncode, words in done.stderr.decode()) == (status, True), done.stderr.decode()
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(capture.read_bytes()[:-5])
    assert dissect(broken, "--trim", tmp_path / "t").returncode == 3
    assert not (tmp_path / "t" / "broken.pcap").exists()
    keyed = FIXTURES / "quic" / "quiche_iack.pcap"
    pcapng = tmp_path / "keys.pcapng"
    argv = ["editcap", "-F", "pcapng", "--inject-secrets", f"tls,{keyed.with_suffix('.keys')}", keyed, pcapng]
    subprocess.run(list(map(str, argv)), check=True, capture_output=True)
    done = dissect(pcapng, "--trim", tmp_path / "t")
    assert (done.returncode, "holds keys" in done.stderr.decode()) == (3, True)


@pytest.mark.parametrize("name", ["probe.pcap", "probe.pcap.json", "probe.pcap.part"])
def test_a_copy_replaces_nothing(name: str, tmp_path: Path) -> None:
    """Not its own capture, in the same folder, either."""
    capture = story().write(tmp_path / "probe.pcap")
    folder = tmp_path if name == capture.name else tmp_path / "trimmed"
    folder.mkdir(exist_ok=True)
    existing = folder / name
    if existing != capture:
        existing.write_text("another's")
    before = existing.read_bytes()
    done = dissect(capture, "--trim", folder)
    words = f"--trim: {existing} exists already: choose another folder"
    assert (done.returncode, done.stdout) == (2, b"")
    assert words in done.stderr.decode()
    assert existing.read_bytes() == before
    assert sorted(folder.iterdir()) == [existing]


def test_padding_is_restored_exactly(tmp_path: Path) -> None:
    """If only padding was trimmed, the restored file equals the original."""
    made = CaptureBuilder().sent(0, b.hello_datagram()).came(10 * MS, b.initial(b.ack(), 0, pad_to=1200))
    made.came(12 * MS, b.initial(b.crypto(b.server_hello()), 1, pad_to=600) + bytes(400))
    capture = made.sent(30 * MS, b.initial(b.close(0, b""), 1, from_client=True, pad_to=1200)).write(
        tmp_path / "probe.pcap"
    )
    copy = trim(capture, tmp_path / "trimmed")
    # tcpdump writes the same file header.
    header = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 101)
    assert restored(copy).read_bytes() == header + capture.read_bytes()[24:]
    assert dissect(capture, "--restore").stdout == restored(copy).read_bytes()
    assert copy.stat().st_size < 0.3 * capture.stat().st_size
    assert all_rows(copy) == all_rows(capture)


@pytest.mark.parametrize("name", ["quiche_iack", "quicgo_retry", "quiche_version_negotiation"])
def test_tshark_reads_the_same_initials_from_a_restored_capture(name: str, tmp_path: Path) -> None:
    capture = Path(shutil.copy(FIXTURES / "quic" / f"{name}.pcap", tmp_path))
    restored_capture = restored(trim(capture, tmp_path / "trimmed"))
    before, after = (initials(path) for path in (capture, restored_capture))
    assert after == before
    assert len(after) >= 6


def initials(capture: Path) -> list[str]:
    """Return tshark's fields of the first packet of each datagram that starts with an Initial."""
    fields = (
        "frame.number",
        "frame.len",
        "quic.packet_number",
        "quic.scid",
        "quic.frame_type",
        "quic.crypto.length",
    )
    argv = [
        "tshark",
        "-r",
        str(capture),
        "-Y",
        "quic.long.packet_type==0",
        "-T",
        "fields",
        "-E",
        "separator=,",
    ]
    options = [word for name in fields for word in ("-e", name)]
    done = subprocess.run([*argv, "-E", "occurrence=f", *options], capture_output=True, check=True)
    return [line for line in done.stdout.decode().splitlines() if ",," not in line]


def test_a_damaged_record_is_reported_and_counts_as_cut(tmp_path: Path) -> None:
    made = CaptureBuilder().sent(0, b.hello_datagram()).came(10 * MS, b.initial(b.ack(), 0, pad_to=1200))
    capture = made.write(tmp_path / "probe.pcap")
    copy = trim(capture, tmp_path / "trimmed")
    content = bytearray(copy.read_bytes())
    hello = next(records(copy))[2]
    second = 24 + 16 + len(hello)
    # A byte of the server's Initial, after 20 bytes of IPv4, 8 bytes of UDP and the long header.
    content[second + 16 + 28 + 30] ^= 1
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(content)
    done = dissect(damaged, "--kind", "quic_connection")
    (row,) = map(json.loads, done.stdout.splitlines())
    assert (row["first_answer"], row["detail"]) == ("malformed", "cut by the capture")
    words = f"damaged.pcap: at byte {second}: expected the omitted padding of this record to match"
    assert done.returncode == 3 and words in done.stderr.decode()
    done = dissect(damaged, "--restore")
    assert done.returncode == 3 and words in done.stderr.decode()
    # A damaged capture is not trimmed, which would make it look like a sound one.
    assert dissect(damaged, "--trim", tmp_path / "t").returncode == 3
    assert not (tmp_path / "t" / "damaged.pcap").exists()


def test_without_the_mark_of_its_file_such_a_record_is_one_that_the_capture_cut(tmp_path: Path) -> None:
    """So no server can make a capture with a small snap length hold a datagram that it did not send."""
    capture = CaptureBuilder().sent(0, b.hello_datagram()).write(tmp_path / "probe.pcap")
    copy = trim(capture, tmp_path / "trimmed")
    content = bytearray(copy.read_bytes())
    content[12:16] = bytes(4)
    plain = tmp_path / "plain.pcap"
    plain.write_bytes(content)
    assert dissect(plain, "--restore").stdout == content
    (row,) = rows(plain, "--kind", "quic_connection", "--quic-port", "443")
    assert (row["client_hello_copies"], row["undecrypted_packets"]) == (0, 1)


def test_a_capture_that_cannot_be_restored_is_one_sentence(tmp_path: Path) -> None:
    capture = story().write(tmp_path / "probe.pcap")
    for options, status, words in (
        ((capture, capture), 2, "--restore takes one capture at a time"),
        ((capture, "--out", tmp_path), 2, "--out"),
        ((tmp_path / "none.pcap",), 3, "cannot be opened"),
    ):
        done = dissect(*options, "--restore")
        assert (done.returncode, words in done.stderr.decode()) == (status, True), done.stderr.decode()
