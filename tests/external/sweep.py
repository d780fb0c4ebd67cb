"""Runs commands of firstflight in an isolated network: python -m tests.external.sweep FOLDER C [+ C]...

The network has two hosts on a cable. The server has 198.18.48.1 to .4: .1 and .2 speak QUIC, .3 echoes every
datagram, .4 is silent. Prints one JSON object: status, stdout and stderr of the last command, and the packets
that the server received: datagrams by address, and ICMP messages. The command `append FILE LINE` appends a
line to a file when the server has received a datagram. `orphan` kills the next command then, suspends its
ZMap, and continues it when the command that follows has written a line to stderr.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from firstflight.egress.lab import MARK
from firstflight.system import children
from lab.hosts.certificates import issue, make_authority
from tests.recording.network import SERVER, RemoteHost, alone, cable, call, wait_for
from tests.waiting import PATIENCE_S, until

TREE = Path(__file__).resolve().parents[2]
QUIC, ECHO, SILENT = ("198.18.48.1", "198.18.48.2"), "198.18.48.3", "198.18.48.4"
_ECHO = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 443))
print("READY", flush=True)
while True:
    data, peer = server.recvfrom(2048)
    server.sendto(data, peer)
"""


def start(host: RemoteHost, *argv: str) -> subprocess.Popen[str]:
    """Start a server program on the other host."""
    process = subprocess.Popen(host.argv(*argv), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline().startswith("READY"), argv
    return process


def know_gateway() -> None:
    """Let the kernel learn the gateway's Ethernet address, because ZMap reads it from the kernel."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe_socket:
        probe_socket.sendto(b"", (SERVER, 9))
    shown = ["ip", "neighbour", "show", SERVER]
    wait_for("the gateway", lambda: "lladdr" in subprocess.run(shown, capture_output=True, text=True).stdout)


def append(heard: list[str], path: Path, line: str) -> None:
    """Append a line to a file after the first datagram."""
    until(lambda: any(" > " in packet and "ICMP" not in packet for packet in heard), "a datagram")
    with path.open("a") as file:
        file.write(f"{line}\n")


def orphan(heard: list[str], parent: subprocess.Popen[str]) -> int:
    """Kill a running command after the first datagram. Return the process id of its suspended ZMap."""
    until(lambda: any(" > " in packet and "ICMP" not in packet for packet in heard), "a datagram")
    (zmap,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    os.kill(int(zmap), signal.SIGSTOP)
    parent.kill()
    parent.wait()
    return int(zmap)


def completed(argv: list[str], suspended: int | None) -> subprocess.CompletedProcess[str]:
    """Run a command. Continue a suspended process after the first line of the command's stderr."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = ""
    if suspended is not None:
        assert process.stderr is not None
        first = process.stderr.readline()
        os.kill(suspended, signal.SIGCONT)
    stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(argv, process.returncode, stdout, first + stderr)


def split(arguments: list[str]) -> list[list[str]]:
    """Return the commands between the `+`."""
    commands: list[list[str]] = [[]]
    for argument in arguments:
        if argument == "+":
            commands.append([])
        else:
            commands[-1].append(argument)
    return commands


def swept(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run commands in the network, which a separate process creates; return the result."""
    world = [sys.executable, "-m", "tests.external.sweep", str(folder), *arguments]
    done = subprocess.run(world, cwd=TREE, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    happened: dict[str, Any] = json.loads(done.stdout)
    return happened


def main(folder: Path, commands: list[list[str]]) -> None:
    """Create the network, run the commands, print the result."""
    certificate = issue(make_authority(folder), "sweep", ["sweep.test"])
    with cable() as host:
        call("ip", "link", "set", "lo", "alias", MARK)
        call("ip", "route", "add", "default", "via", SERVER)
        know_gateway()
        for address in (*QUIC, ECHO, SILENT):
            host.call("ip", "address", "add", f"{address}/32", "dev", "lo")
        files = [str(certificate.chain), str(certificate.key), str(folder / "requests")]
        server = [sys.executable, "-m", "tests.handshake.server", "443", *files]
        running = [start(host, *server, address) for address in QUIC]
        running.append(start(host, sys.executable, "-c", _ECHO, ECHO))
        tcpdump = ["tcpdump", "-i", "far", "-n", "-l", "--immediate-mode", "-Q", "in", "udp or icmp"]
        listener = subprocess.Popen(
            host.argv(*tcpdump), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert listener.stdout is not None and listener.stderr is not None
        while "listening on" not in listener.stderr.readline():
            pass
        heard: list[str] = []
        reader = threading.Thread(target=heard.extend, args=(listener.stdout,))
        reader.start()
        is_orphaned, zmap = False, None
        for command in commands:
            if command[0] == "orphan":
                is_orphaned = True
                continue
            if command[0] == "append":
                threading.Thread(target=append, args=(heard, Path(command[1]), command[2])).start()
                continue
            argv = [str(Path(sys.executable).with_name("firstflight")), *command]
            if is_orphaned:
                is_orphaned = False
                zmap = orphan(heard, subprocess.Popen(argv, stderr=subprocess.DEVNULL, text=True))
                continue
            done = completed(argv, zmap)
            zmap = None
            if done.returncode:
                break
        # tcpdump sleeps when it has read everything. Packets that it has not read when it stops are lost.
        until(lambda: children.is_asleep(listener), "tcpdump to read everything")
        listener.terminate()
        reader.join()
        for process in running:
            process.kill()
    icmp = [line for line in heard if "ICMP" in line]
    to = [line.split(" > ")[1].split(":")[0] for line in heard if " > " in line and "ICMP" not in line]
    counts = {address: to.count(address) for address in sorted(set(to))}
    print(
        json.dumps(
            {
                "status": done.returncode,
                "stdout": done.stdout,
                "stderr": done.stderr,
                "datagrams": counts,
                "icmp": icmp,
            }
        )
    )


if __name__ == "__main__":
    alone()
    main(Path(sys.argv[1]), split(sys.argv[2:]))
