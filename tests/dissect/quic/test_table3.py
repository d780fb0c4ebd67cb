"""`report table3` against the first repetition of the paper's Table 3 (its data set's captures)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dissect.conftest import FIXTURES

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")

# Server -> ACK delay in ms in Initial and Handshake packets; `None`: no such ACK ("-" in the paper).
PUBLISHED: dict[str, tuple[float | None, float | None]] = {
    "aioquic": (3.3, None),
    "go-x-net": (0.0, None),
    "haproxy": (1.0, 0.0),
    "kwik": (0.0, None),
    "lsquic": (1.2, 0.2),
    "msquic": (None, None),
    "mvfst": (0.8, 0.2),
    "neqo": (0.0, 0.0),
    "nginx": (0.0, None),
    "ngtcp2": (0.0, None),
    "picoquic": (0.8, None),
    "quic-go": (0.0, None),
    "quiche": (1.4, None),
    "quinn": (0.4, None),
    "s2n-quic": (14.0, None),
    "xquic": (1.3, None),
}


def table3(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command to the end."""
    argv = [FIRSTFLIGHT, "report", "table3", *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


def test_every_number_is_the_published_one() -> None:
    done = table3(FIXTURES, "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    rows = {row["server"]: row for row in map(json.loads, done.stdout.splitlines())}
    rounded = {
        server: tuple(
            None if row[f"{space}_ack_delay_ms"] is None else round(row[f"{space}_ack_delay_ms"], 1)
            for space in ("initial", "handshake")
        )
        for server, row in rows.items()
    }
    assert rounded == PUBLISHED
    assert all(row["handshake_is_open"] for row in rows.values())
    # The meaning of 14.0 ms for the one server with exponent 0.
    meant = {server: row["initial_meant_ms"] for server, row in rows.items() if row["initial_meant_ms"]}
    assert meant == {"s2n-quic": pytest.approx(1.746)}


def test_the_table_has_a_note_at_s2n_quic() -> None:
    lines = table3(FIXTURES).stdout.splitlines()
    (row,) = [line.split() for line in lines if line.startswith("s2n-quic*")]
    assert row[:3] == ["s2n-quic*", "14.0", "-"]
    assert any(line.startswith("* s2n-quic") and "1.7 ms" in line for line in lines)
    (msquic,) = [line.split() for line in lines if line.startswith("msquic")]
    assert msquic == ["msquic", *["-"] * 6]
    # Of three repetitions.
    assert row[-2:] == ["14.0-15.2", "-"]


def test_published_values_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    lsquic = ("--format", "jsonl"), "published_handshake_ms_3"
    shown = {row["server"]: row for row in map(json.loads, table3(FIXTURES, *lsquic[0]).stdout.splitlines())}
    assert shown["lsquic"][lsquic[1]] == 0.2 and shown["aioquic"][lsquic[1]] is None
    first = {
        server: (row["published_initial_ms_1"], row["published_handshake_ms_1"])
        for server, row in shown.items()
    }
    assert first == PUBLISHED
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "hide")
    assert "publ" not in table3(FIXTURES).stdout + table3(FIXTURES, *lsquic[0]).stdout
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "no")
    done = table3(FIXTURES)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "firstflight: FIRSTFLIGHT_PUBLISHED is 'no': set it to show or hide\n"


def test_without_keys_the_handshake_is_not_known(tmp_path: Path) -> None:
    capture = tmp_path / "lsquic.pcap"
    capture.write_bytes((FIXTURES / capture.name).read_bytes())
    (row,) = [line.split() for line in table3(tmp_path).stdout.splitlines() if line.startswith("lsquic")]
    assert row[:3] == ["lsquic", "1.2", "?"]


def test_wrong_folders_are_refused_in_one_sentence(tmp_path: Path) -> None:
    done = table3(tmp_path)
    assert done.returncode == 3
    assert f"there is no capture in {tmp_path}" in done.stderr
    (tmp_path / "broken.pcap").write_bytes((FIXTURES / "lsquic.pcap").read_bytes()[:200])
    done = table3(tmp_path)
    assert done.returncode == 3
    assert "broken.pcap: at byte" in done.stderr
    assert "Traceback" not in done.stderr
    assert table3(tmp_path / "none").returncode == 3


def test_a_broken_capture_does_not_stop_the_others(tmp_path: Path) -> None:
    capture = tmp_path / "lsquic.pcap"
    capture.write_bytes((FIXTURES / capture.name).read_bytes())
    (tmp_path / "bad.pcap").write_bytes(b"no")
    done = table3(tmp_path, "--format", "jsonl")
    (row,) = map(json.loads, done.stdout.splitlines())
    assert (row["server"], row["initial_ack_delay_ms"]) == ("lsquic", 1.184)
    assert done.returncode == 3
    (message,) = done.stderr.splitlines()
    assert "bad.pcap: at byte 0" in message
