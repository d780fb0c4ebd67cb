"""`firstflight store serve` as a separate process, and its clients."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from clickhouse_driver import Client

from tests.waiting import PATIENCE_S

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")


class Served:
    """A served store; `log` is the file with the server's standard error."""

    def __init__(
        self, process: subprocess.Popen[str], log: Path, host: str, port: int, password: str = ""
    ) -> None:
        """`password`: the password of the user `default`, if the server generated one."""
        self.process = process
        self.password = password
        self.log = log
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        """Return the value for FIRSTFLIGHT_STORE."""
        return self.url_by(self.port)

    def url_by(self, port: int) -> str:
        """Return the same URL with a proxy's port."""
        credentials = f"default:{self.password}@" if self.password else ""
        return f"clickhouse://{credentials}{self.host}:{port}/firstflight"

    def client(self, **options: Any) -> Client:
        """Return a client of the driver, by default with compression."""
        credentials = {"password": self.password} if "user" not in options else {}
        given = (
            credentials
            | {"compression": True, "database": "firstflight", "send_receive_timeout": 60}
            | options
        )
        return Client(self.host, port=self.port, **given)

    def end(self) -> int:
        """Stop the server and return the exit status."""
        self.process.terminate()
        return self.process.wait(timeout=PATIENCE_S)


@contextmanager
def serving(folder: Path, *options: str, wrap: tuple[str, ...] = ()) -> Iterator[Served]:
    """Serve the store in `folder` on a free port during the block."""
    log = folder.with_name(folder.name + ".log")
    environment = os.environ | {"FIRSTFLIGHT_STORE": f"chdb:{folder}"}
    command = [*wrap, FIRSTFLIGHT, "store", "serve", "--port", "0", *options]
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert process.stderr is not None
        ready = process.stderr.readline()
        file.write(ready)
        found = re.search(r" at (\S+):(\d+)$", ready)
        assert found, ready + process.stderr.read()
        file.write(process.stderr.readline())  # the export line
    has_password_option = {"--password-file", "--no-password"} & {*options}
    password = "" if has_password_option else _drawn(folder.with_name(f"{folder.name}.address"))
    try:
        yield Served(process, log, found[1].strip("[]"), int(found[2]), password)
    finally:
        process.terminate()
        try:
            process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            _keep(process.stderr, log)


def _drawn(address: Path) -> str:
    return urlsplit(address.read_text(encoding="utf-8").splitlines()[0]).password or ""


def _keep(stream: IO[str], path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(stream.read())
