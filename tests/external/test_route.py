"""The kernel's route for ZMap: of the configured source, and refused without an Ethernet address."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from firstflight.errors import UsageError
from scanner.external import route

FIRST, SECOND, MAC = "10.77.1.2", "10.77.2.2", "02:00:00:00:00:01"


@pytest.fixture
def cables() -> Iterator[None]:
    """Two cables. The default route is on the first, and packets from SECOND take the second."""
    commands = []
    for number, address in (("1", FIRST), ("2", SECOND)):
        commands += [
            f"link add name route{number} type veth peer name route{number}b",
            f"address add {address}/24 dev route{number}",
            f"link set route{number} up",
            f"link set route{number}b up",
        ]
    commands += [
        "route add 10.99.0.0/16 via 10.77.1.1",
        "route add 10.99.0.0/16 via 10.77.2.1 table 77",
        f"rule add from {SECOND} table 77",
    ]
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True)
    yield
    for command in (f"rule del from {SECOND} table 77", "link del route1", "link del route2"):
        subprocess.run(["ip", *command.split()], check=True)


@pytest.mark.usefixtures("cables")
def test_the_route_of_a_source() -> None:
    with pytest.raises(UsageError, match=r"not know the Ethernet address of 10\.77\.1\.1 on route1"):
        route.to("10.99.0.1")
    add = ["ip", "neighbour", "add", "10.77.2.1", "lladdr", MAC, "dev", "route2"]
    subprocess.run(add, check=True)
    assert route.to("10.99.0.1", SECOND) == route.KernelRoute("route2", SECOND, MAC)
    with pytest.raises(UsageError, match=r"no route to 10\.99\.0\.1 from 10\.77\.3\.3"):
        route.to("10.99.0.1", "10.77.3.3")
    assert route.to("127.0.0.9") == route.KernelRoute("lo", "127.0.0.1", None)
