"""A server that sends chosen contents, sealed like a real server's answer.

It runs as a program in a separate network namespace, where it may also forge ICMP.

    python -m tests.attack.servers.answering FOLDER ANSWER [ICMP_SOURCE QUOTED_BYTES]

writes FOLDER/probe.pcap and prints the prober's row and summary as JSON.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from firstflight.capture import TcpdumpCapture
from tests.dissect import build
from tests.prober.conftest import LOOPBACK, argv, write_targets

HOST = "127.0.0.1"
NAME = "attacked.test"
MOST_DELAY = (1 << 62) - 1


def short_hello() -> bytes:
    """Return a ServerHello with a one-byte length field."""
    hello = build.server_hello()
    return hello[:1] + b"\0\0\1" + hello[4:]


# Frames of the answering Initial, and its size or null for no padding.
ANSWERS: dict[str, tuple[bytes, int | None]] = {
    "nothing": (b"", None),
    "ordinary": (build.ack() + build.crypto(build.server_hello()), 1200),
    "large": (build.ack() + build.crypto(build.server_hello()), 2049),
    "larger": (build.ack() + build.crypto(build.server_hello()), 9000),
    "largest": (build.ack() + build.crypto(build.server_hello()), 16000),
    "short hello": (build.ack() + build.crypto(short_hello()), 1200),
    "short hello alone": (build.crypto(short_hello()), 1200),
    "long hello": (build.crypto(b"\2\xff\xff\xff" + build.server_hello()[4:]), 1200),
    "most delay": (build.ack(delay=MOST_DELAY) + build.crypto(build.server_hello()), 1200),
    "smallest delay that does not fit": (build.ack(delay=1 << 60) + build.crypto(build.server_hello()), 1200),
    "most delay that fits": (build.ack(delay=(1 << 60) - 1) + build.crypto(build.server_hello()), 1200),
}


def answer(datagram: bytes, frames: bytes, size: int | None) -> bytes:
    """Return the Initial that answers a client's."""
    end = 6 + datagram[5]
    dcid, scid = datagram[6:end], datagram[end + 1 : end + 1 + datagram[end]]
    return build.initial(frames, keys_of=dcid, dcid=scid, pad_to=size)


def port_unreachable(client: tuple[str, int], server: tuple[str, int], datagram: bytes, quoted: int) -> bytes:
    """An ICMP message that quotes `quoted` bytes of the UDP datagram, header included."""
    packet = build.udp(client, server, datagram)
    message = bytes([3, 3]) + bytes(6) + packet[: 20 + quoted]
    padded = message + bytes(len(message) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return message[:2] + struct.pack("!H", ~total & 0xFFFF) + message[4:]


def serve(server: socket.socket, name: str, icmp: tuple[str, int] | None) -> None:
    """Answer every datagram: first the ICMP message, then, a little later, the answer `name`."""
    frames, size = ANSWERS[name]
    here = server.getsockname()
    while True:
        try:
            datagram, client = server.recvfrom(65536)
        except OSError:
            return
        if not datagram:
            return
        if icmp is not None:
            with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
                raw.bind((icmp[0], 0))
                raw.sendto(port_unreachable(client, here, datagram, icmp[1]), (client[0], 0))
            time.sleep(0.05)
        if frames:
            server.sendto(answer(datagram, frames, size), client)


def main() -> None:
    """Serve, probe under capture, print."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    icmp = (sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else None
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((HOST, 0))
    thread = threading.Thread(target=serve, args=(server, name, icmp), daemon=True)
    thread.start()
    port = server.getsockname()[1]
    targets = write_targets(folder / "t.csv", [(HOST, NAME, port)])
    quick = ("--timeout", "3", "--attempts", 1, "--linger-ms", 50, "--summary", folder / "summary.json")
    with TcpdumpCapture(
        folder / "probe.pcap",
        "lo",
        f"udp port {port} or icmp",
        snaplen=262144,
        buffer_kib=4096,
        drain_s=1.2,
        max_bytes=1 << 30,
    ):
        done = subprocess.run(
            argv("--targets", targets, *LOOPBACK, *quick), capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    summary = json.loads((folder / "summary.json").read_text())
    print(json.dumps({"row": json.loads(done.stdout), "summary": summary}))


if __name__ == "__main__":
    main()
