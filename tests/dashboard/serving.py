"""`firstflight dashboard` as a process, and requests to it."""

from __future__ import annotations

import http.client
import os
import re
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.store.served.serving import FIRSTFLIGHT
from tests.waiting import PATIENCE_S


@dataclass(frozen=True)
class Got:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Dashboard:
    """A running dashboard."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url.rstrip("/")

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET", ca: str | None = None
    ) -> Got:
        """Request a path. `ca`: the file with a trusted certificate."""
        parts = urlsplit(self.url)
        assert parts.hostname and parts.port
        connection: http.client.HTTPConnection
        if ca:
            context = ssl.create_default_context(cafile=ca)
            context.check_hostname = False
            connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=60, context=context)
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        try:
            connection.request(method, path, headers=dict(headers or {}))
            answer = connection.getresponse()
            return Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()


@contextmanager
def dashboard(store: str, *options: str) -> Iterator[Dashboard]:
    """Serve the store with this address on a free port during the block."""
    process = subprocess.Popen(
        [FIRSTFLIGHT, "dashboard", "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"FIRSTFLIGHT_STORE": store},
    )
    try:
        assert process.stderr is not None
        ready = process.stderr.readline()
        found = re.search(r" at (https?://\S+)$", ready)
        assert found, ready + process.stderr.read()
        yield Dashboard(process, found[1])
    finally:
        process.terminate()
        try:
            process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stderr is not None
        process.stderr.close()
