"""The stack tcp-nginx: TLS over TCP, from Debian's nginx to libcurl (trials: tests/testbed/guests)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import UsageError
from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.stacks.program import ServerProgram
from testbed.trials import block, trial_row
from testbed.trials.captures import dissected
from testbed.trials.network import path
from tests.dissect import build
from tests.testbed import loopback
from tests.testbed.measures.test_paced import capture

CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


def cell(**more: Any) -> Cell:
    return Cell.model_validate({"client": "tcp-nginx", "server": "tcp-nginx", "answering": "wfc", **more})


def test_nginx_answers_with_the_body_and_the_congestion_control(tmp_path: Path) -> None:
    """With reno, which every kernel allows in every namespace."""
    before = CONTROL.read_text(encoding="ascii")
    given = loopback.configuration(tmp_path, "tcp-nginx", 300_000)
    given["transport"] = {"congestion_control": "reno"}
    keys = tmp_path / "keys"
    try:
        environment = {"SSLKEYLOGFILE": str(keys)}
        answer = loopback.answer(tmp_path, "tcp-nginx", "tcp-nginx", given, environment=environment)
        assert CONTROL.read_text(encoding="ascii") == "reno\n"
    finally:
        CONTROL.write_text(before, encoding="ascii")
    assert (answer["end"], answer["detail"], answer["status"]) == ("complete", None, 200)
    assert (answer["http_version"], answer["tls_version"]) == ("1.1", "TLSv1.3")
    assert answer["body_bytes"] == 300_000
    assert "CLIENT_TRAFFIC_SECRET_0" in keys.read_text(encoding="ascii")


def test_each_side_has_the_version_of_its_own_program() -> None:
    stack = stacks.find("tcp-nginx")
    assert stack.version.text()[0] == "8" and (stack.server_version or "").startswith("1.")
    assert stack.transport == "tcp" and stacks.find("quicly").transport == "udp"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"body_bytes": 1, "gso": True, "congestion_control": "bbr", "qdisc": "fq"}, None),
        ({"client": "quinn"}, "the server tcp-nginx does not support h3, the only protocol of the client"),
        ({"server": "quinn"}, "the server quinn does not support http/1.1, the only protocol of the client"),
        ({"answering": "iack"}, "the server tcp-nginx sends no instant ACK"),
        ({"certificate_delay_ms": 1}, "the server tcp-nginx cannot delay its certificate"),
        ({"body_bytes": 1}, "the server tcp-nginx always sends several datagrams as one"),
        ({"drop_second_flight": True}, "the client tcp-nginx has no second flight, because it uses TCP"),
        ({"ack_ratio": 2}, "the server tcp-nginx sends no ACK_FREQUENCY"),
        (
            {"qdisc": "etf", "gso": True},
            "etf drops the datagrams of the server tcp-nginx, because it sets no launch times",
        ),
    ],
)
def test_what_tcp_cannot_do_is_unavailable(more: dict[str, Any], why: str | None) -> None:
    assert block.blocks("", cell(**more), 1)[0].unavailable() == why


def test_a_program_that_is_not_installed_is_one_sentence(tmp_path: Path, monkeypatch: Any) -> None:
    server = ServerProgram(serve=("sh", "x"), programs=("no-such-program",))
    with pytest.raises(UsageError, match=r"^no-such-program is missing: `make setup` installs it$"):
        server.command()
    # A daemon's folder need not be in the user's PATH.
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ServerProgram(serve=("sh", "x"), programs=("nginx",)).command()[-2:] == ["sh", "x"]
    for given in ({}, {"program": "firstflight-x", "serve": ("x",)}):
        with pytest.raises(ValueError, match="give either `program` or `serve`"):
            ServerProgram.model_validate(given)


def segment(number: int, payload: bytes, *, server: bool, flags: int = 0x10) -> bytes:
    """Return an IP packet with a TCP segment whose sequence number is `number`."""
    ports = (443, 5000) if server else (5000, 443)
    ends = (path.SERVER_IP, path.CLIENT_IP) if server else (path.CLIENT_IP, path.SERVER_IP)
    header = b"".join(port.to_bytes(2, "big") for port in ports) + number.to_bytes(4, "big") + bytes(4)
    return build.ip(*ends, 6, header + bytes([0x50, flags, 0xFF, 0xFF]) + bytes(4) + payload)


@pytest.mark.parametrize(("served", "outcome"), [(b"data", "done"), (b"", "failed")])
def test_a_trial_over_tcp_has_its_packets(tmp_path: Path, served: bytes, outcome: str) -> None:
    second = 10**9
    packets = [
        (second, segment(0, b"", server=False, flags=0x02)),
        (second + 40_000_000, segment(0, b"", server=True, flags=0x12)),
        (second + 40_001_000, segment(1, b"", server=False)),
        (second + 80_000_000, segment(1, served, server=True)),
    ]
    for name in ("path.pcap", "sender.pcap"):
        sent = packets if name == "path.pcap" else packets[1::2]
        capture(tmp_path / name, sent, bytes(12) + b"\x08\0")
        report = f"{len(sent)} packets captured\n0 packets dropped by kernel\n"
        (tmp_path / f"{name}.log").write_text(report, encoding="ascii")
    (tmp_path / "path.keys").write_text("", encoding="ascii")
    given = cell(qdisc="none", gso=True, body_bytes=4)
    captured = dissected.of_block(given, tmp_path)
    assert captured.fault is None
    trial = {
        **dict.fromkeys(("detail", "drop_to_server", "dropped", "reordered", "queue_drops")),
        "queue_to_server_drops": None,
        "begun_ns": second,
        "ended_ns": 2 * second,
        "client_version": "libcurl/8",
        "end": "complete",
        "transfer_us": 7,
        "body_received": 4,
    }
    row = trial_row.of_trial(trial_row.without_trial("x", given, 1, "", None), trial, captured)
    assert row["outcome"] == outcome
    assert (row["datagrams_client"], row["datagrams_server"]) == (2, 2)
    assert (row["ip_bytes_client"], row["ip_bytes_server"]) == (80, 80 + len(served))
    assert (row["first_answer"], row["first_stream_us"], row["ack_packets"]) == (None, None, None)
    assert (row["gap_p50_ns"], row["share_in_trains_1"]) == (40_000_000, 1)
