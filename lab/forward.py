"""Forwards a port of the machine's loopback to a host of the lab, for a browser.

    python -m lab.forward --state DIR --host centre --to 127.0.0.1:8080 --port 8080

Binds the port first, then moves the process into the host's network, so that its connections start there.
Prints `READY PORT` (port 0: a free one) and runs until killed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import sys

from firstflight.errors import FirstflightError, UsageError
from lab import enter
from lab.state import locate

_CHUNK = 1 << 16


def listen(port: int) -> socket.socket:
    """Return a listening socket on 127.0.0.1; UsageError if the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(
            f"port {port} of 127.0.0.1 is not available ({error.strerror}): choose another"
        ) from error
    listener.listen(64)
    return listener


async def serve(listener: socket.socket, host: str, port: int) -> None:
    """Forward every connection to HOST:PORT; pass on an end of stream, close both sides on an error."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            host_reader, host_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        with contextlib.suppress(OSError):
            await asyncio.gather(_copy(reader, host_writer), _copy(host_reader, writer))
        for end in (writer, host_writer):
            end.close()

    server = await asyncio.start_server(relay, sock=listener)
    async with server:
        await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


def main() -> int:
    """Forward until killed."""
    parser = argparse.ArgumentParser(prog="python -m lab.forward", description=__doc__)
    parser.add_argument("--state", metavar="DIR", help="[default: $FIRSTFLIGHT_LAB, else var/lab]")
    parser.add_argument("--host", required=True)
    parser.add_argument("--to", required=True, metavar="ADDRESS:PORT")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    address, _, port = options.to.rpartition(":")
    if not address or not port.isdecimal() or not 0 < int(port) <= 65535:
        parser.error(f"--to {options.to}: write it as ADDRESS:PORT")
    try:
        record = locate(options.state).require()
        listener = listen(options.port)
        if options.host not in record.hosts:
            raise UsageError(f"the lab has no host {options.host!r}; its hosts are {', '.join(record.hosts)}")
        enter.enter_host(record, options.host)
    except FirstflightError as error:
        print(f"forward: {error}", file=sys.stderr)
        return error.exit_status
    print(f"READY {listener.getsockname()[1]}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(listener, address, int(port)))
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)
