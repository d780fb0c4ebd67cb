"""The lab's sites with files on loopback: nginx, the odd server and BIND, without the lab around them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.declared import file_sites
from lab.declared.file_sites import ZONE, FileSite
from lab.hosts import certificates, file_host
from tests.resolve.named import Named
from tests.waiting import PATIENCE_S, until

FIRST = "127.1.0.1"
# The lab's list blocks a network; the test's list blocks this address.
BLOCKED = file_sites.sites()[0].ip

Row = dict[str, Any]


@dataclass
class CrawlWorld:
    """Servers, and the options with which `firstflight crawl` reaches them."""

    folder: Path
    sites: list[FileSite]
    named: Named
    authority: Path
    logs: list[Path] = field(default_factory=list)

    @property
    def odd(self) -> str | None:
        """An address of the odd server, which also serves names that are not among the sites."""
        return next(site.ip for site in self.sites if site.kind == "odd")

    def argv(self, targets: Path, *more: str) -> list[str]:
        """Return the command line for a crawl of the names in `targets`."""
        return [
            *(sys.executable, "-P", "-m", "cli", "crawl", "--targets", str(targets)),
            *("--resolver", f"127.0.0.1:{self.named.port}", "--roots", str(self.authority)),
            *("--allow-net", "127.0.0.0/8", "--blocklist", str(self.folder / "blocked.conf")),
            *("--rate", "500", "--per-address-rate", "50", "--contact", "crawl@example.org", *more),
        ]

    def crawl(self, names: list[str], *more: str, status: int = 0) -> list[Row]:
        """Crawl names and return the rows."""
        targets = self.folder / "targets.csv"
        targets.write_text("domain\n" + "".join(f"{name}\n" for name in names))
        done = subprocess.run(
            self.argv(targets, *more), capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == status, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def asked(self, name: str) -> list[tuple[str, str, str]]:
        """Return (method, path, user agent) of all requests to both servers for a name or its `www.` name."""
        found = []
        for line in self.logs[1].read_text().splitlines():
            if line.startswith("["):
                host, method, path, fields = json.loads(line)
                if host.removeprefix("www.") == name:
                    found.append((method, path, fields["user-agent"]))
        access = self.folder / "files" / "access.log"
        for line in access.read_text().splitlines():
            match = re.fullmatch(r'(\S+) (\S+) (\S+) \d+ "(.*)"', line)
            if match and match[1].removeprefix("www.") == name:
                found.append((match[2], match[3], match[4]))
        return found


def last_crawl(requests: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return the requests in a name's last crawl. A crawl's first request is for robots.txt."""
    begin = max(place for place, (_, path, _) in enumerate(requests) if path == "/robots.txt")
    return requests[begin:]


@contextmanager
def running(folder: Path, first: str = FIRST) -> Iterator[CrawlWorld]:
    """Run the servers in this namespace; their addresses begin with `first`."""
    sites = file_sites.sites(first)
    authority = certificates.make_authority(folder)
    zone = "".join(f"{record.name}. 60 IN A {record.data}\n" for record in file_host.records(sites))
    named = Named(folder, {ZONE: zone})
    named.start()
    world = CrawlWorld(folder, sites, named, authority.path)
    (folder / "blocked.conf").write_text("198.18.158.0/24\n")
    processes = []
    try:
        for service in file_host.services(folder, "here", sites, authority):
            log = folder / f"{service.name}.log"
            world.logs.append(log)
            with log.open("wb") as out:
                processes.append(
                    subprocess.Popen(
                        service.argv,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        cwd=service.cwd,
                        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
                    )
                )
            ready = re.compile(service.ready, re.MULTILINE)
            until(lambda log=log, ready=ready: ready.search(log.read_text()), f"{service.name} is up")  # type: ignore[misc]
        yield world
    finally:
        for process in processes:
            process.terminate()
            process.wait()
        named.stop()
