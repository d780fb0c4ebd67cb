"""Command lines of engines: options that several engines share, and values derived from a run's secret."""

from __future__ import annotations

import hmac
from pathlib import Path

from firstflight.egress.shared_limits import ProbeTurn
from firstflight.layout import StageKey
from firstflight.settings import Settings, Vantage
from firstflight.system import binaries
from firstflight.system.network.clock import Offset
from scanner.driver.process import STATE

Options = list[tuple[str, object]]
"""Options of an engine with their values, in order."""


def shared_options(
    settings: Settings,
    vantage: Vantage,
    folder: Path,
    *,
    turn: ProbeTurn | None = None,
    clock: Offset | None = None,
) -> Options:
    """Return the options that all engines with measured hosts share: files, limits, lists, contact.

    `turn`: how the engine shares limits with other vantage points. `clock`: the offset of the local clock,
    which corrects the turns.
    """
    probe = settings.probe
    options: Options = [
        ("--segments", folder / "segments"),
        ("--summary", folder / "summary.json"),
        ("--progress", folder / STATE),
        ("--per-address-rate", number(probe.per_address_rate)),
        ("--per-prefix-rate", number(probe.per_prefix_rate)),
    ]
    if turn is not None:
        options.append(("--turn", turn))
        # Two clocks that are off by half of the slack in opposite directions use it up.
        slack_s = settings.campaign.clock_slack_s
        if clock is not None and (clock.exceeds(settings.clock.warn_s) or clock.may_exceed(slack_s / 2)):
            options.append(("--clock-offset-ms", clock.offset_us // 1000))
    if settings.campaign.contact.strip():
        options.append(("--contact", settings.campaign.contact))
    options += [("--source", source) for source in vantage.sources]
    options += [("--blocklist", path) for path in probe.blocklist]
    options += [("--optout", path) for path in probe.optout]
    options += [("--allow-net", net) for net in probe.allow_net]
    return options


def argument_list(program: str, options: Options, *flags: str) -> list[str]:
    """Return a native program's command line. Raise UsageError if the program is not built."""
    argv = [str(binaries.find(program)), *flags]
    for option, value in options:
        argv += [option, str(value)]
    return argv


def derive(secret: str, key: StageKey, size: int, stage: str = "") -> str:
    """Derive `size` bytes (hex) for one stage from the run's secret. No two stages share connection IDs.

    `stage` is empty for probe and watch, because a key has only one of the two.
    """
    name = f"{key.vantage}/{key.repetition}" + key.of_shard("/") + (stage and f"/{stage}")
    digest = hmac.digest(bytes.fromhex(secret), name.encode(), "sha256")
    return digest[:size].hex()


def number(value: float) -> str:
    """Return a number as an option's value. Whole numbers have no decimal point."""
    return str(int(value)) if float(value).is_integer() else str(value)
