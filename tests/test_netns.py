"""Namespaces behind masquerading that begin in the same instant, as two sessions of one machine may."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from firstflight.system import children
from tests.waiting import until

# Waits for a line before it makes its namespace and for another before it ends.
SESSION = """
import subprocess
import sys
from firstflight.system.netns import Masqueraded

print("READY", flush=True)
sys.stdin.readline()
with Masqueraded(0, {}) as namespace:
    shown = subprocess.run(
        namespace.inside(["ip", "-4", "-o", "address", "show", "dev", namespace.interface]),
        capture_output=True, text=True, check=True,
    ).stdout
    print(shown.split()[3], flush=True)
    sys.stdin.readline()
"""
AT_ONCE = 3


@pytest.fixture(
    params=["", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6;"], ids=["ipv6", "no ipv6"]
)
def machine(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return the process whose network namespace forwards IPv4, as a vantage point's does."""
    script = f"{request.param} echo 1 > /proc/sys/net/ipv4/ip_forward; ip link set lo up; echo; exec cat"
    holder = children.start(
        ["unshare", "--net", "sh", "-e", "-c", script],
        own_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None and holder.stdout.readline()
    yield holder.pid
    children.stop(holder)


def session(machine: int) -> subprocess.Popen[bytes]:
    """Start a session that has process number 1, so all of them begin their search at the same network."""
    own_numbers = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = ["nsenter", f"--net=/proc/{machine}/ns/net", "--", *own_numbers, sys.executable, "-c", SESSION]
    pipe = subprocess.PIPE
    return children.start(argv, own_session=True, stdin=pipe, stdout=pipe, stderr=pipe)


def test_sessions_that_begin_at_once_have_a_network_each(machine: int) -> None:
    with ExitStack() as stack:
        sessions = [session(machine) for _ in range(AT_ONCE)]
        for one in sessions:
            stack.callback(children.stop, one)
            assert one.stdout is not None and one.stdout.readline() == b"READY\n"
        for one in sessions:
            assert one.stdin is not None
            one.stdin.write(b"begin\n")
            one.stdin.flush()
        addresses = [one.stdout.readline() for one in sessions if one.stdout is not None]
        rest = [one.communicate(b"over\n", timeout=60)[1] for one in sessions]
    assert [one.returncode for one in sessions] == [0] * AT_ONCE, rest
    assert len(set(addresses)) == AT_ONCE and b"" not in addresses, addresses
    shown = ["nsenter", f"--net=/proc/{machine}/ns/net", "--", "sh", "-c", "ip -o link; nft list tables"]

    def left() -> str:
        return subprocess.run(shown, capture_output=True, text=True, check=True).stdout

    # The kernel removes a namespace, and with it the link, soon after its last process.
    until(lambda: "ff-net" not in left() and "firstflight" not in left(), left)
