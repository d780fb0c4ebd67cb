"""Starts a stack's own server with the configuration of a trial (testbed/trials/server_config.py).

python -m testbed.stacks.own_server COMMAND... --config FILE

In COMMAND, {ip}, {port}, {key} and {chain} (PEM files), {htdocs} and {congestion_control} come from the
configuration. The response's body is the file index.html in {htdocs}. Prints READY when the server listens.
This process then becomes the server, which writes its output to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from testbed.stacks.own_program import filled

DEFAULT = "cubic"
"""Congestion control unless a cell chooses one."""
_LISTENS_S = 50.0
_TABLE = Path("/proc/self/net/udp")


def names(configuration: dict[str, Any], folder: Path) -> dict[str, str]:
    """Return the values of COMMAND's placeholders. Creates {htdocs} in `folder`, with the requested body."""
    (endpoint,) = configuration["endpoints"]
    certificate = configuration["certificates"][endpoint["certificate"]]
    htdocs = folder / "htdocs"
    htdocs.mkdir(exist_ok=True)
    with (htdocs / "index.html").open("wb") as body:
        body.truncate(endpoint["http"].get("body_bytes", 0))
    return {
        "ip": endpoint["ip"],
        "port": str(configuration["port"]),
        "key": certificate["key"],
        "chain": certificate["chain"],
        "htdocs": str(htdocs),
        "congestion_control": configuration.get("transport", {}).get("congestion_control", DEFAULT),
    }


def listens(table: str, port: int) -> bool:
    """Return whether a socket of /proc/net/udp, `table`, has a port."""
    addresses = [line.split()[1] for line in table.splitlines()[1:]]
    return any(int(address.rpartition(":")[2], 16) == port for address in addresses)


def _say_ready(port: int) -> None:
    """Print READY as soon as something listens."""
    until = time.monotonic() + _LISTENS_S
    while time.monotonic() < until:
        if listens(_TABLE.read_text(encoding="ascii"), port):
            sys.stdout.write("READY\n")
            sys.stdout.flush()
            return
        time.sleep(0.01)


def main(arguments: list[str]) -> None:
    """Become the server."""
    *command, option, file = arguments
    assert option == "--config", arguments
    given = names(json.loads(Path(file).read_text(encoding="utf-8")), Path(file).parent)
    argv = [filled(one, **given) for one in command]
    # The parent stops the server by this process's ID, so the server must not be a child.
    if os.fork() == 0:
        _say_ready(int(given["port"]))
        os._exit(0)
    os.dup2(2, 1)
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
