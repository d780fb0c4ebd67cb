"""The supervisor's socket: clients cannot stop the supervisor, not even with Ctrl-C."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import FirstflightError, UsageError
from lab import control, supervisor
from lab.state import StateFolder

ANSWERED = threading.Event()  # delays the handler's reply until the client has disconnected


def handle(request: dict[str, Any]) -> dict[str, Any]:
    """Handle a request as the supervisor might."""
    match request.get("do"):
        case "wait":
            assert ANSWERED.wait(10)
        case "wrong":
            raise UsageError("epoch 9 does not exist")
        case "hang":
            raise subprocess.TimeoutExpired(["rndc"], 20)
        case "end":
            raise SystemExit
    return {"done": int(request.get("number", 0))}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A supervisor's socket that answers until the end of the test."""
    server = control.listen(tmp_path / "control.sock")
    ended: list[BaseException] = []

    def serve() -> None:
        try:
            while True:
                control.answer(server, handle)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    yield tmp_path / "control.sock"
    with pytest.raises(FirstflightError):
        control.ask(tmp_path / "control.sock", {"do": "end"}, timeout_s=60)
    thread.join(60)
    server.close()
    assert [type(error) for error in ended] == [SystemExit]


def test_a_disconnecting_client_affects_no_other(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(path))
        client.sendall(b'{"do": "wait"}\n')
    ANSWERED.set()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(path))
    assert control.ask(path, {"number": 3}) == {"done": 3}


@pytest.mark.parametrize("request_", [b"no JSON\n", b"[1]\n", b"\xff\n", b'{"number": "x"}\n', b"\n"])
def test_a_request_without_sense_is_answered_by_an_error(path: Path, request_: bytes) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.connect(str(path))
        client.sendall(request_)
        assert set(json.loads(client.makefile("rb").readline())) == {"error", "usage"}
    assert control.ask(path, {}) == {"done": 0}


def test_errors_reach_the_requesting_client(path: Path) -> None:
    with pytest.raises(UsageError, match="epoch 9"):
        control.ask(path, {"do": "wrong"})
    with pytest.raises(FirstflightError, match="rndc"):
        control.ask(path, {"do": "hang"})
    assert control.ask(path, {"number": 1}) == {"done": 1}


def test_a_ready_lab_answers_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket accepts connections before the supervisor reports `ready`."""
    state = StateFolder(tmp_path)

    class Reported(Exception):
        pass

    def report(**fields: Any) -> None:
        if fields.get("step") == "ready":
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.connect(str(state.control))
            raise Reported

    monkeypatch.setattr(supervisor, "tell", report)
    monkeypatch.setattr("lab.declared.internet.load", lambda _: None)
    monkeypatch.setattr(supervisor.Supervisor, "raise_lab", lambda *_, **__: None)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("sys.argv", ["supervisor", "--state", str(tmp_path)])
    monkeypatch.setattr("sys.stdin", io.StringIO("go\n"))
    with pytest.raises(Reported):
        supervisor.main()
