"""Captures as qlog: every record by the drafts' schema, every packet and frame as tshark reads it."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from cli.look import qlog
from tests.dissect import tshark
from tests.dissect.conftest import FIXTURES, rows

QUIC = FIXTURES.parent / "quic"
SCHEMA = json.loads((Path(__file__).parent / "qlog_schema.json").read_text(encoding="utf-8"))
CAPTURES = sorted([*FIXTURES.glob("*.pcap"), *QUIC.glob("*.pcap")])
# Packets are compared with tshark's, which decrypts all of these.
COMPARED = ("quic-go", "neqo", "quicgo_at_server", "quicgo_reordering", "picoquic")
TYPES = {"0RTT": "0rtt", "1RTT": "1rtt"}

Record = dict[str, Any]


def run(*arguments: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(qlog.command, [str(argument) for argument in arguments])
    return done.exit_code, done.output


def read(path: Path) -> tuple[Record, list[Record]]:
    """Return the header and the events in a JSON-SEQ file (RFC 7464)."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("\x1e") and text.endswith("\n")
    header, *events = (json.loads(record) for record in text.split("\x1e")[1:])
    return header, events


def written(capture: Path, out: Path) -> list[Path]:
    status, output = run(capture, "--out", out)
    assert status == 0, output
    return [Path(line) for line in output.splitlines()]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_every_record_is_by_the_schema(capture: Path, tmp_path: Path) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMA)
    connections = rows(capture, "--kind", "quic_connection")
    packets = rows(capture, "--kind", "quic_packet")
    paths = written(capture, tmp_path / "out")
    names = [f"{row['odcid']}_{row['capture_side'] or 'network'}.sqlog" for row in connections]
    assert [path.name for path in paths] == names
    assert sorted((tmp_path / "out").iterdir()) == sorted(paths)
    count = 0
    for row, path in zip(connections, paths, strict=True):
        header, events = read(path)
        for record in (header, *events):
            error = jsonschema.exceptions.best_match(validator.iter_errors(record))
            assert error is None, f"{error.message} in {record}"
        epoch = datetime.fromisoformat(header["trace"]["common_fields"]["reference_time"]["epoch"])
        assert int(epoch.timestamp() * 1000) == row["start_time_ns"] // 1_000_000
        assert header["trace"]["common_fields"]["group_id"] == row["odcid"]
        count += len(events)
        connection_packets = [
            p for p in packets if (p["odcid"], p["client_port"]) == (row["odcid"], row["client_port"])
        ]
        assert [event["time"] for event in events] == [
            round((packet["time_ns"] - row["start_time_ns"]) / 1e6, 6) for packet in connection_packets
        ]
    assert count == len(packets)


def in_words(frame: Record) -> str:
    """Return a qlog frame in tshark.py's notation, which is only the name for most frames."""
    kind = frame["frame_type"]
    if kind == "padding":
        return f"padding {frame['raw']['length']}"
    if kind == "ack":
        spans = [f"{low}-{high}" if low != high else str(low) for low, high in frame["acked_ranges"][::-1]]
        return f"ack {','.join(spans)} delay {round(frame['ack_delay'] * 1000)}"
    if kind == "crypto":
        return f"crypto {frame['offset']}+{frame['raw']['payload_length']}"
    if kind == "stream":
        size = frame["raw"]["payload_length"]
        return f"stream {frame['stream_id']} {frame['offset']}+{size}{' fin' if frame['fin'] else ''}"
    if kind == "connection_close":
        name = "connection_close" if frame["error_space"] == "transport" else "application_close"
        return f'{name} {frame["error_code"]:#x} "{frame["reason"]}"'
    return str(kind)


def scaled(frames: str, exponent: int) -> str:
    """Return tshark's frames with ACK Delay in microseconds."""
    parts = []
    for frame in frames.split("; "):
        words = frame.split(" ")
        if words[0] == "ack":
            words[-1] = str(int(words[-1]) * 2**exponent)
        parts.append(" ".join(words))
    return "; ".join(parts)


