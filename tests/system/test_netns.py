"""Masqueraded namespaces that start at the same time, as several sessions on a machine may."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from firstflight.system import children
from tests.waiting import PATIENCE_S, until

# Waits for a line before it creates its namespace, and for another before it exits.
SESSION = """
import subprocess
import sys
from firstflight.system.network.netns import Masqueraded

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
    """Return a process in a network namespace that forwards IPv4, like a vantage point."""
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
    """Start a session with PID 1, so that all sessions start their search at the same network."""
    own_numbers = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = ["nsenter", f"--net=/proc/{machine}/ns/net", "--", *own_numbers, sys.executable, "-c", SESSION]
    pipe = subprocess.PIPE
    return children.start(argv, own_session=True, stdin=pipe, stdout=pipe, stderr=pipe)


def test_parallel_sessions_have_separate_networks(machine: int) -> None:
    with ExitStack() as stack:
        sessions = [session(machine) for _ in range(AT_ONCE)]
        for process in sessions:
            stack.callback(children.stop, process)
            assert process.stdout is not None and process.stdout.readline() == b"READY\n"
        for process in sessions:
            assert process.stdin is not None
            process.stdin.write(b"begin\n")
            process.stdin.flush()
        addresses = [process.stdout.readline() for process in sessions if process.stdout is not None]
        rest = [process.communicate(b"over\n", timeout=PATIENCE_S)[1] for process in sessions]
    assert [process.returncode for process in sessions] == [0] * AT_ONCE, rest
    assert len(set(addresses)) == AT_ONCE and b"" not in addresses, addresses
    shown = ["nsenter", f"--net=/proc/{machine}/ns/net", "--", "sh", "-c", "ip -o link; nft list tables"]

    def left() -> str:
        return subprocess.run(shown, capture_output=True, text=True, check=True).stdout

    # The kernel removes a namespace and its link soon after the last process exits.
    until(lambda: "ff-net" not in left() and "firstflight" not in left(), left)
