"""`firstflight store serve` as a process of its own, and clients of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from clickhouse_driver import Client

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")


class Served:
    """A store that is served; `said` collects what the server writes on standard error."""

    def __init__(self, process: subprocess.Popen[str], said: Path, host: str, port: int) -> None:
        self.process = process
        self.said = said
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        """For FIRSTFLIGHT_STORE."""
        return f"clickhouse://{self.host}:{self.port}/firstflight"

    def client(self, **options: Any) -> Client:
        """The driver's own client, with compression unless told otherwise."""
        given = {"compression": True, "database": "firstflight", "send_receive_timeout": 60} | options
        return Client(self.host, port=self.port, **given)

    def end(self) -> int:
        """Ask it to end; its exit status."""
        self.process.terminate()
        return self.process.wait(timeout=60)


@contextmanager
def serving(folder: Path, *options: str, wrap: tuple[str, ...] = ()) -> Iterator[Served]:
    """Serve the store in `folder` on a free port until the end of the block."""
    said = folder.with_name(folder.name + ".said")
    environment = os.environ | {"FIRSTFLIGHT_STORE": f"chdb:{folder}"}
    command = [*wrap, FIRSTFLIGHT, "store", "serve", "--port", "0", *options]
    with said.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert process.stderr is not None
        ready = process.stderr.readline()
        file.write(ready)
        found = re.search(r" at (\S+):(\d+)$", ready)
        assert found, ready + process.stderr.read()
    try:
        yield Served(process, said, found[1].strip("[]"), int(found[2]))
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            _keep(process.stderr, said)


def _keep(stream: IO[str], path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(stream.read())
