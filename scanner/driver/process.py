"""Runs an engine as a child process: arguments, start, supervision, shutdown."""

from __future__ import annotations

import hmac
import os
import select
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from firstflight.egress.shared_limits import Turn
from firstflight.errors import FirstflightError, Interrupted, OutputError, UsageError
from firstflight.layout import StageKey
from firstflight.settings import Settings, Vantage
from firstflight.shard import WHOLE, Shard
from firstflight.system import binaries, children, files
from firstflight.system.clock import Offset
from firstflight.system.noted_signals import noted_signals
from scanner.driver.feed import Feed

# After SIGINT an engine begins nothing new and waits for what is in flight: so long beyond the longest of it.
GRACE_S = 20.0
# A stage that looks at its engine takes a third of a millisecond, and a scan at low rates lasts for hours.
WATCH_EVERY_S = 0.25
# Where an engine tells, while it runs, how far it is and what limits it.
STATE = "engine.json"

Options = list[tuple[str, object]]
"""Options of an engine with their values, in order."""


class Engine(NamedTuple):
    """An engine in messages: its name, and what becomes of its results when it is stopped."""

    name: str
    kept: str


PROBER = Engine("prober", "what was probed is kept, and --resume continues")


class EngineFailed(FirstflightError):
    """The engine ended with a status that is not for usage or signals; its last message is the reason.

    The exit status is 3 if the engine's was: it could not read its input, or not write its records.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        if status == OutputError.exit_status:
            self.exit_status = status


def arguments(
    settings: Settings,
    vantage: Vantage,
    folder: Path,
    *,
    seed: int,
    cid_key: str,
    resume: bool,
    listed: bool = True,
    ports: str | None = None,
    turn: Turn | None = None,
    clock: Offset | None = None,
    shard: Shard = WHOLE,
    initial_size: int | None = None,
) -> list[str]:
    """Return the argument list of `firstflight-prober`, with its files in `folder`.

    `listed` False: there is no targets.csv, all probes come by the feed. `ports`: source ports, if not all of
    the vantage point's. `initial_size`: UDP payload of Initials (`Probe.size_of`). The others are those of
    `shared_options`.
    """
    probe = settings.probe
    options: Options = [("--targets", folder / "targets.csv")] if listed else []
    options += [
        ("--skipped", folder / "skipped.jsonl"),
        ("--rate", number(settings.rate_at(vantage, shard))),
        ("--timeout", number(probe.timeout_s)),
        ("--settle-ms", probe.settle_ms),
        ("--attempts", probe.attempts),
        ("--ports", ports or settings.ports_at(vantage, shard=shard)),
        ("--seed", seed),
        ("--cid-key", cid_key),
    ]
    if initial_size is not None:
        options.append(("--initial-size", initial_size))
    if listed and probe.listen_s is not None:
        options.append(("--listen", number(probe.listen_s)))
    if listed and probe.ecn is not None:
        options.append(("--ecn", probe.ecn))
    if listed and probe.version != "1":
        options.append(("--version", probe.version))
    options += shared_options(settings, vantage, folder, turn=turn, clock=clock)
    return argument_list("firstflight-prober", options, "--feed", *["--resume"] * resume)


def shared_options(
    settings: Settings,
    vantage: Vantage,
    folder: Path,
    *,
    turn: Turn | None = None,
    clock: Offset | None = None,
) -> Options:
    """Return the options that all engines take which contact measured hosts: files, limits, lists, contact.

    `turn`: how limits are shared with other vantage points. `clock`: the offset of the local clock, which
    corrects the turns.
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
        # Two clocks that are off by half of the slack each, in either direction, use it up.
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
    """Return the argument list of a native program; UsageError if it is not built."""
    argv = [str(binaries.find(program)), *flags]
    for option, value in options:
        argv += [option, str(value)]
    return argv


def limit_of(folder: Path) -> str | None:
    """Return what limits the engine that works in `folder`; None if that is not known yet."""
    try:
        limit = files.read_json(folder / STATE)["limit"]
    except (FirstflightError, KeyError, TypeError):
        return None
    return limit if isinstance(limit, str) else None


def derive(secret: str, key: StageKey, size: int, stage: str = "") -> str:
    """Derive `size` bytes (hex) for one stage from the run's secret: no two stages share connection IDs.

    `stage` is empty for probe and watch, which no key has both of.
    """
    name = f"{key.vantage}/{key.repetition}" + key.of_shard("/") + (stage and f"/{stage}")
    digest = hmac.digest(bytes.fromhex(secret), name.encode(), "sha256")
    return digest[:size].hex()


def in_flight_s(settings: Settings) -> float:
    """Return how many seconds an attempt of a probe may be in flight."""
    probe = settings.probe
    return probe.timeout_s + probe.settle_ms / 1000 + (probe.listen_s or 0.0)


def run(
    argv: list[str],
    log: Path,
    feed: Feed,
    watch: Callable[[], None],
    engine: Engine = PROBER,
    *,
    longest_s: float,
) -> None:
    """Run an engine until it ends. Calls `watch` every WATCH_EVERY_S s, which may raise to stop the engine.

    `longest_s`: how many seconds a probe or connection may be in flight; an engine that has not ended GRACE_S
    beyond that after it was stopped is killed. `feed` becomes its standard input; its messages go to `log`.
    Status 1 (rejected lines) is no error: the summary counts them. Raises UsageError (status 2: nothing was
    sent), Interrupted (130, or a signal to this process: the engine has closed its segments), or EngineFailed
    with the engine's last message.
    """
    with noted_signals() as signalled:

        def check() -> None:
            if signalled():
                raise Interrupted(f"stopped by a signal; {engine.kept}")

        def look() -> None:
            check()
            watch()

        status = _supervise(argv, log, feed, look, longest_s + GRACE_S)
        check()
    if status in (0, 1):
        return
    if status == 130:
        raise Interrupted(f"the {engine.name} was stopped by a signal; {engine.kept}")
    reason = _last_line(log) or f"ended with status {status}"
    if status == 2:
        raise UsageError(f"the {engine.name} refused: {reason}")
    raise EngineFailed(f"the {engine.name} failed: {reason}", status)


def _supervise(argv: list[str], log: Path, feed: Feed, look: Callable[[], None], grace_s: float) -> int:
    """Run an engine until it ends; if `look` raises, stop it gracefully first. Returns its exit status."""
    with log.open("ab") as messages:
        # In a separate session: a signal to this session would reach the engine besides the one that is
        # passed on, and a second signal makes it abandon what is in flight.
        process = children.start(
            argv, own_session=True, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=messages
        )
    assert process.stdin is not None
    try:
        feed.attach(process.stdin)
        feed.flush()
        with _end_of(process) as end:
            while process.poll() is None:
                look()
                end.poll(WATCH_EVERY_S * 1000)
    except BaseException:
        children.stop(process, grace_s)
        raise
    finally:
        feed.close()
    return process.returncode


@contextmanager
def _end_of(process: subprocess.Popen[bytes]) -> Iterator[select.poll]:
    """Yield what polls for the end of a process; Popen.wait would look for it twenty times a second."""
    descriptor = os.pidfd_open(process.pid)
    try:
        end = select.poll()
        end.register(descriptor, select.POLLIN)
        yield end
    finally:
        os.close(descriptor)


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def number(value: float) -> str:
    """Return a number as an option's value: whole ones without a point."""
    return str(int(value)) if float(value).is_integer() else str(value)
