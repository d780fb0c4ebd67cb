"""Describes a campaign from its settings only (`--dry-run`); fetches and sends nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta

from firstflight.egress import shared_limits
from firstflight.run.run import Run
from firstflight.settings import Drawn, Settings
from orchestration import stages

# A, AAAA and HTTPS per name (docs/architecture.md, resolve).
QUERIES_PER_NAME = 3


def describe(settings: Settings) -> Iterator[str]:
    """Yield lines with names, rates, limits and durations by these settings."""
    names = _names(settings)
    yield f"names: {_source(settings)}" + (f", at most {names}" if names is not None else "")
    yield f"routing table: {_routing_table(settings)}"
    probe = settings.probe
    addresses = "all addresses" if probe.all_addresses else "the first address"
    families = " and ".join(f"IPv{family}" for family in probe.families)
    yield f"probes: {addresses} of each name, {families}, UDP port {probe.port}"
    yield (
        f"limits: {_limit(probe.per_address_rate)} per address, "
        f"{_limit(probe.per_prefix_rate)} per /24 and /48, {probe.attempts} attempts, "
        f"answer window {probe.timeout_s:g} s"
    )
    if probe.per_address_rate or probe.per_prefix_rate:
        together = len(settings.vantage) > 1 and settings.campaign.shared_limits
        yield f"these limits hold for {'all vantage points together' if together else 'each vantage point'}"
    control = settings.manners.control
    if settings.manners.enabled and control:
        yield f"control names: {', '.join(control)}, every {settings.manners.control_every_s:g} s"
    lists = [str(path) for path in (*probe.blocklist, *probe.optout)]
    yield f"lists: {', '.join(lists) or 'none but the special-purpose ranges'}"
    yield f"contact: {settings.campaign.contact or 'none'}" + (
        f" (only {', '.join(probe.allow_net)} can be probed)" if not settings.campaign.contact else ""
    )
    if settings.handshake.enabled:
        yield _handshakes(settings, names)
    if settings.calibrate.enabled:
        yield _pairs(settings, names)
    if settings.tcp_options.enabled:
        yield _tcp_options(settings, names)
    if settings.crawl.enabled:
        yield _crawl(settings, names)
    if settings.download.enabled:
        yield _downloads(settings)
    longest = 0.0
    rates = settings.resolve.rates()
    queries = math.inf if None in rates else sum(rate for rate in rates if rate is not None)
    resolving = ", queries without a limit" if math.isinf(queries) else f", {queries:g} queries per second"
    for vantage in settings.vantage:
        rate = settings.rate_at(vantage)
        line = f"{vantage.name}: at most {rate:g} probes per second{resolving}"
        if names is not None and not probe.all_addresses:
            probes = names * len(probe.families)
            seconds = names * QUERIES_PER_NAME / queries + probes / rate + probe.timeout_s
            if settings.handshake.enabled:
                connections = _drawn(settings.handshake, names) * len(probe.families)
                seconds += connections / settings.handshake.rate + settings.handshake.timeout_s
            if settings.calibrate.enabled:
                seconds += _pairs_s(settings, names)
            if settings.tcp_options.enabled:
                connections = _drawn(settings.tcp_options, names) * len(probe.families)
                seconds += connections / settings.tcp_options.rate + settings.tcp_options.timeout_s
            longest = max(longest, seconds)
            line += (
                f", at most {probes} probes, about {_duration(seconds)} a repetition if no limit delays it"
            )
        if vantage.shards > 1:
            line += f"; {vantage.shards} shards"
        if vantage.command:
            line += f"; behind {' '.join(vantage.command)}"
        yield line
    campaign = settings.campaign
    total = campaign.repetitions * max(longest, 0)
    if campaign.repetitions > 1:
        total = (campaign.repetitions - 1) * max(longest, campaign.repetition_interval_s) + longest
    interval = _duration(campaign.repetition_interval_s)
    altogether = f"; about {_duration(total)} altogether" if longest else ""
    yield f"repetitions: {campaign.repetitions}, {interval} from start to start{altogether}"


def describe_watch(settings: Settings, period_s: float, periods: int) -> Iterator[str]:
    """Yield lines that describe a watch; UsageError if it would exceed a limit."""
    watch, names = settings.watch, _names(settings)
    yield f"once in {watch.minute_s:g} s: {_source(settings)}" + (f", at most {names}" if names else "")
    if watch.owned:
        yield (
            f"{watch.owned_per_minute} times in {watch.minute_s:g} s: {', '.join(watch.owned)} "
            f"(ownership: {watch.ownership})"
        )
    if names:
        shared_limits.check_watch(settings, names)
        per_minute = (names + len(watch.owned) * watch.owned_per_minute) * len(watch.families)
        slots = round(per_minute * period_s / watch.minute_s)
        yield f"at most {slots} slots a period and vantage point, one connection each"
    for vantage in settings.vantage:
        yield f"{vantage.name}" + (f"; behind {' '.join(vantage.command)}" if vantage.command else "")
    yield f"periods: {periods}, {_duration(period_s)} each"


def outstanding(run: Run) -> Iterator[str]:
    """Yield a line for each key and stage of a run that is not done."""
    plan, settings = stages.plan_of(run), run.settings
    for name in stages.names([*stages.at_centre(), *stages.from_centre(plan, settings)]):
        if not run.done(name):
            yield f"to do: {name}"
    wanted = stages.names([*stages.at_vantage(plan, settings), *stages.afterwards(plan, settings)])
    for repetition in range(1, int(run.manifest["repetitions"]) + 1):
        for vantage in run.settings.vantage:
            for key in stages.keys(run, vantage.name, repetition):
                missing = [name for name in wanted if not run.done(name, key)]
                if missing:
                    yield f"to do: {key}: {', '.join(missing)}"


def _downloads(settings: Settings) -> str:
    """Return the line about the download stage: its budget per vantage point and repetition."""
    chosen = settings.download
    drawn = f"{chosen.per_cdn or 'all'} files of each CDN and {chosen.others or 'all'} of other networks"
    sets = len({*chosen.sets, "warmup"})
    often = "once in each repetition"
    if len(settings.vantage) > 1:
        often = f"once in {chosen.run_pause_s:g} s from all vantage points"
        if not settings.campaign.shared_limits:
            often = "once in each repetition from each vantage point, which share no limits"
    return (
        f"downloads: {drawn}, {sets} of each file ({', '.join(chosen.sets)}), at most "
        f"{chosen.max_bytes / 2**20:g} MiB and {chosen.timeout_s:g} s each, one at a time; a name and "
        f"address gets them {often}"
    )


def _crawl(settings: Settings, names: int | None) -> str:
    """Return the line about the crawl stage."""
    crawl = settings.crawl
    counts = [count for count in (names, crawl.limit) if count is not None]
    known = f" of at most {min(counts)} names" if counts else ""
    return (
        f"crawl: the web site of each name{known}, from the centre; {crawl.max_requests} requests each, "
        f"at most {crawl.rate:g} requests per second, {_limit(crawl.per_address_rate)} per address"
    )


def _handshakes(settings: Settings, names: int | None) -> str:
    """Return the line about the handshake stage."""
    handshake = settings.handshake
    return (
        f"handshakes: {_with(handshake, names)}, one HTTP/3 HEAD request of {handshake.path} each; "
        f"at most {handshake.rate:g} per second and vantage point"
    )


def _pairs(settings: Settings, names: int | None) -> str:
    """Return the line about the calibrate stage."""
    calibrate = settings.calibrate
    return (
        f"pairs of a probe and a handshake: {_with(calibrate, names)}, in blocks of {calibrate.block}; "
        f"at most {calibrate.rate:g} connections per second and vantage point"
    )


def _tcp_options(settings: Settings, names: int | None) -> str:
    """Return the line about the tcp_options stage."""
    survey = settings.tcp_options
    return (
        f"TCP options: {_with(survey, names)}, a TCP connection to port {survey.port} each; "
        f"at most {survey.rate:g} per second and vantage point"
    )


def _pairs_s(settings: Settings, names: int) -> float:
    """Return how many seconds the pairs take if some server of each step of each block is silent."""
    calibrate = settings.calibrate
    pairs = _drawn(calibrate, names) * len(settings.probe.families)
    silent = 2 * (settings.probe.timeout_s + settings.handshake.timeout_s)
    blocks = math.ceil(pairs / calibrate.block)
    return 2 * pairs / calibrate.rate + blocks * (4 * calibrate.gap_s + silent)


def _with(sample: Drawn, names: int | None) -> str:
    """Return which names a stage that draws them contacts."""
    known = "" if names is None else f", at most {_drawn(sample, names)}"
    of = f" with addresses of {', '.join(sample.cdn)}" if sample.cdn else ""
    return f"with {sample.share * 100:g} % of the names{of}{known}"


def _drawn(sample: Drawn, names: int) -> int:
    """Return the most names that are drawn, about: the draw is random."""
    share = math.ceil(names * sample.share)
    return share if sample.limit is None else min(share, sample.limit)


def _names(settings: Settings) -> int | None:
    targets = settings.targets
    if targets.file is None:
        # Two lists may have no name in common.
        return targets.top and targets.top * (2 if targets.source == "tranco+crux" else 1)
    with targets.file.open("rb") as file:
        lines = sum(1 for line in file if line.strip() and not line.startswith(b"#"))
    return lines if targets.top is None else min(lines, targets.top)


def _source(settings: Settings) -> str:
    targets = settings.targets
    if targets.source == "file":
        return str(targets.file)
    tranco = f"Tranco list {targets.list_id}" if targets.list_id else f"Tranco list of {targets.date}"
    crux = f"CrUX list of {targets.crux_month}"
    return {"crux": crux, "tranco+crux": f"{tranco} and {crux}"}.get(targets.source, tranco)


def _routing_table(settings: Settings) -> str:
    if settings.as_data.rib == "file":
        return ", ".join(str(path) for path in settings.as_data.files)
    return f"RouteViews, {settings.as_data.date}"


def _limit(rate: float) -> str:
    return f"{rate:g}/s" if rate else "no limit"


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
