"""Runs `firstflight scan ARGUMENTS` in an isolated network: python -m tests.external.sweep FOLDER ARGUMENTS.

The network has two hosts on a cable. The server has 198.18.48.1 to .4: .1 and .2 speak QUIC, .3 echoes every
datagram, .4 is silent. Prints one JSON object: status, stdout, stderr, and the packets that the server
received: datagrams by address, and ICMP messages.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path

from firstflight.egress.lab import MARK
from firstflight.system import children
from lab.certificates import issue, make_authority
from tests.recording.network import SERVER, RemoteHost, alone, cable, call, wait_for
from tests.waiting import until

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


def main(folder: Path, arguments: list[str]) -> None:
    """Create the network, run the command, print the result."""
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
        command = [str(Path(sys.executable).with_name("firstflight")), "scan", *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
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
    main(Path(sys.argv[1]), sys.argv[2:])
