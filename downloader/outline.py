"""The download stage's part of the dry run."""

from __future__ import annotations

from collections.abc import Sequence

from downloader import option_sets
from downloader.files import draw
from downloader.option_sets import OptionSet
from downloader.transfers import http3
from firstflight.run.outline import Known, Outline, download_traffic, queries
from firstflight.settings import Settings, Vantage
from firstflight.settings.types import CHECK_ATTEMPTS


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the budget per vantage point and repetition. Its duration does not include waiting for turns.

    Raise UsageError for an unknown option set, and InputError for an unreadable list of files.
    """
    chosen = settings.download
    sets = option_sets.chosen(",".join(chosen.sets))
    lines = (_line(settings, sets),)
    sections = ("download", "resolve") if chosen.resolves_again else ("download",)
    files = _files(settings, sets, known)
    if files is None:
        return Outline(lines, sections=sections)
    downloads = files * len(sets)
    # Before QUIC downloads, one more request checks whether the server supports HTTP/3.
    head_requests = files if http3.first_quic(sets) else 0
    traffic = download_traffic(downloads + head_requests, downloads * chosen.max_bytes)
    seconds = (downloads + head_requests) * (chosen.timeout_s + chosen.pause_s)
    count = f"at most {files} files to download"
    if chosen.resolves_again:
        resolve = settings.resolve
        checks = CHECK_ATTEMPTS * len(resolve.rates())
        traffic += queries(files * (checks + resolve.attempts))
        seconds += files * resolve.longest_s()
        count += f", each after at most {checks + resolve.attempts} DNS queries"
        # If the answer arrives after the turn, the name is resolved again in the next turn.
        if settings.takes_turns:
            count += " per turn"
    return Outline(lines, None, count, traffic, seconds, sections=sections)


def _files(settings: Settings, sets: Sequence[OptionSet], known: Known) -> int | None:
    """Return the maximum number of files; `None` if unknown."""
    chosen, crawl = settings.download, settings.crawl
    if chosen.targets is not None:
        count: int | None = len(draw.of_list(chosen.targets)[0])
    else:
        counts = [count for count in (known.names, crawl.limit) if count is not None]
        count = min(counts, default=None)
    drawn = _drawn(settings, sets, known.cdns)
    return min((limit for limit in (count, drawn) if limit is not None), default=None)


def _drawn(settings: Settings, sets: Sequence[OptionSet], cdns: int | None) -> int | None:
    """Return the maximum number of files that the draw selects; `None` if unknown."""
    chosen = settings.download
    if chosen.draw == "names":
        return _of_groups(settings, cdns)
    of_tcp = _of_groups(settings, len(draw.GROUPS)) if option_sets.compares_tcp(sets) else 0
    of_quic = chosen.quic if http3.first_quic(sets) else 0
    return None if of_tcp is None or of_quic is None else of_tcp + of_quic


def _of_groups(settings: Settings, cdns: int | None) -> int | None:
    chosen = settings.download
    if cdns is None or chosen.per_cdn is None or chosen.others is None:
        return None
    return cdns * chosen.per_cdn + chosen.others


def _line(settings: Settings, sets: Sequence[OptionSet]) -> str:
    chosen = settings.download
    of_cdns, of_others = f"{chosen.per_cdn or 'all'} files of", f"{chosen.others or 'all'} of other networks"
    if chosen.draw == "names":
        drawn = f"{of_cdns} each CDN and {of_others}"
    else:
        groups = f"{', '.join(draw.GROUPS[:-1])} and {draw.GROUPS[-1]}"
        of_tcp = [f"{of_cdns} each of {groups}", of_others] if option_sets.compares_tcp(sets) else []
        of_quic = [f"{chosen.quic or 'all'} files with HTTP/3"] if http3.first_quic(sets) else []
        drawn = f"{', '.join(of_tcp + of_quic)}, of names that accept all TCP options"
    frequency = "once in each repetition"
    if len(settings.vantage) > 1:
        frequency = f"once in {chosen.run_pause_s:g} s from all vantage points"
        if not settings.campaign.shared_limits:
            frequency = "once in each repetition from each vantage point, which share no limits"
    again = ", after each name is resolved again" if chosen.resolves_again else ""
    return (
        f"downloads: {drawn}, {len(sets)} of each file ({', '.join(chosen.sets)}), at most "
        f"{chosen.max_bytes / 2**20:g} MiB and {chosen.timeout_s:g} s each, one at a time{again}; a "
        f"name and address gets them {frequency}"
    )
