"""Runs inside a guest: datagrams over a path of 50 ms each way; prints when each left and came back.

python echo.py PAIRS: one line `SENT RECEIVED PAYLOAD` each (ns of the guest's clock, random bytes in hex).
"""

import ctypes
import os
import socket
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
ip -n server neigh add 198.18.0.1 lladdr 02:00:00:00:00:01 dev far
tc -n client qdisc add dev near root netem delay 50ms
tc -n server qdisc add dev far root netem delay 50ms
"""


def bound(namespace: str, address: str) -> socket.socket:
    """Return a UDP socket in a network namespace."""
    with Path("/run/netns", namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0):
            raise OSError(ctypes.get_errno(), "setns")
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((address, 4433))
    return made


def main() -> None:
    """Send each datagram when the one before it is back."""
    for line in SETUP.strip().splitlines():
        subprocess.run(line.split(), check=True)
    server, client = bound("server", "198.18.0.2"), bound("client", "198.18.0.1")
    if os.fork() == 0:
        while True:
            server.sendto(*server.recvfrom(2048))
    for _ in range(int(sys.argv[1])):
        payload = os.urandom(32)
        sent = time.clock_gettime_ns(time.CLOCK_REALTIME)
        client.sendto(payload, ("198.18.0.2", 4433))
        assert client.recv(2048) == payload
        print(sent, time.clock_gettime_ns(time.CLOCK_REALTIME), payload.hex())
        time.sleep(0.01)


main()
