"""Interrupted downloads and unreachable hosts: a one-line error, and no partial file on disk."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from requests.adapters import HTTPAdapter

from crawler import https


@contextmanager
def host(answer: bytes, requests: list[bytes] | None = None) -> Iterator[str]:
    """Run a host that answers every request with these bytes and closes the connection; yields its address.

    Appends each request to `requests`.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    request = client.recv(65536)
                    if requests is not None:
                        requests.append(request)
                    client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=5)


def over_http(contact: str = "") -> https.Session:
    """Return a session that uses HTTP, because these hosts have no certificates."""
    session = https.Session(None, contact)
    session.mount("http://", HTTPAdapter())
    return session


def test_the_complete_body_is_kept(tmp_path: Path) -> None:
    with host(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") as url:
        https.download(over_http(), url, tmp_path / "sub" / "x")
    assert (tmp_path / "sub" / "x").read_bytes() == b"hello"


def test_a_body_may_have_as_many_bytes_as_allowed(tmp_path: Path) -> None:
    session = over_http()
    with host(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") as url:
        https.download(session, url, tmp_path / "x", max_bytes=5)
        with pytest.raises(https.FetchError, match="more than 4 bytes"):
            https.download(session, url, tmp_path / "y", max_bytes=4)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("digits", [19, 400, 5000])
def test_a_length_that_no_body_has(tmp_path: Path, digits: int) -> None:
    session = https.Session(None, shown_in=tmp_path / "progress")
    session.mount("http://", HTTPAdapter())
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nhello" % (b"9" * digits)
    with host(answer) as url, pytest.raises(https.FetchError, match="longer than that of any file"):
        https.download(session, url, tmp_path / "x")
    with host(answer) as url, suppress(https.FetchError):
        assert https.get_text(session, url) == "hello"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhello", "cannot fetch http://127"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "cannot fetch http://127"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "the host answered 404 Not Found"),
        (b"", "cannot fetch http://127"),
    ],
)
def test_broken_download_leaves_nothing(tmp_path: Path, answer: bytes, says: str) -> None:
    with host(answer) as url, pytest.raises(https.FetchError, match=says) as caught:
        https.download(over_http(), url, tmp_path / "x")
    assert not list(tmp_path.iterdir())
    assert "\n" not in str(caught.value)


def test_requests_identify_the_sender(tmp_path: Path) -> None:
    requests: list[bytes] = []
    with host(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", requests) as url:
        https.download(over_http("noc@lab.example\nM\u00fcller"), url, tmp_path / "x")
    assert b"User-Agent: firstflight/" in requests[0]
    assert b" (noc@lab.example M?ller)\r\n" in requests[0]


def test_a_host_without_a_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(https.FetchError, match="Connection refused; is there a way to that host"):
        https.get_text(https.Session(None), f"https://127.0.0.1:{port}/")


def test_chosen_authorities_win_over_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/somewhere/else.pem")
    chosen = https.Session(tmp_path / "ca.pem").merge_environment_settings(
        "https://a.example", {}, None, None, None
    )
    assert chosen["verify"] == str(tmp_path / "ca.pem")
    system = https.Session(None).merge_environment_settings("https://a.example", {}, None, None, None)
    assert system["verify"] == "/somewhere/else.pem"
