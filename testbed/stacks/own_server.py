"""Starts a stack's own server with the configuration for a trial (testbed/trials/server_config.py).

python -m testbed.stacks.own_server COMMAND... --config FILE

In COMMAND, {ip}, {port}, {key} and {chain} (PEM files), {htdocs}, {congestion_control}, {mode} (`iack` or
`wait`) and {delay_us} come from the configuration; {folder} is the folder of FILE. {log} is the folder for
the server's logs; arguments with {log} are dropped if the environment does not set QLOGDIR. An argument
{no_gso}TEXT is TEXT; it is dropped if the server may use GSO. {retry}TEXT is TEXT if the server sends Retry
packets, else it is dropped. An argument {file}TEXT is the path of a file with TEXT. The response's body is
the file index.html in {htdocs}. Prints READY when the server listens.
This process then becomes the server, which writes its output to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from testbed.choices import Transport, transport
from testbed.stacks.own_program import filled

DEFAULT = "cubic"
"""The default congestion control of cells."""
_LISTENS_S = 50.0
_NO_GSO, _RETRY, _FILE, _LOG = "{no_gso}", "{retry}", "{file}", "{log}"
_MODES = {"retry": "wait", "retry_iack": "iack"}
"""The mode of the server after a Retry."""
_LISTENING = "0A"
"""The state of a listening TCP socket in /proc/net/tcp (TCP_LISTEN)."""


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
        "folder": str(folder),
        "mode": _MODES.get(endpoint["mode"], endpoint["mode"]),
        "delay_us": str(endpoint["delay_us"]),
        "log": os.environ.get("QLOGDIR", ""),
        "congestion_control": configuration.get("transport", {}).get("congestion_control", DEFAULT),
    }


def argv(command: list[str], configuration: dict[str, Any], folder: Path) -> list[str]:
    """Return COMMAND with a configuration's values. Creates {htdocs} and the file in `folder`."""
    given = names(configuration, folder)
    dropped = [_NO_GSO] if configuration.get("transport", {}).get("gso", False) else []
    if configuration["endpoints"][0]["mode"] not in _MODES:
        dropped.append(_RETRY)
    filled_in = []
    for argument in command:
        if argument.startswith(_FILE):
            file = folder / "server.conf"
            file.write_text(filled(argument.removeprefix(_FILE), **given), encoding="utf-8")
            filled_in.append(str(file))
        elif not argument.startswith(tuple(dropped)) and (given["log"] or _LOG not in argument):
            filled_in.append(filled(argument.removeprefix(_NO_GSO).removeprefix(_RETRY), **given))
    return filled_in


def listens(table: str, port: int, over: Transport) -> bool:
    """Return whether a socket in `table`, the content of /proc/net/udp or tcp, listens on the port."""
    sockets = [line.split() for line in table.splitlines()[1:]]
    return any(
        int(address.rpartition(":")[2], 16) == port and (over == "udp" or state == _LISTENING)
        for _, address, _, state, *_ in sockets
    )


def _say_ready(port: int, over: Transport) -> None:
    """Print READY as soon as a program listens on the port."""
    table = Path("/proc/self/net", over)
    until = time.monotonic() + _LISTENS_S
    while time.monotonic() < until:
        if listens(table.read_text(encoding="ascii"), port, over):
            sys.stdout.write("READY\n")
            sys.stdout.flush()
            return
        time.sleep(0.01)


def main(arguments: list[str]) -> None:
    """Replace this process by the server."""
    *command, option, file = arguments
    assert option == "--config", arguments
    configuration = json.loads(Path(file).read_text(encoding="utf-8"))
    started = argv(command, configuration, Path(file).parent)
    # The parent stops the server by this process's ID, so the server must not be a child.
    if os.fork() == 0:
        _say_ready(configuration["port"], transport(configuration["endpoints"][0]["alpn"]))
        os._exit(0)
    os.dup2(2, 1)
    os.execvp(started[0], started)


if __name__ == "__main__":
    main(sys.argv[1:])
