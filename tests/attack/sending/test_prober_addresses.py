"""Addresses that are never probed: unallocated, a cloud's internal ones, this machine's."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.prober.conftest import argv, write_targets
from tests.waiting import PATIENCE_S

NOT_GIVEN_OUT = "1:: ::7f00:1 1fff::1 4000::1 8000::1 e000::1 fec0::1"
PLATFORM = (
    "169.254.169.254 168.63.129.16 100.100.100.200 192.0.0.192 "
    "fd00:ec2::254 fd00:ec2::253 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 fd00:a9fe:a9fe::1"
)


def probe(
    tmp_path: Path, addresses: list[str], *options: str, own: tuple[str, ...] = ()
) -> dict[str, tuple[str, str | None]]:
    """Return address -> outcome and detail, probed in a namespace with `own` addresses and no route out."""
    targets = write_targets(tmp_path / "t.csv", [(address, "a.test", 9) for address in addresses])
    quick = ("--timeout", "0.2", "--attempts", 1, "--linger-ms", 0, "--per-address-rate", 0)
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    steps = ["ip link set lo up", *(f"ip address add {address} dev lo" for address in own), 'exec "$@"']
    done = subprocess.run(
        [
            *("unshare", *user, "--net", "sh", "-c", " && ".join(steps), "sh"),
            *argv("--targets", targets, *quick, *options),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["ip"]: (row["outcome"], row["detail"]) for row in rows}


@pytest.mark.parametrize("addresses", [NOT_GIVEN_OUT, PLATFORM])
def test_no_contact_opens_them(tmp_path: Path, addresses: str) -> None:
    found = probe(tmp_path, addresses.split(), "--contact", "me@example.org")
    assert set(found) == set(addresses.split())
    assert {outcome for outcome, _ in found.values()} == {"blocked"}
    assert all("special-purpose address (" in str(detail) for _, detail in found.values())


def test_no_permission_opens_a_platform(tmp_path: Path) -> None:
    inside = ["fd00:ec2::254", "fd20:ce::254", "fd00:42::42", "fd00:1::1"]
    found = probe(tmp_path, inside, "--allow-net", "fc00::/7")
    assert [found[address][0] for address in inside] == ["blocked"] * 3 + ["send_failed"]


def test_this_machine_is_no_target_unless_allowed(tmp_path: Path) -> None:
    local_networks = ("192.175.47.1/32", "2a00:5e1f::1/128", "10.9.9.9/32", "fd00:1::1/128")
    addresses = [address.split("/")[0] for address in local_networks]
    found = probe(tmp_path, [*addresses, "192.175.47.2"], "--contact", "me@example.org", own=local_networks)
    for address in addresses[:2]:
        assert found[address] == ("blocked", "an address of this machine")
    assert [found[address][0] for address in addresses[2:]] == ["blocked", "blocked"]
    assert found["192.175.47.2"][0] == "send_failed", "another host's, without a route to it"
    allowed = ("--allow-net", "10.9.9.0/24", "--allow-net", "fd00:1::/64")
    found = probe(tmp_path, addresses, "--contact", "me@example.org", *allowed, own=local_networks)
    assert [found[address][0] for address in addresses] == ["blocked", "blocked", "refused", "refused"]


def test_networks_that_are_local_as_a_whole_are_this_machine(tmp_path: Path) -> None:
    targets = write_targets(tmp_path / "t.csv", [("192.175.47.77", "a.test", 9)])
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    steps = 'ip link set lo up && ip route add local 192.175.47.0/24 dev lo && exec "$@"'
    command = argv("--targets", targets, "--contact", "me@example.org")
    done = subprocess.run(
        ["unshare", *user, "--net", "sh", "-c", steps, "sh", *command],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    row = json.loads(done.stdout)
    assert (row["outcome"], row["detail"]) == ("blocked", "an address of this machine")
