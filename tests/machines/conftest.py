"""The machines of `make deploy-test`, on the lab's hosts, on one disk that is a file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy import dist
from lab import internet, launch
from lab.state import State
from tests.machines.machine import Key, Machine, make_bridge, run
from tests.machines.site import Site

# Machine -> the lab's host whose network it has.
HOSTS = {
    "centre": "centre",
    "store": "hong_kong",
    "hamburg": "hamburg",
    "los_angeles": "los_angeles",
    "sao_paulo": "sao_paulo",
}
DISK = "40G"  # sparse


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose machines run, and on which nothing is installed yet; `sao_paulo` is not part of it."""
    assert os.geteuid() == 0, "machines need root: run `make deploy-test` as root"
    assert shutil.which("systemd-nspawn"), "systemd-nspawn is missing: install Debian's systemd-container"
    assert (dist.OUT / "SHA256SUMS").is_file(), "dist/ is not there: run `make dist`"
    folder = tmp_path_factory.mktemp("machines")
    with ExitStack() as stack:
        disk = _disk(folder)
        stack.callback(run, "umount", "--lazy", str(disk))
        lab = State(folder / "lab")
        launch.up(lab, internet.DEFAULT, capture_edges=False, realtime=True, progress=lambda _: None)
        stack.callback(launch.down, lab)
        make_bridge()
        key = Key(folder / "ssh")
        key.make()
        named = {host.name: host for host in internet.load(lab.behaviour_file).hosts}
        resolver = named["dns"].v4
        netns = Path(f"/proc/{lab.require().pid}/root/run/netns")
        machines = {
            name: Machine(name, 10 + number, disk, netns / host, resolver, key)
            for number, (name, host) in enumerate(HOSTS.items())
        }
        addresses = {name: (named[host].v4, named[host].v6) for name, host in HOSTS.items()}
        for machine in machines.values():
            stack.callback(machine.stop)
            machine.boot()
        found = Site(folder / "site", lab, key, machines, addresses, ["hamburg", "los_angeles"])
        found.prepare()
        yield found


def _disk(folder: Path) -> Path:
    """Return a file system in a file: an overlay of `/` cannot have its upper layer in `/`."""
    image, disk = folder / "disk.img", folder / "disk"
    run("truncate", "-s", DISK, str(image))
    run("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "lazy_itable_init=1", str(image))
    disk.mkdir()
    try:
        run("mount", "-o", "loop", str(image), str(disk))
    except subprocess.CalledProcessError as error:
        raise AssertionError(f"this machine has no loop device: {error.stderr}") from error
    return disk
