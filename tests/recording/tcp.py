"""TCP recordings: downloads by Linux's TCP over a link with configured impairments."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.recording.network import SERVER, SERVER6, RemoteHost, behind_router, cable, call, ready, recording
from tests.waiting import PATIENCE_S

PORT = 8080
SERVE = textwrap.dedent("""
    import socket, sys, time
    address, size = sys.argv[1], int(sys.argv[2])
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 8080), family=family) as listening:
        print("READY", flush=True)
        while True:
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(bytes(size))
""")
FETCH = textwrap.dedent("""
    import socket, struct, sys, time
    address, size, what = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as connection:
        if what == "slow":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if what == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.connect((address, 8080))
        connection.sendall(b"GET")
        if what == "slow":
            time.sleep(0.7)
        got = 0
        while piece := connection.recv(65536):
            got += len(piece)
            if what == "reset" and got > size // 2:
                sys.exit()
        assert got == size, got
""")


@dataclass
class Tcp:
    """One recording. `prepare` configures the server's side of the link."""

    size: int = 300_000
    prepare: Callable[[RemoteHost], None] | None = None
    family: int = 4
    # Headers are sufficient, so the captures truncate packets after them.
    snap: int = 128
    at: str = "client"
    offload: bool = False
    client: str = "plain"
    expression: str = "tcp"
    # If set, the client is reached through a router with this MTU, and the capture is made on the router.
    narrow: int | None = None


def slow(host: RemoteHost, rate: str = "20mbit") -> None:
    host.call(
        "tc", "qdisc", "add", "dev", "far", "root", "tbf", "rate", rate, "burst", "10kb", "latency", "30ms"
    )


def nft(host: RemoteHost, rule: str) -> None:
    """Add a rule for large packets from the server."""
    text = f"""
table inet path {{
  chain out {{
    type filter hook output priority 0
    meta length > 1000 {rule}
  }}
}}
"""
    subprocess.run(host.argv("nft", "-f", "-"), input=text, text=True, check=True)


def lossy(host: RemoteHost) -> None:
    slow(host)
    nft(host, "numgen random mod 100 < 3 drop")


def reordering(host: RemoteHost) -> None:
    """Delay every tenth large packet in a slower queue."""
    host.call("tc", "qdisc", "add", "dev", "far", "root", "handle", "1:", "htb", "default", "1")
    for minor, rate in (("1", "20mbit"), ("2", "3mbit")):
        host.call(*f"tc class add dev far parent 1: classid 1:{minor} htb rate 1gbit quantum 3000".split())
        queue = f"tc qdisc add dev far parent 1:{minor} tbf rate {rate} burst 3kb latency 60ms"
        host.call(*queue.split())
    nft(host, "numgen inc mod 10 == 0 meta priority set 1:2")


def big(host: RemoteHost) -> None:
    """Enable segments larger than IP's length field allows."""
    argv = (sys.executable, "-m", "tests.recording.bigtcp")
    call(*argv, "near", "130000")
    host.call(*argv, "far", "130000")


RECORDINGS: dict[str, Tcp] = {
    "tcp_loss": Tcp(prepare=lossy),
    "tcp_loss_ipv6": Tcp(prepare=lossy, family=6),
    "tcp_loss_at_server": Tcp(prepare=lossy, at="server"),
    "tcp_reordering": Tcp(prepare=reordering),
    "tcp_zero_window": Tcp(size=200_000, client="slow"),
    "tcp_reset": Tcp(prepare=slow, client="reset"),
    "tcp_offload": Tcp(size=2_000_000, offload=True, at="server"),
    "tcp_jumbo": Tcp(size=3_000_000, offload=True, at="server", prepare=big),
    # The filter checks the first header, and in a jumbogram this is not the TCP header.
    "tcp_jumbo_ipv6": Tcp(size=3_000_000, offload=True, at="server", family=6, prepare=big, expression="ip6"),
    # Later fragments have no port to filter on, and the test needs them in full.
    "tcp_fragments": Tcp(size=20_000, narrow=600, snap=0, expression="ip"),
    "tcp_from_server_only": Tcp(prepare=lossy, expression="tcp and src port 8080"),
    "tcp_from_client_only": Tcp(prepare=lossy, expression="tcp and dst port 8080"),
}


def record(name: str, _folder: Path, out: Path) -> None:
    """Make OUT/NAME.pcap."""
    recorded = RECORDINGS[name]
    server = SERVER if recorded.family == 4 else SERVER6
    with ExitStack() as stack:
        host = stack.enter_context(cable(offload=recorded.offload))
        if recorded.prepare is not None:
            recorded.prepare(host)
        interface, place = {"client": ("near", None), "server": ("far", host)}[recorded.at]
        fetch = [sys.executable, "-c", FETCH, server, str(recorded.size), recorded.client]
        if recorded.narrow is not None:
            behind = stack.enter_context(behind_router(host, recorded.narrow))
            fetch, interface = behind.argv(*fetch), "narrow"
        stack.enter_context(ready(host.argv(sys.executable, "-c", SERVE, server, str(recorded.size))))
        file = out / f"{name}.pcap"
        stack.enter_context(recording(file, interface, recorded.expression, host=place, snap=recorded.snap))
        subprocess.run(fetch, check=True, timeout=PATIENCE_S)
