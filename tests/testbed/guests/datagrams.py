"""Send datagrams between two network namespaces inside a guest. Times are in ns.

python datagrams.py echo PAIRS: send PAIRS datagrams over a path of 50 ms each way, each after the previous
one has returned. Print a line `SENT RECEIVED PAYLOAD` for each (random bytes in hex).
python datagrams.py launch QDISC...: send five datagrams together, with launch times INTERVAL_NS apart
(SO_TXTIME), through that queueing discipline. Print for each the arrival time minus the launch time.
python datagrams.py buffer QDISC...: send the same five datagrams in one buffer with the first one's launch
time. The socket's pacing rate separates them by INTERVAL_NS.
"""

import ctypes
import os
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

SERVER = ("198.18.0.2", 4433)
SETUP = """
ip netns add client
ip netns add server
ip -n client link add near address 02:00:00:00:00:01 type veth peer far netns server address 02:00:00:00:00:02
ip -n client addr add 198.18.0.1/24 dev near
ip -n server addr add 198.18.0.2/24 dev far
ip -n client link set near up
ip -n server link set far up
ip -n client neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev near
ip -n server neigh add 198.18.0.1 lladdr 02:00:00:00:00:01 dev far
"""
SO_TXTIME = 61  # asm-generic/socket.h
SO_MAX_PACING_RATE = 47
UDP_SEGMENT = 103  # linux/udp.h
INTERVAL_NS = 7_000_000
BYTES = 700
"""The size of a datagram that takes INTERVAL_NS at 100,000 bytes a second."""
CLOCKS = {"etf": time.CLOCK_TAI}


def bound(namespace: str, address: str) -> socket.socket:
    """Return a UDP socket in a network namespace."""
    with Path("/run/netns", namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, SERVER[1]))
    return made


def echo(pairs: str) -> None:
    """Send each datagram when the one before it is back."""
    run("tc -n client qdisc add dev near root netem delay 50ms")
    run("tc -n server qdisc add dev far root netem delay 50ms")
    server, client = bound("server", SERVER[0]), bound("client", "198.18.0.1")
    if os.fork() == 0:
        while True:
            server.sendto(*server.recvfrom(2048))
    for _ in range(int(pairs)):
        payload = os.urandom(32)
        sent = time.clock_gettime_ns(time.CLOCK_REALTIME)
        client.sendto(payload, SERVER)
        assert client.recv(2048) == payload
        print(sent, time.clock_gettime_ns(time.CLOCK_REALTIME), payload.hex())
        time.sleep(0.01)


def launch(*qdisc: str, buffer: bool = False) -> None:
    """Send all datagrams together, then wait for each."""
    run(f"tc -n client qdisc add dev near root {' '.join(qdisc)}")
    server, client = bound("server", SERVER[0]), bound("client", "198.18.0.1")
    server.settimeout(1)
    client.connect(SERVER)
    clock = CLOCKS.get(qdisc[0], time.CLOCK_MONOTONIC)
    client.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", clock, 0))
    first = time.clock_gettime_ns(clock) + INTERVAL_NS
    sent = [(at, str(at).encode().ljust(BYTES)) for at in range(first, first + 5 * INTERVAL_NS, INTERVAL_NS)]
    if buffer:
        client.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, BYTES)
        client.setsockopt(
            socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("Q", BYTES * 10**9 // INTERVAL_NS)
        )
        sent = [(first, b"".join(content for _, content in sent))]
    for at, content in sent:
        client.sendmsg([content], [(socket.SOL_SOCKET, SO_TXTIME, struct.pack("Q", at))])
    for _ in range(5):
        at = int(server.recv(2 * BYTES))
        print(time.clock_gettime_ns(clock) - at)


def run(line: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(line.split(), check=True)


for line in SETUP.strip().splitlines():
    run(line)
if sys.argv[1] == "echo":
    echo(sys.argv[2])
else:
    launch(*sys.argv[2:], buffer=sys.argv[1] == "buffer")
