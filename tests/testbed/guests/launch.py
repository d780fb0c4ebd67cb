"""Runs inside a guest: datagrams with launch times of their own (SO_TXTIME), by a queueing discipline.

python launch.py QDISC...: five datagrams, INTERVAL_NS apart; one line a datagram, when it arrived less when
it should leave (ns of the guest's clock).
"""

import ctypes
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

SETUP = """
ip netns add client
ip netns add server
ip -n client link add near address 02:00:00:00:00:01 type veth peer far netns server address 02:00:00:00:00:02
ip -n client addr add 198.18.0.1/24 dev near
ip -n server addr add 198.18.0.2/24 dev far
ip -n client link set near up
ip -n server link set far up
ip -n client neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev near
"""
SO_TXTIME = 61  # asm-generic/socket.h
INTERVAL_NS = 7_000_000
CLOCKS = {"etf": time.CLOCK_TAI}


def bound(namespace: str, address: str) -> socket.socket:
    """Return a UDP socket in a network namespace."""
    with Path("/run/netns", namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, 4433))
    return made


def main() -> None:
    """Send all at once, then wait for each."""
    qdisc = sys.argv[1:]
    clock = CLOCKS.get(qdisc[0], time.CLOCK_MONOTONIC)
    for line in SETUP.strip().splitlines():
        subprocess.run(line.split(), check=True)
    subprocess.run(["tc", "-n", "client", "qdisc", "add", "dev", "near", "root", *qdisc], check=True)
    receiver, sender = bound("server", "198.18.0.2"), bound("client", "198.18.0.1")
    receiver.settimeout(1)
    sender.connect(("198.18.0.2", 4433))
    sender.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", clock, 0))
    first = time.clock_gettime_ns(clock) + INTERVAL_NS
    for at in range(first, first + 5 * INTERVAL_NS, INTERVAL_NS):
        launch = (socket.SOL_SOCKET, SO_TXTIME, struct.pack("Q", at))
        sender.sendmsg([str(at).encode()], [launch])
    for _ in range(5):
        at = int(receiver.recv(100))
        print(time.clock_gettime_ns(clock) - at)


main()
