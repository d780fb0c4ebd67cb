"""ceilings.toml: upper limits of a vantage point, which its centre cannot raise.

The file is local: the environment variable FIRSTFLIGHT_CEILINGS names it, and the centre never replaces it.
Missing keys have the values of docs/ethics.md, and the rates and ports of this vantage point in
vantage_points.toml. The file can be stricter; only `networks`, `ports` and `rate` can permit more. If a
centre's settings exceed a ceiling, all of them are refused. Reducing a rate silently would make the settings
of the run wrong.

In the lab, which no packet leaves, only `networks` applies.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from downloader import targets
from firstflight import settings
from firstflight.egress import lab
from firstflight.errors import InputError, UsageError
from firstflight.layout import RunLayout
from firstflight.settings.types import LabNetwork, Rate, is_ours
from orchestration.site.vantage_points import VantagePoint

VARIABLE = "FIRSTFLIGHT_CEILINGS"
_DEFAULTS = settings.Backoff()

Port = Annotated[int, Field(ge=1, le=65535)]


class Ceilings(settings.Section):
    """Upper limits for settings from a centre; rates are per second."""

    # Private and lab networks that `probe.allow_net` may name. The lab's are contacted in the lab only.
    networks: tuple[LabNetwork, ...] = lab.RANGES
    # Ports of servers.
    ports: tuple[Port, ...] = (443,)
    # New probes; None = the larger one of scan_rate and watch_rate.
    rate: Rate | None = None
    per_address_rate: float = Field(default=1, gt=0, le=1)
    per_prefix_rate: float = Field(default=10, gt=0, le=10)
    handshake_rate: float = Field(default=50, gt=0, le=50)
    tcp_options_rate: float = Field(default=100, gt=0, le=100)
    resolver_rate: float = Field(default=200, gt=0, le=200)
    # Of one download; whether files are downloaded, and handshakes completed, at all.
    download_bytes: int = Field(default=10_485_760, ge=1, le=10_485_760)
    downloads: bool = True
    handshakes: bool = True


def of_this_machine() -> Ceilings:
    """Return this machine's ceilings. UsageError if the file that the variable names is missing or wrong."""
    named = os.environ.get(VARIABLE)
    if named is None:
        return Ceilings()
    if not named:
        raise UsageError(f"{VARIABLE} is empty: set it to the file of ceilings, or unset it")
    try:
        data = tomllib.loads(Path(named).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {named} ({VARIABLE}): {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{named} is not TOML: {error}") from error
    try:
        return Ceilings.model_validate(data)
    except ValidationError as error:
        raise UsageError("\n".join(settings.fault_message(named, one) for one in error.errors())) from error


def faults(asked: settings.Settings, here: VantagePoint, ceilings: Ceilings) -> Iterator[str]:
    """Yield one sentence for each of a centre's settings above the ceilings of the vantage point `here`."""
    yield from _networks(asked, ceilings)
    if lab.is_lab():
        return
    yield from _ports(asked, here, ceilings)
    for what, value, most in _most(asked, here, ceilings):
        if not 0 < value <= most:  # 0 is no limit
            yield f"{what} is {value:g}, and at most {most:g} is permitted here"
    for what, value, least in _least(asked):
        if value < least:
            yield f"{what} is {value:g}, and at least {least:g} is required here"
    if not asked.manners.enabled:
        yield "manners.enabled is false, but this vantage point always pauses networks in trouble"
    if not asked.campaign.shared_limits:
        yield "campaign.shared_limits is false, but vantage points must share their limits outside of the lab"
    if asked.download.enabled and not ceilings.downloads:
        yield "download.enabled is true, but this vantage point downloads nothing"
    if (asked.handshake.enabled or asked.calibrate.enabled) and not ceilings.handshakes:
        yield "handshake.enabled or calibrate.enabled is true, but this vantage point completes no handshakes"


def faults_of_files(asked: settings.Settings, run: RunLayout, ceilings: Ceilings) -> Iterator[str]:
    """Yield what of a fetched run's files to download is above the ceilings.

    A file that cannot be read here has no fault: the stage cannot read it either, and contacts nobody.
    """
    if lab.is_lab():
        return
    found: set[int] = set()
    listed = asked.download.targets
    if listed is not None and listed.is_file():
        with suppress(InputError):
            found |= {one.port for one in targets.read(listed) if isinstance(one, targets.Target)}
    crawled = run.crawl("download_file")
    if crawled.is_file():
        found |= _ports_of_crawl(crawled)
    for port in sorted(found - set(ceilings.ports)):
        yield f"the files to download have URLs with port {port}, which is not in the ports permitted here"


def _ports_of_crawl(path: Path) -> set[int]:
    """Return the ports of the URLs that a crawl found; URLs that are not targets are never contacted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = set()
    with suppress(OSError, pa.ArrowException, KeyError):
        # As a dictionary, so that a value that is there often is in memory once.
        table = pq.ParquetFile(path, read_dictionary=["url"])
        for batch in table.iter_batches(columns=["url"]):
            for url in batch.column("url").unique().to_pylist():
                with suppress(ValueError):
                    found.add(targets.of(0, url or "", "").port)
    return found


def _networks(asked: settings.Settings, ceilings: Ceilings) -> Iterator[str]:
    for text in asked.probe.allow_net:
        if not _is_inside(text, ceilings):
            yield f"probe.allow_net has {text}, which is not in the networks permitted here"
    for text in filter(None, (asked.resolve.resolver, *asked.resolve.resolvers)):
        address = re.split("[#,]", text)[0]
        if not ipaddress.ip_address(address).is_global and not _is_inside(address, ceilings):
            yield f"the resolver {address} is in a private network: name it here, as `resolver`"


def _is_inside(text: str, ceilings: Ceilings) -> bool:
    network = ipaddress.ip_network(text)
    permitted = [ipaddress.ip_network(one) for one in ceilings.networks]
    return any(
        int(one.network_address) <= int(network.network_address)
        and int(network.broadcast_address) <= int(one.broadcast_address)
        for one in permitted
        if one.version == network.version
    )


def _ports(asked: settings.Settings, here: VantagePoint, ceilings: Ceilings) -> Iterator[str]:
    for what, port in (("probe.port", asked.probe.port), ("tcp_options.port", asked.tcp_options.port)):
        if port not in ceilings.ports:
            yield f"{what} is {port}, which is not in the ports permitted here"
    resolvers = [re.split("[#,]", text) for text in asked.resolve.resolvers]
    for port in (asked.resolve.port, *(int(parts[1]) for parts in resolvers if len(parts) > 1)):
        if port != 53:
            yield f"resolvers have port 53, not {port}"
    for vantage in asked.vantage:
        if vantage.name == here.name:
            first, last = map(int, asked.ports_at(vantage).split("-"))
            own = [tuple(map(int, ports.split("-"))) for ports in (here.scan_ports, here.watch_ports)]
            if not any(low <= first and last <= high for low, high in own):
                yield f"the source ports are {first}-{last}, and not within scan_ports or watch_ports of here"


def _most(
    asked: settings.Settings, here: VantagePoint, ceilings: Ceilings
) -> Iterator[tuple[str, float, float]]:
    rate = max(here.scan_rate, here.watch_rate) if ceilings.rate is None else ceilings.rate
    for vantage in asked.vantage:
        if vantage.name == here.name:
            yield "the rate of probes", asked.rate_at(vantage), rate
    yield "probe.per_address_rate", asked.probe.per_address_rate, ceilings.per_address_rate
    yield "probe.per_prefix_rate", asked.probe.per_prefix_rate, ceilings.per_prefix_rate
    yield "probe.attempts", asked.probe.attempts, 2
    yield "handshake.rate", asked.handshake.rate, ceilings.handshake_rate
    yield "calibrate.rate", asked.calibrate.rate, ceilings.handshake_rate
    yield "tcp_options.rate", asked.tcp_options.rate, ceilings.tcp_options_rate
    yield "tcp_options.attempts", asked.tcp_options.attempts, 3
    yield "download.max_bytes", asked.download.max_bytes, ceilings.download_bytes
    if asked.resolve.rate is not None and not (here.resolver and is_ours(here.resolver)):
        yield "resolve.rate", asked.resolve.rate, ceilings.resolver_rate
    for name in ("factor", "least_share", "least_probes", "baseline_s", "window_s"):
        yield f"manners.{name}", getattr(asked.manners, name), getattr(_DEFAULTS, name)
    yield "watch.owned_per_minute", asked.watch.owned_per_minute, 60


def _least(asked: settings.Settings) -> Iterator[tuple[str, float, float]]:
    yield "calibrate.gap_s", asked.calibrate.gap_s, 1
    yield "download.pause_s", asked.download.pause_s, 1
    yield "download.run_pause_s", asked.download.run_pause_s, 3600
    yield "watch.minute_s", asked.watch.minute_s, 60
    if asked.manners.resume_after_s:  # 0: never in this repetition
        yield "manners.resume_after_s", asked.manners.resume_after_s, _DEFAULTS.resume_after_s
