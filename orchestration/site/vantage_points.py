"""vantage_points.toml: the vantage points of a site and their limits.

The centre and every vantage point have the same file, next to site.toml in the folder that FIRSTFLIGHT_SITE
names. The DAG files create one task group per entry; a vantage point's worker reads its queue from it.
"""

from __future__ import annotations

import ipaddress
import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, ValidationError, model_validator

from firstflight import settings
from firstflight.egress import lists
from firstflight.errors import UsageError
from firstflight.settings.types import Address, PortRange
from firstflight.shard import WHOLE, Shard, all_of
from orchestration.site.machines import ContactUrl, Host, Label, SiteMachine

VARIABLE = "FIRSTFLIGHT_SITE"
FILE = "vantage_points.toml"


def _addresses(text: str) -> str:
    """Check a line of a block list; refuse a network with host bits, which are usually a mistake."""
    if lists.addresses(text) is None:
        raise ValueError(f"{text!r} is not an address, network or range")
    return str(ipaddress.ip_network(text)) if "/" in text else text


class ScanPart(NamedTuple):
    """A shard of a scheduled scan: its group of tasks, and the pool of tasks that send."""

    group: str
    shard: Shard
    pool: str


class SiteVantagePoint(settings.VantagePoint):
    """One vantage point of a site: an Edge worker with its own queue."""

    city: str
    # Airflow's queue; only this vantage point's worker takes tasks from it.
    queue: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,60}$")
    # Maximum new probes per second: of a scan, and of a watch.
    scan_rate: float = Field(default=500, gt=0)
    watch_rate: float = Field(default=50, gt=0)
    # Source ports: a scan and a watch may run concurrently and separate their answers by port. Of the watch's
    # ports, the first two thirds are for scheduled periods, the last third is for manual ones.
    scan_ports: PortRange = "61000-61063"
    watch_ports: PortRange = "61064-61127"
    # Addresses, networks and ranges that are never probed from here, besides the site's own lists.
    blocked: tuple[Annotated[str, AfterValidator(_addresses)], ...] = ()
    resolver: Address | None = None
    # For installation (deploy/): the cloud and region, the host for ssh, and a page about the operator of the
    # probes.
    cloud: Label | None = None
    region: Label | None = None
    ssh_host: Host | None = None
    contact_url: ContactUrl | None = None

    @model_validator(mode="after")
    def _ports_apart(self) -> SiteVantagePoint:
        (first, last), (begin, end) = (
            [int(port) for port in ports.split("-")] for ports in (self.scan_ports, self.watch_ports)
        )
        if first <= end and begin <= last:
            raise ValueError(f"scan_ports {self.scan_ports} and watch_ports {self.watch_ports} overlap")
        if end - begin + 1 < 12:
            raise ValueError(f"watch_ports {self.watch_ports} are fewer than twelve")
        if self.shards > 1 and last - first + 1 < 2 * self.shards:
            raise ValueError(
                f"scan_ports {self.scan_ports} are fewer than two for each of {self.shards} shards"
            )
        return self

    def watching(self, *, manual: bool) -> SiteVantagePoint:
        """Return this vantage point with the share of `watch_ports` for a scheduled or a manual period.

        Both may run concurrently.
        """
        first, last = (int(port) for port in self.watch_ports.split("-"))
        cut = first + (last - first + 1) * 2 // 3
        ports = f"{cut}-{last}" if manual else f"{first}-{cut - 1}"
        return self.model_copy(update={"watch_ports": ports})

    @property
    def scan_pool(self) -> str:
        """Pool with one slot, for the scan that sends at `scan_rate`."""
        return f"scan_{self.name}"

    @property
    def scan_parts(self) -> list[ScanPart]:
        """The parts of a scan that run concurrently: one for each shard.

        Each has its own pool, so that two scans never use the source ports and turns of the same shard.
        """
        if self.shards == 1:
            return [ScanPart("repetition", WHOLE, self.scan_pool)]
        # No name of a vantage point contains a dot.
        return [
            ScanPart(f"shard_{shard.index}", shard, f"{self.scan_pool}.{shard.index}")
            for shard in all_of(self.shards)
        ]

    @property
    def survey_parts(self) -> list[ScanPart]:
        """A survey's single part, which is not divided and has the turns of the first shard.

        It waits for the shard's scans, and they wait for it.
        """
        return [ScanPart("repetition", WHOLE, self.scan_parts[0].pool)]

    @property
    def download_parts(self) -> list[ScanPart]:
        """The single part of a run of downloads: concurrent downloads would slow each other down."""
        return [ScanPart("repetition", WHOLE, self.download_pool)]

    @property
    def download_pool(self) -> str:
        """Pool with one slot, so that only one run downloads at a time."""
        return f"download_{self.name}"

    @property
    def watch_pool(self) -> str:
        """Pool with two slots: for the period that sends at `watch_rate`, and for the next one."""
        return f"watch_{self.name}"

    @property
    def work_pool(self) -> str:
        """Pool for tasks that send nothing: fetching, dissecting, loading."""
        return f"work_{self.name}"


