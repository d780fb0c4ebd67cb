"""A public dashboard served through the nginx of deploy/: no client gets all event streams or connections."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from reports.dashboard.connection import connections
from reports.dashboard.pages import events
from tests.dashboard.serving import dashboard
from tests.deploy.site.test_nginx import ADDRESS, LAYOUTS, nginx, written
from tests.deploy.site.test_nginx import authority as authority
from tests.waiting import until

ATTACKER, OTHER = "127.0.0.2", "127.0.0.3"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, authority: Path) -> Iterator[None]:
    """nginx in front of a dashboard with an unavailable store."""
    folder = tmp_path_factory.mktemp("nginx")
    with dashboard(f"chdb:{folder}/none", "--public") as served:
        servers = written(*LAYOUTS["dashboard"]).replace(":8000", f":{urlsplit(served.url).port}")
        command = nginx(folder, authority, servers)
        with (folder / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
            until((folder / "pid").is_file, (folder / "log").read_text)
            yield
            process.terminate()


def connected(client: str) -> ssl.SSLSocket:
    """Return a connection to nginx from an address of loopback."""
    plain = socket.create_connection((ADDRESS, 443), timeout=15, source_address=(client, 0))
    return ssl._create_unverified_context().wrap_socket(plain)


def status(connection: socket.socket, path: str) -> int:
    """Return the status of the answer without reading the body."""
    # The client names a false address.
    lines = (f"GET {path} HTTP/1.1", "Host: a.example", "X-Forwarded-For: 192.0.2.1", "", "")
    connection.sendall("\r\n".join(lines).encode())
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status


def test_one_client_cannot_use_all_event_streams(site: None) -> None:  # noqa: ARG001
    """One address held all 250."""
    with ExitStack() as open_ones:
        statuses = [
            status(open_ones.enter_context(connected(ATTACKER)), "/events")
            for _ in range(events.MOST_EACH + 8)
        ]
        assert statuses == [200] * events.MOST_EACH + [429] * 8
        assert status(open_ones.enter_context(connected(OTHER)), "/events") == 200


def test_unfinished_requests_block_no_other_client(site: None) -> None:  # noqa: ARG001
    with ExitStack() as open_ones:
        for _ in range(2 * connections.MOST_EACH):
            with suppress(OSError):
                open_ones.enter_context(connected(ATTACKER)).sendall(
                    b"GET / HTTP/1.1\r\nHost: a\r\nX-Never: "
                )
        assert status(open_ones.enter_context(connected(OTHER)), "/dashboard.css") == 200