def exponents(capture: Path) -> dict[bool, int]:
    """Return the ACK delay exponent of the client (True) and of the server, from quic_ack or the default."""
    (row,) = rows(capture, "--kind", "quic_connection")
    found = {}
    for side in ("client", "server"):
        given = {
            parameter["name"]: parameter["value"]
            for parameter in json.loads(row[f"transport_parameters_{side}"])
        }
        found[side == "client"] = given.get("ack_delay_exponent", 3)
    return found


@pytest.mark.parametrize("name", COMPARED)
def test_packets_and_frames_are_what_tshark_reads(name: str, tmp_path: Path) -> None:
    capture = next(path for path in CAPTURES if path.stem == name)
    (path,) = written(capture, tmp_path)
    header, events = read(path)
    packets = rows(capture, "--kind", "quic_packet")
    exponent = exponents(capture)
    theirs = tshark.packets(capture, capture.with_suffix(".keys"))
    assert len(events) == len(theirs)
    at_client = header["trace"]["vantage_point"]["type"] == "client"
    for event, their, packet in zip(events, theirs, packets, strict=True):
        found = event["data"]["header"]
        kind = TYPES.get(found["packet_type"], found["packet_type"])
        size = event["data"]["raw"]["length"]
        assert (kind, found["packet_number"], size) == (their.type, their.packet_number, their.size)
        is_sent = packet["from_client"] == at_client
        assert event["name"] == ("quic:packet_sent" if is_sent else "quic:packet_received")
        assert their.frames is not None
        scale = exponent[packet["from_client"]] if kind == "1rtt" else 3
        ours = "; ".join(map(in_words, event["data"]["frames"]))
        assert ours == scaled(their.frames, scale)


def test_without_keys_only_headers_are_written(tmp_path: Path) -> None:
    capture = tmp_path / "none.pcap"
    capture.write_bytes((QUIC / "quicgo_ipv6.pcap").read_bytes())
    (path,) = written(capture, tmp_path / "out")
    _, events = read(path)
    kinds = {event["data"]["header"]["packet_type"]: "frames" in event["data"] for event in events}
    assert kinds == {"initial": True, "handshake": False, "1RTT": False}
    (with_keys,) = written(QUIC / "quicgo_ipv6.pcap", tmp_path / "with")
    assert all("frames" in event["data"] for event in read(with_keys)[1])


def test_connections_of_one_name_have_a_file_each(tmp_path: Path) -> None:
    """Two captures of one connection at the same endpoint."""
    captures = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for capture in captures:
        capture.write_bytes((QUIC / "quicgo_ipv6.pcap").read_bytes())
    status, output = run(*captures, "--out", tmp_path / "out")
    assert status == 0, output
    first, second = (Path(line) for line in output.splitlines())
    assert second.name == f"{first.stem}-2.sqlog"
    assert first.read_bytes() == second.read_bytes()
    # If one of the files exists, no file is written.
    first.unlink()
    done = CliRunner().invoke(qlog.command, [*map(str, captures), "--out", str(tmp_path / "out")])
    assert f"{second} exists already" in str(done.exception)
    assert list((tmp_path / "out").iterdir()) == [second]


def test_bad_use_is_one_sentence(tmp_path: Path) -> None:
    (path,) = written(QUIC / "quicgo_ipv6.pcap", tmp_path)
    before = path.read_bytes()
    done = CliRunner().invoke(qlog.command, [str(QUIC / "quicgo_ipv6.pcap"), "--out", str(tmp_path)])
    assert "exists already" in str(done.exception) and path.read_bytes() == before
    broken = tmp_path / "broken.pcap"
    broken.write_bytes((QUIC / "quicgo_retry.pcap").read_bytes()[:-7])
    done = CliRunner().invoke(qlog.command, [str(broken), "--out", str(tmp_path / "out")])
    assert "broken.pcap" in str(done.exception)
    assert len(list((tmp_path / "out").glob("*.sqlog"))) == 1
    assert not list(tmp_path.rglob("native.*"))