class VantagePoints(settings.Section):
    """All vantage points of a site, and its other machines."""

    vantage: tuple[SiteVantagePoint, ...]
    # For installation: without [store] or [dashboard] these are at the centre.
    centre: SiteMachine | None = None
    store: SiteMachine | None = None
    dashboard: SiteMachine | None = None

    @model_validator(mode="after")
    def _vantage_points_differ(self) -> VantagePoints:
        if not self.vantage:
            raise ValueError("there is no [[vantage]]: declare at least one")
        for field in ("name", "queue"):
            values = [getattr(vantage, field) for vantage in self.vantage]
            for value in values:
                if values.count(value) > 1:
                    raise ValueError(f"two vantage points have the {field} {value}")
        return self

    def named(self, name: str) -> SiteVantagePoint:
        """Return the vantage point called `name`; UsageError if it is not declared."""
        for vantage in self.vantage:
            if vantage.name == name:
                return vantage
        known = ", ".join(v.name for v in self.vantage)
        raise UsageError(f"no vantage point is called {name}; {FILE} names {known}")


def site_folder() -> Path:
    """Return the folder of site.toml and vantage_points.toml; UsageError if FIRSTFLIGHT_SITE is not set."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        raise UsageError(f"{VARIABLE} is not set: set it to the folder of site.toml and {FILE}")
    return Path(folder)


@cache
def declared() -> VantagePoints:
    """Return the site's vantage points, read once per process. UsageError: one sentence per fault."""
    return load(site_folder() / FILE)


def load(path: Path) -> VantagePoints:
    """Read and check the file. UsageError: one sentence per fault; an unknown key is a fault."""
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    try:
        return VantagePoints.model_validate(data)
    except ValidationError as error:
        raise UsageError(
            "\n".join(settings.fault_message(str(path), fault, VantagePoints) for fault in error.errors())
        ) from error


def pools(points: VantagePoints) -> dict[str, dict[str, Any]]:
    """Return the input of `airflow pools import`: four pools per vantage point, and one more for each
    further shard.

    Every task of a vantage point is in one of these pools, so that tasks that wait for an unreachable vantage
    point occupy no slots of others.
    """
    content: dict[str, dict[str, Any]] = {}
    for vantage in points.vantage:
        most = "at most {:g} new probes per second"
        for name, slots, description in (
            *(
                (
                    part.pool,
                    1,
                    f"{_of_scan(part.shard)} at a time, {most.format(vantage.scan_rate / part.shard.count)}",
                )
                for part in vantage.scan_parts
            ),
            # Two slots: for the running period, and for the next one, which starts before the running one
            # finishes.
            (vantage.watch_pool, 2, f"one watch, and the next waiting, {most.format(vantage.watch_rate)}"),
            (vantage.download_pool, 1, "the downloads of one run at a time, one download after the other"),
            (vantage.work_pool, 1 + vantage.shards, "tasks that send nothing: fetching, dissecting, loading"),
        ):
            text = f"{vantage.city}: {description}"
            content[name] = {"slots": slots, "description": text, "include_deferred": False}
    return content


def _of_scan(shard: Shard) -> str:
    return "one scan" if shard.is_whole else f"shard {shard} of one scan"
