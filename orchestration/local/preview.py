"""Describes a campaign or a watch from its settings only (`--dry-run`); fetches and sends nothing.

Every stage describes itself (`outline` in the table of stages).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from textwrap import wrap

from firstflight.run.outline import NOTHING, Known, Outline
from firstflight.run.run import Run
from firstflight.settings import Section, Settings, Vantage
from orchestration import stages
from orchestration.stages import RunPlan, Stage

# Sections that belong to no single stage.
SECTIONS_OF_ALL = ("campaign", "clock", "centre", "store")
# Longer times are shown as "more than 100 years", because timedelta has a limit.
_FOREVER_S = 100 * 366 * 86_400.0
_WIDTH = 100


@dataclass(frozen=True)
class Outlined:
    """A stage with its outline."""

    stage: Stage
    outline: Outline


def describe(settings: Settings, plan: RunPlan = RunPlan.SCAN, periods: int = 1) -> Iterator[str]:
    """Yield lines with names, rates, limits, packets, bytes and durations by these settings.

    `periods`: of a watch. UsageError for settings that no stage can follow; InputError for a list that cannot
    be read or has no name.
    """
    once, known = _at_centre(settings, plan)
    by_vantage = {vantage: _at_vantage(vantage, settings, plan, known) for vantage in settings.vantage}
    everywhere = [*once, *next(iter(by_vantage.values()))]
    for outlined in everywhere:
        yield from outlined.outline.lines
    lists = [str(path) for path in (*settings.probe.blocklist, *settings.probe.optout)]
    yield f"lists: {', '.join(lists) or 'only the special-purpose ranges'}"
    yield f"contact: {settings.campaign.contact or 'none'}" + (
        f" (only {', '.join(settings.probe.allow_net)} can be probed)"
        if not settings.campaign.contact
        else ""
    )
    yield "packets, bytes and times at most, if no limit delays them:"
    for outlined in once:
        yield f"  {outlined.stage.name}, once: {_amounts(outlined.outline)}"
    longest: float | None = 0.0
    for vantage, outlines in by_vantage.items():
        seconds = _total_seconds(outlines)
        longest = None if longest is None or seconds is None else max(longest, seconds)
        yield _vantage_line(vantage, outlines, plan, seconds)
        for outlined in outlines:
            yield f"  {outlined.stage.name}: {_amounts(outlined.outline)}"
    yield _passes(settings, longest) if plan is not RunPlan.WATCH else _periods(settings, periods)
    yield from _in_force(settings, everywhere)


def outstanding(run: Run) -> Iterator[str]:
    """Yield a line for each key and stage of a run that is not done."""
    plan, settings = stages.plan_of(run), run.settings
    for name in stages.names([*stages.at_centre(), *stages.from_centre(plan, settings)]):
        if not run.done(name):
            yield f"to do: {name}"
    names = stages.names([*stages.at_vantage(plan, settings), *stages.processing(plan, settings)])
    for repetition in range(1, int(run.manifest["repetitions"]) + 1):
        for vantage in run.settings.vantage:
            for key in stages.keys(run, vantage.name, repetition):
                missing = [name for name in names if not run.done(name, key)]
                if missing:
                    yield f"to do: {key}: {', '.join(missing)}"


def _at_centre(settings: Settings, plan: RunPlan) -> tuple[list[Outlined], Known]:
    """Return the outlines of the stages that run once, and the names and CDNs known after them."""
    known, outlines = Known(), []
    for stage in [*stages.at_centre(), *stages.from_centre(plan, settings)]:
        outline = stage.outlined(settings, known, None)
        known = outline.known
        outlines.append(Outlined(stage, outline))
    return outlines, known


def _at_vantage(vantage: Vantage, settings: Settings, plan: RunPlan, known: Known) -> list[Outlined]:
    sending = stages.at_vantage(plan, settings)
    return [Outlined(stage, stage.outlined(settings, known, vantage)) for stage in sending]


def _total_seconds(outlines: list[Outlined]) -> float | None:
    """Return the duration of a repetition in seconds; `None` if a stage's duration is unknown."""
    seconds = [outlined.outline.seconds for outlined in outlines]
    return None if None in seconds else sum(duration_s for duration_s in seconds if duration_s is not None)


def _vantage_line(vantage: Vantage, outlines: list[Outlined], plan: RunPlan, seconds: float | None) -> str:
    main = stages.main(plan)
    in_order = [
        outlined.outline
        for outlined in sorted(outlines, key=lambda outlined: outlined.stage.name != main.name)
    ]
    words = [*(outline.pace for outline in in_order), *(outline.count for outline in in_order)]
    line = f"{vantage.name}: {', '.join(word for word in words if word is not None)}"
    if seconds is not None and plan is not RunPlan.WATCH:
        line += f", about {_duration(seconds)} a repetition if no limit delays it"
    if vantage.shards > 1:
        line += f"; {vantage.shards} shards"
    if vantage.command:
        line += f"; by the command {' '.join(vantage.command)}"
    return line


def _amounts(outline: Outline) -> str:
    traffic = outline.traffic
    if traffic is None:
        return f"unknown, because {outline.unknown}"
    if traffic == NOTHING:
        return "sends nothing"
    text = (
        f"{traffic.packets:,} packets, {_bytes(traffic.sent_bytes)} sent, "
        f"{_bytes(traffic.received_bytes)} received"
    )
    return text if outline.seconds is None else f"{text}, {_duration(outline.seconds)}"


def _passes(settings: Settings, longest: float | None) -> str:
    campaign = settings.campaign
    interval = _duration(campaign.repetition_interval_s)
    line = f"repetitions: {campaign.repetitions}, {interval} from start to start"
    if longest is None:
        return line
    total = (campaign.repetitions - 1) * max(longest, campaign.repetition_interval_s) + longest
    return f"{line}; about {_duration(total)} altogether"


def _periods(settings: Settings, periods: int) -> str:
    return f"periods: {periods}, {_duration(settings.watch.period_s)} each"


def _in_force(settings: Settings, outlines: list[Outlined]) -> Iterator[str]:
    """Yield the settings of the stages that run, a paragraph per section."""
    names = [*SECTIONS_OF_ALL, *(name for outlined in outlines for name in outlined.outline.sections)]
    yield "settings that affect traffic or captures (* = not the default):"
    for name in dict.fromkeys(names):
        yield from _section(name, getattr(settings, name))
    for vantage in settings.vantage:
        yield from _section(f"vantage {vantage.name}", vantage)


def is_listed(key: str) -> bool:
    """Return whether a setting is listed. Names and caches are not: they do not change the traffic."""
    return not key.endswith("cache_dir") and key not in ("name", "city", "program")


def _section(name: str, section: Section) -> Iterator[str]:
    values = []
    for key, field in type(section).model_fields.items():
        value = getattr(section, key)
        if is_listed(key):
            values.append(f"{key}{'' if value == field.get_default() else '*'}={_value(value)}")
    if values:
        yield from wrap(
            f"{name}: {', '.join(values)}",
            _WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )


def _value(value: object) -> str:
    """Return a value as text: `none` for `None`, booleans in lower case, lists in brackets."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _bytes(count: int) -> str:
    """Return a number of bytes with a decimal unit."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB" if size < 1000 else f"{size:,.0f} TB"


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds) or seconds > _FOREVER_S:
        return "more than 100 years"
    return str(timedelta(seconds=round(seconds)))
