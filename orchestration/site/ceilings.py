"""ceilings.toml: upper limits of a vantage point, which its centre cannot raise.

The file is local: the environment variable FIRSTFLIGHT_CEILINGS names it, and the centre never replaces it.
Missing keys have the values of docs/ethics.md, and the rates and ports of this vantage point in
vantage_points.toml. The file can be stricter; only `networks`, `ports`, `rate` and `scan_networks` can permit
more. If a centre's settings exceed a ceiling, the vantage point refuses all settings. It does not reduce a
rate silently, because the settings of the run would then be wrong.

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

from downloader.files import targets
from firstflight import settings
from firstflight.egress import lab
from firstflight.errors import InputError, UsageError
from firstflight.layout import RunLayout
from firstflight.settings.types import LabNetwork, Rate, ScanNetwork, is_in, is_ours
from orchestration.site.vantage_points import SiteVantagePoint

VARIABLE = "FIRSTFLIGHT_CEILINGS"
_DEFAULTS = settings.Backoff()

Port = Annotated[int, Field(ge=1, le=65535)]


class Ceilings(settings.Section):
    """Upper limits for settings from a centre; rates are per second."""

    # Private and lab networks in `probe.allow_net` and for resolvers. The lab's networks are contacted only
    # in the lab.
    networks: tuple[LabNetwork, ...] = lab.RANGES
    # Ports of servers, also in the URLs of files to download. Resolvers have port 53.
    ports: tuple[Port, ...] = (443,)
    # New probes per second; by default the larger one of `scan_rate` and `watch_rate`.
    rate: Rate | None = None
    # New probes per second to an address; 0 (no limit) is rejected.
    per_address_rate: float = Field(default=1, gt=0, le=1)
    # New probes per second to a /24 or /48; 0 (no limit) is rejected.
    per_prefix_rate: float = Field(default=10, gt=0, le=10)
    # New handshakes per second.
    handshake_rate: float = Field(default=50, gt=0, le=50)
    # Networks that ZMap may scan from here.
    scan_networks: tuple[ScanNetwork, ...] = ()
    # Datagrams of a scan per second.
    network_scan_rate: float = Field(default=100, gt=0, le=100)
    # New TCP connections per second of a survey of options.
    tcp_options_rate: float = Field(default=100, gt=0, le=100)
    # Queries per second to a resolver.
    resolver_rate: float = Field(default=200, gt=0, le=200)
    # Bytes per download.
    download_bytes: int = Field(default=10_485_760, ge=1, le=10_485_760)
    # Whether downloads are permitted here.
    downloads: bool = True
    # Whether complete handshakes are permitted here.
    handshakes: bool = True


def of_this_machine() -> Ceilings:
    """Return this machine's ceilings. UsageError if the file that the variable names is missing or wrong."""
    file = os.environ.get(VARIABLE)
    if file is None:
        return Ceilings()
    if not file:
        raise UsageError(f"{VARIABLE} is empty: set it to the file of ceilings, or unset it")
    try:
        data = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file} ({VARIABLE}): {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    try:
        return Ceilings.model_validate(data)
    except ValidationError as error:
        raise UsageError(
            "\n".join(settings.fault_message(file, fault, Ceilings) for fault in error.errors())
        ) from error


def faults(requested: settings.Settings, point: SiteVantagePoint, ceilings: Ceilings) -> Iterator[str]:
    """Yield one sentence for each of a centre's settings above the ceilings of the vantage point `point`."""
    yield from _networks(requested, ceilings)
    if lab.is_lab():
        return
    yield from _ports(requested, point, ceilings)
    for setting, value, most in _maxima(requested, point, ceilings):
        if not 0 < value <= most:  # 0 is no limit
            yield f"{setting} is {value:g}, and at most {most:g} is permitted here"
    for setting, value, least in _minima(requested):
        if value < least:
            yield f"{setting} is {value:g}, and at least {least:g} is required here"
    for network in requested.scan.networks if requested.scan.enabled else ():
        if not is_in(network, ceilings.scan_networks):
            yield f"scan.networks has {network}, which is not in the scan_networks permitted here"
    if not requested.backoff.enabled:
        yield "backoff.enabled is false, but this vantage point always pauses networks in trouble"
    if not requested.campaign.shared_limits:
        yield "campaign.shared_limits is false, but vantage points must share their limits outside of the lab"
    if requested.download.enabled and not ceilings.downloads:
        yield "download.enabled is true, but this vantage point downloads nothing"
    if (requested.handshake.enabled or requested.calibrate.enabled) and not ceilings.handshakes:
        yield "handshake.enabled or calibrate.enabled is true, but this vantage point completes no handshakes"


def faults_of_files(requested: settings.Settings, run: RunLayout, ceilings: Ceilings) -> Iterator[str]:
    """Yield a sentence for each port of a fetched run's files to download that is not permitted.

    A file that cannot be read here is no fault: the stage cannot read it either, and contacts no host.
    """
    if lab.is_lab():
        return
    ports: set[int] = set()
    targets_file = requested.download.targets
    if targets_file is not None and targets_file.is_file():
        with suppress(InputError):
            ports |= {
                target.port for target in targets.read(targets_file) if isinstance(target, targets.Target)
            }
    crawled = run.crawl("download_file")
    if crawled.is_file():
        ports |= _ports_of_crawl(crawled)
    for port in sorted(ports - set(ceilings.ports)):
        yield f"the files to download have URLs with port {port}, which is not in the ports permitted here"


def _ports_of_crawl(path: Path) -> set[int]:
    """Return the ports of the URLs that a crawl found; URLs that are not targets are never contacted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    ports = set()
    with suppress(OSError, pa.ArrowException, KeyError):
        # As a dictionary, so that repeated values are in memory only once.
        table = pq.ParquetFile(path, read_dictionary=["url"])
        for batch in table.iter_batches(columns=["url"]):
            for url in batch.column("url").unique().to_pylist():
                with suppress(ValueError):
                    ports.add(targets.of(0, url or "", "").port)
    return ports


def _networks(requested: settings.Settings, ceilings: Ceilings) -> Iterator[str]:
    for text in requested.probe.allow_net:
        if not _is_inside(text, ceilings):
            yield f"probe.allow_net has {text}, which is not in the networks permitted here"
    for text in filter(None, (requested.resolve.resolver, *requested.resolve.resolvers)):
        address = re.split("[#,]", text)[0]
        if not ipaddress.ip_address(address).is_global and not _is_inside(address, ceilings):
            yield f"the resolver {address} is in a private network: name it here, as `resolver`"


def _is_inside(text: str, ceilings: Ceilings) -> bool:
    network = ipaddress.ip_network(text)
    permitted = [ipaddress.ip_network(network_text) for network_text in ceilings.networks]
    return any(
        int(outer.network_address) <= int(network.network_address)
        and int(network.broadcast_address) <= int(outer.broadcast_address)
        for outer in permitted
        if outer.version == network.version
    )


def _ports(requested: settings.Settings, point: SiteVantagePoint, ceilings: Ceilings) -> Iterator[str]:
    for setting, port in (
        ("probe.port", requested.probe.port),
        ("tcp_options.port", requested.tcp_options.port),
    ):
        if port not in ceilings.ports:
            yield f"{setting} is {port}, which is not in the ports permitted here"
    resolvers = [re.split("[#,]", text) for text in requested.resolve.resolvers]
    for port in (requested.resolve.port, *(int(parts[1]) for parts in resolvers if len(parts) > 1)):
        if port != 53:
            yield f"resolvers have port 53, not {port}"
    for vantage in requested.vantage:
        if vantage.name == point.name:
            first, last = map(int, requested.ports_at(vantage).split("-"))
            ports_here = [
                tuple(map(int, ports.split("-"))) for ports in (point.scan_ports, point.watch_ports)
            ]
            if not any(low <= first and last <= high for low, high in ports_here):
                yield f"the source ports {first}-{last} are not within scan_ports or watch_ports here"


def _maxima(
    requested: settings.Settings, point: SiteVantagePoint, ceilings: Ceilings
) -> Iterator[tuple[str, float, float]]:
    rate = max(point.scan_rate, point.watch_rate) if ceilings.rate is None else ceilings.rate
    for vantage in requested.vantage:
        if vantage.name == point.name:
            yield "the rate of probes", requested.rate_at(vantage), rate
    yield "probe.per_address_rate", requested.probe.per_address_rate, ceilings.per_address_rate
    yield "probe.per_prefix_rate", requested.probe.per_prefix_rate, ceilings.per_prefix_rate
    yield "probe.attempts", requested.probe.attempts, 2
    yield "handshake.rate", requested.handshake.rate, ceilings.handshake_rate
    yield "calibrate.rate", requested.calibrate.rate, ceilings.handshake_rate
    if requested.scan.enabled:
        yield "scan.rate", requested.scan.rate, ceilings.network_scan_rate
    yield "tcp_options.rate", requested.tcp_options.rate, ceilings.tcp_options_rate
    yield "tcp_options.attempts", requested.tcp_options.attempts, 3
    yield "download.max_bytes", requested.download.max_bytes, ceilings.download_bytes
    if requested.resolve.rate is not None and not (point.resolver and is_ours(point.resolver)):
        yield "resolve.rate", requested.resolve.rate, ceilings.resolver_rate
    for name in ("factor", "least_share", "least_probes", "baseline_s", "window_s"):
        yield f"backoff.{name}", getattr(requested.backoff, name), getattr(_DEFAULTS, name)
    yield "watch.owned_per_minute", requested.watch.owned_per_minute, 60


def _minima(requested: settings.Settings) -> Iterator[tuple[str, float, float]]:
    yield "calibrate.gap_s", requested.calibrate.gap_s, 1
    yield "download.pause_s", requested.download.pause_s, 1
    yield "download.run_pause_s", requested.download.run_pause_s, 3600
    yield "watch.minute_s", requested.watch.minute_s, 60
    if requested.backoff.resume_after_s:  # 0: never in this repetition
        yield "backoff.resume_after_s", requested.backoff.resume_after_s, _DEFAULTS.resume_after_s
