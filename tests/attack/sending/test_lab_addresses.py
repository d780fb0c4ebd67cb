"""Python's sockets refuse an address of the lab outside the lab, in any notation."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE_S

# The hook cannot be removed, so each try has its own process; the tests' namespace has no route out.
TRY = """
import socket, sys
from firstflight.egress import lab
lab.enforce()
family, host, call = eval(sys.argv[1]), eval(sys.argv[2]), sys.argv[3]
with socket.socket(family, socket.SOCK_DGRAM) as s:
    try:
        if call == "sendto":
            s.sendto(b"x", (host, 9))
        elif call == "sendmsg":
            s.sendmsg([b"x"], [], 0, (host, 9))
        else:
            getattr(s, call)((host, 9))
    except lab.NotTheLab:
        print("refused")
    except OSError as error:
        print("reached the kernel", error)
    else:
        print("reached the kernel")
"""


def attempt(family: str, host: str, call: str) -> str:
    """Return a sending call's result: refused, or passed to the kernel."""
    argv = [sys.executable, "-c", TRY, f"socket.{family}", host, call]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout.strip()


@pytest.mark.parametrize("call", ["sendto", "connect", "connect_ex", "sendmsg"])
@pytest.mark.parametrize(
    ("family", "host"),
    [
        ("AF_INET", "'198.18.0.1'"),
        ("AF_INET", "b'198.18.0.1'"),
        ("AF_INET", "bytearray(b'198.19.255.255')"),
        ("AF_INET6", "b'2001:db8::1'"),
        ("AF_INET6", "'2001:db8:ffff::1%1'"),
        ("AF_INET6", "'::ffff:198.18.0.1'"),
        ("AF_INET6", "'::198.18.0.1'"),
        ("AF_INET6", "'64:ff9b::c612:1'"),
        ("AF_INET6", "'64:ff9b:1::198.18.0.1'"),
        ("AF_INET6", "'2002:c612:1::'"),
    ],
)
def test_it_is_refused(family: str, host: str, call: str) -> None:
    assert attempt(family, host, call) == "refused"


@pytest.mark.parametrize(
    ("family", "host"),
    [("AF_INET", "'127.0.0.1'"), ("AF_INET", "b'127.0.0.1'"), ("AF_INET6", "'64:ff9b::c614:1'")],
)
def test_others_are_not(family: str, host: str) -> None:
    assert attempt(family, host, "sendto").startswith("reached the kernel")
