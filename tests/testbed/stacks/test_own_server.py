"""A stack's own program as a server: its arguments and its readiness."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firstflight.system.lines import next_line
from lab.hosts.certificates import issue, make_authority
from testbed.experiment.cell import Cell
from testbed.stacks import own_server
from testbed.trials import server_config
from tests.free_port import free_port

# Binds late, like a program that reads its keys first, and writes a line to standard output that must not
# be passed on.
SERVER = """
import socket, sys, time
time.sleep(0.3)
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind((sys.argv[1], int(sys.argv[2])))
print("serving", *sys.argv[3:], flush=True)
sock.recvfrom(10)
"""


def configuration(folder: Path, port: int = 44_331, **more: Any) -> dict[str, Any]:
    cell = Cell(client="ngtcp2-gnutls", server="ngtcp2-gnutls", answering="wfc", **more)
    files = issue(make_authority(folder), "server", ["www.testbed.test"])
    made = server_config.configuration(cell, "www.testbed.test", "h3", files, launch_times=False)
    return {**made, "port": port, "endpoints": [{**made["endpoints"][0], "ip": "127.0.0.1"}]}


def test_arguments_with_a_log_need_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, given = ["server", "--qlog-dir={log}", "{ip}"], configuration(tmp_path)
    monkeypatch.delenv("QLOGDIR", raising=False)
    assert own_server.argv(command, given, tmp_path) == ["server", "127.0.0.1"]
    monkeypatch.setenv("QLOGDIR", "/logs")
    assert own_server.argv(command, given, tmp_path) == ["server", "--qlog-dir=/logs", "127.0.0.1"]


@pytest.mark.parametrize(
    ("more", "control", "body"),
    [
        ({}, "cubic", 0),
        ({"congestion_control": "bbr"}, "bbr", 0),
        ({"body_bytes": 70_000, "gso": True}, "cubic", 70_000),
    ],
)
def test_settings_of_a_cell_reach_the_command(
    tmp_path: Path, more: dict[str, Any], control: str, body: int
) -> None:
    given = configuration(tmp_path, **more)
    # Both calls use the same job folder: the second must replace the first server's body.
    for _ in range(2):
        found = own_server.names(given, tmp_path)
        assert found["congestion_control"] == control
        assert (Path(found["htdocs"]) / "index.html").stat().st_size == body
    assert (found["ip"], found["port"]) == ("127.0.0.1", "44331")
    assert "PRIVATE KEY" in Path(found["key"]).read_text(encoding="ascii")
    assert "BEGIN CERTIFICATE" in Path(found["chain"]).read_text(encoding="ascii")


@pytest.mark.parametrize("gso", [False, True])
def test_a_server_learns_its_answer_and_whether_to_use_gso(tmp_path: Path, gso: bool) -> None:
    given = configuration(tmp_path, body_bytes=10, gso=gso, certificate_delay_ms=4)
    found = own_server.argv(["x", "{no_gso}-0", "{mode}", "{delay_us}"], given, tmp_path)
    assert found == ["x", *([] if gso else ["-0"]), "wait", "4000"]


def test_a_server_reads_its_configuration_from_a_file(tmp_path: Path) -> None:
    text = "listen {ip}:{port}; server { root {folder}; }"
    name, file = own_server.argv(["x", f"{{file}}{text}"], configuration(tmp_path), tmp_path)
    assert name == "x" and Path(file).parent == tmp_path
    expected = f"listen 127.0.0.1:44331; server {{ root {tmp_path}; }}"
    assert Path(file).read_text(encoding="utf-8") == expected


@pytest.mark.parametrize(
    ("table", "over_udp", "over_tcp"),
    [
        ("  sl  local_address rem_address\n", False, False),
        ("  sl  local_address\n 1: 0100007F:01BB 00000000:0000 07\n", True, False),
        # Of another port, and the same one at the other end.
        ("  sl  local_address\n 1: 0100007F:11BB 0100007F:01BB 07\n", False, False),
        ("  sl  local_address\n 1: 0100007F:0035 x 07\n 2: 00000000:01BB x 07\n", True, False),
        # A TCP socket that listens, after one that does not.
        ("  sl  local_address\n 1: 0100007F:01BB x 06\n 2: 00000000:01BB x 0A\n", True, True),
    ],
)
def test_a_socket_of_the_port_listens(table: str, over_udp: bool, over_tcp: bool) -> None:
    assert own_server.listens(table, 443, "udp") is over_udp
    assert own_server.listens(table, 443, "tcp") is over_tcp


def test_a_server_is_ready_when_it_listens_and_is_ended_by_its_pid(tmp_path: Path) -> None:
    file = tmp_path / "server.json"
    port = free_port()
    file.write_text(json.dumps(configuration(tmp_path, port)), encoding="utf-8")
    server_command = [sys.executable, "-c", SERVER, "{ip}", "{port}", "{congestion_control}", "{other}"]
    argv = [sys.executable, "-P", "-m", "testbed.stacks.own_server", *server_command, "--config", str(file)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    try:
        assert process.stdout is not None and process.stderr is not None
        assert next_line(process.stdout, 60).strip() == b"READY"
        listening = Path("/proc/net/udp").read_text(encoding="ascii")
        assert own_server.listens(listening, port, "udp")
        assert next_line(process.stderr, 60).strip() == b"serving cubic {other}"
    finally:
        process.kill()
        process.wait()
    assert not own_server.listens(Path("/proc/net/udp").read_text(encoding="ascii"), port, "udp")
    # The process that printed READY has exited, too, and standard output has no other line.
    assert process.stdout.read() == b""
