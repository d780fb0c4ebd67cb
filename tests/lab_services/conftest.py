"""The services of the whole lab, started once for all tests in this folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.declared.internet import Internet, load
from lab.hosts.services import services

from .world import ServiceWorld, host


@dataclass(frozen=True)
class RunningWorld:
    """A world with all services, and the Internet that they serve."""

    world: ServiceWorld
    internet: Internet
    state: Path

    @property
    def trust(self) -> dict[str, str]:
        """Return an environment that trusts the lab's authority."""
        return {"REQUESTS_CA_BUNDLE": str(self.state / "certificates" / "ca.pem")}


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorld]:
    folder = tmp_path_factory.mktemp("lab-services")
    internet = load()
    hosts = [host(internet, kind) for kind in ("dns", "web", "files")]
    hosts += [mirror for mirror in internet.hosts if mirror.kind == "mirror"]
    world = ServiceWorld(folder, hosts, host(internet, "dns").v4)
    try:
        world.start(services(internet, folder / "state"))
        yield RunningWorld(world, internet, folder / "state")
    finally:
        world.close()
