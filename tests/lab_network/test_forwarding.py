"""Vantage hosts forward packets for namespaces inside them. These reach only the lab's hosts."""

from __future__ import annotations

import json
import subprocess

from tests.lab_network.running import Lab
from tests.waiting import until

SETTINGS = ("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding")
INSIDE = ("198.18.0.80", "2001:db8:0:80::1")  # the web host
OUTSIDE = ("203.0.113.1", "198.51.100.7", "2001:db8:ffff::1")
# Connects to each IP/SECONDS, with this timeout.
CONNECT = """
import json, socket, sys
made = {}
for ip, seconds in (each.split("/") for each in sys.argv[1:]):
    try:
        with socket.create_connection((ip, 443), timeout=float(seconds)):
            made[ip] = "connected"
    except OSError as error:
        made[ip] = str(error)
print(json.dumps(made))
"""
MASQUERADED = """
import subprocess, sys
from firstflight.system.network.netns import Masqueraded
with Masqueraded(0, {"ipv4/tcp_sack": "0"}) as space:
    argv = space.inside([sys.executable, "-c", *sys.argv[1:]])
    subprocess.run(argv, check=True)
"""


def hosts(lab: Lab) -> list[str]:
    """Return the hosts' names."""
    return list(json.loads((lab.state / "lab.json").read_text())["hosts"])


def in_core(lab: Lab, *argv: str) -> str:
    """Run a program in the namespace that has the other end of all cables; return the output."""
    pid = json.loads((lab.state / "lab.json").read_text())["pid"]
    entered = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", *argv]
    return subprocess.run(entered, capture_output=True, text=True, check=True).stdout


def test_only_vantage_hosts_forward(lab: Lab) -> None:
    forwarding = {host for host in hosts(lab) if "1" in lab.run("exec", host, "cat", *SETTINGS)}
    assert forwarding == {"hamburg", "los_angeles", "sao_paulo", "hong_kong"}
    assert in_core(lab, "cat", *SETTINGS).split() == ["0", "0"]


def test_every_cable_ends_in_a_host(lab: Lab) -> None:
    links = [line.split(": ")[1].split("@")[0] for line in in_core(lab, "ip", "-o", "link").splitlines()]
    assert sorted(links) == sorted([*hosts(lab), "lo"])
    assert in_core(lab, "ip", "-4", "-o", "address", "show", "scope", "global") == ""
    assert in_core(lab, "ip", "route", "show", "default") == ""


def test_a_masqueraded_namespace_reaches_the_lab_and_nothing_else(lab: Lab) -> None:
    wanted = [f"{ip}/60" for ip in INSIDE] + [f"{ip}/1" for ip in OUTSIDE]
    made = json.loads(lab.python("hamburg", MASQUERADED, CONNECT, *wanted))
    assert made == dict.fromkeys(INSIDE, "connected") | dict.fromkeys(OUTSIDE, "timed out")
    # The host's settings have not changed.
    assert lab.run("exec", "hamburg", "cat", "/proc/sys/net/ipv4/tcp_sack") == "1\n"

    def links() -> list[str]:
        lines = lab.run("exec", "hamburg", "ip", "-o", "link").splitlines()
        return sorted(line.split(": ")[1].split("@")[0] for line in lines)

    # The namespace is removed. The kernel removes its link some time after the last process exits.
    until(lambda: links() == ["eth0", "lo"], lambda: links())
