"""Enables segments larger than IP's length field allows (BIG TCP). Debian's iproute2 does not support this.

Run as `python -m tests.recording.bigtcp INTERFACE BYTES` in the interface's namespace.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

RTM_NEWLINK, NLM_F_REQUEST_ACK = 16, 5
# rtnetlink attributes for the largest segments of segmentation and reassembly offload, by family.
SIZES = {"gso_max_size": 41, "gro_max_size": 58, "gso_ipv4_max_size": 63, "gro_ipv4_max_size": 64}


def allow(interface: str, size: int) -> None:
    """Allow segments of up to `size` bytes on an interface. OSError if the kernel refuses."""
    attributes = b"".join(struct.pack("=HHI", 8, kind, size) for kind in SIZES.values())
    link = struct.pack("=BxHiII", socket.AF_UNSPEC, 0, socket.if_nametoindex(interface), 0, 0)
    body = link + attributes
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(body), RTM_NEWLINK, NLM_F_REQUEST_ACK, 1, 0) + body)
        (error,) = struct.unpack_from("=i", netlink.recv(4096), 16)
    if error:
        raise OSError(-error, os.strerror(-error), interface)


if __name__ == "__main__":
    allow(sys.argv[1], int(sys.argv[2]))
