"""The machines of `make deploy-test`: in the networks of the lab's hosts, on one disk image."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from deploy import dist
from lab import launch
from lab.declared import internet
from lab.state import StateFolder
from tests.machines.machine import Key, Machine, make_bridge, run
from tests.machines.site import MachineSite

# Each has the network of the lab's host with this name.
MACHINES = ("centre", "store", "hamburg", "los_angeles", "sao_paulo", "hong_kong", "tokyo")
# Additional hosts: one for the store, and a fifth vantage point.
MORE_HOSTS = """
[[host]]
name = "store"
kind = "vantage"
v4 = "198.18.0.20"
v6 = "2001:db8:0:20::1"

[[host]]
name = "tokyo"
kind = "vantage"
v4 = "198.18.0.21"
v6 = "2001:db8:0:21::1"
"""
DISK = "40G"  # sparse
USED_BYTES = 30_000_000_000  # used on the disk, with two releases on each machine


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MachineSite]:
    """A site with running machines, before the installation; `tokyo` does not belong to the site."""
    assert os.geteuid() == 0, "machines need root: run `make deploy-test` as root"
    assert shutil.which("systemd-nspawn"), "systemd-nspawn is missing: install Debian's systemd-container"
    assert (dist.OUT / "SHA256SUMS").is_file(), "dist/ is missing: run `make dist`"
    folder = tmp_path_factory.mktemp("machines")
    free = shutil.disk_usage(folder).free
    assert free > USED_BYTES, f"{folder} has {free / 1e9:.0f} GB free, machines need {USED_BYTES / 1e9:.0f}"
    with ExitStack() as stack:
        image = folder / "disk.img"
        # pytest keeps the folders of recent sessions.
        stack.callback(image.unlink, missing_ok=True)
        disk = _disk(image)
        stack.callback(run, "umount", "--lazy", str(disk))
        lab = StateFolder(folder / "lab")
        hosts = folder / "internet.toml"
        hosts.write_text(internet.DEFAULT.read_text() + MORE_HOSTS)
        launch.up(lab, hosts, capture_edges=False, realtime=True, progress=lambda _: None)
        stack.callback(launch.down, lab)
        make_bridge()
        key = Key(folder / "ssh")
        key.make()
        named = {host.name: host for host in internet.load(lab.behaviour_file).hosts}
        resolver = named["dns"].v4
        netns = Path(f"/proc/{lab.require().pid}/root/run/netns")
        machines = {
            name: Machine(name, 10 + number, disk, netns / name, resolver, key)
            for number, name in enumerate(MACHINES)
        }
        addresses = {name: (named[name].v4, named[name].v6) for name in MACHINES}
        for machine in machines.values():
            stack.callback(machine.stop)
            machine.boot()
        vantages = ["hamburg", "los_angeles", "sao_paulo", "hong_kong"]
        found = MachineSite(folder / "site", lab, key, machines, addresses, vantages)
        found.prepare()
        yield found


def _disk(image: Path) -> Path:
    """Return a file system in an image, because an overlay of `/` cannot have its upper layer in `/`."""
    disk = image.with_suffix("")
    run("truncate", "-s", DISK, str(image))
    run("mkfs.ext4", "-q", "-O", "^has_journal", "-E", "lazy_itable_init=1", str(image))
    disk.mkdir()
    try:
        run("mount", "-o", "loop", str(image), str(disk))
    except subprocess.CalledProcessError as error:
        raise AssertionError(f"this machine has no loop device: {error.stderr}") from error
    return disk
