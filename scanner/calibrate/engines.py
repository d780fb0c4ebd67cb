"""Runs one step of a block: the prober or the handshake engine over its part of the targets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from firstflight.egress import shared_limits
from firstflight.errors import FirstflightError
from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.run import Run
from firstflight.settings import Settings
from firstflight.system import files
from scanner.calibrate.pairs import PROBE
from scanner.driver import between, process
from scanner.driver.feed import Feed
from scanner.driver.segments import begun, closed_segments, read_segment

NAME = "calibrate"
KEPT = "what was done is kept, and --resume continues"
ENGINES = {PROBE: process.Engine("prober", KEPT), "handshake": process.Engine("handshake engine", KEPT)}
# Limits per second hold across two engines by this pause.
_SECOND = 1.0


def pause_s(settings: Settings) -> float:
    """Return the seconds from the end of one engine to the start of the next, which keep the limits."""
    is_limited = settings.probe.per_address_rate or settings.probe.per_prefix_rate
    return max(settings.calibrate.gap_s, _SECOND if is_limited else 0.0, between.pause_s(settings))


def is_done(folder: Path, targets: int) -> bool:
    """Return whether the step in `folder` has a row for each of its targets, or rejected it."""
    if not (folder / "summary.json").is_file():
        return False
    return rows_in(folder) + int(files.read_json(folder / "summary.json")["rejected"]) == targets


def rows_in(folder: Path) -> int:
    """Return the rows in the closed segments of a step."""
    return sum(int(read_segment(path).num_rows) for path in closed_segments(folder / "segments"))


def send(run: Run, key: StageKey, side: str, folder: Path, targets: int, watch: Callable[[], None]) -> None:
    """Run the engine of a side over targets.csv in `folder` until each target has a row.

    Waits before for the pause between two engines. `watch` is called as by `process.run`. Raises Interrupted
    if it is stopped, FirstflightError if the engine failed or left targets out.
    """
    between.wait(run, pause_s(run.settings), KEPT)
    with files.explain_os_errors(folder):
        (folder / "segments").mkdir(parents=True, exist_ok=True)
    argv = (_probe if side == PROBE else _handshake)(run, key, folder)

    def look() -> None:
        run.check_not_stopped()
        watch()

    settings = run.settings
    longest_s = process.in_flight_s(settings) if side == PROBE else settings.handshake.timeout_s
    process.run(argv, folder / "engine.log", Feed(), look, ENGINES[side], longest_s=longest_s)
    if not is_done(folder, targets):
        raise FirstflightError(f"{folder}: {targets} targets, {rows_in(folder)} of them have a row")


def _probe(run: Run, key: StageKey, folder: Path) -> list[str]:
    """Return the argument list of the prober: as of the probe stage, but one attempt and its own rate."""
    settings = run.settings
    probe = settings.probe.model_copy(update={"attempts": 1, "listen_s": None})
    vantage = settings.vantage_named(key.vantage).model_copy(update={"rate": settings.calibrate.rate})
    return process.arguments(
        settings.model_copy(update={"probe": probe}),
        vantage,
        folder,
        seed=_seed(run, key, folder),
        cid_key=_derived(run, key, folder, 16),
        resume=begun(folder / "segments"),
        turn=shared_limits.turn_of(settings, key.vantage, key.shard),
        clock=clock.of(run, key),
        shard=key.shard,
        initial_size=probe.size_of(key.repetition),
    )


def _handshake(run: Run, key: StageKey, folder: Path) -> list[str]:
    """Return the argument list of the handshake engine; certificates are neither checked nor kept."""
    settings = run.settings
    vantage = settings.vantage_named(key.vantage)
    options: process.Options = [
        ("--targets", folder / "targets.csv"),
        ("--rate", process.number(settings.calibrate.rate / key.shard.of)),
        ("--timeout", process.number(settings.handshake.timeout_s)),
        ("--ports", settings.ports_at(vantage, shard=key.shard)),
        ("--seed", _seed(run, key, folder)),
        ("--cid-key", _derived(run, key, folder, 16)),
        ("--verify", "none"),
        ("--key-share", settings.handshake.key_share),
        ("--path", settings.handshake.path),
    ]
    options += process.shared_options(
        settings,
        vantage,
        folder,
        turn=shared_limits.turn_of(settings, key.vantage, key.shard),
        clock=clock.of(run, key),
    )
    resume = ["--resume"] * begun(folder / "segments")
    return process.argument_list("firstflight-handshake", options, *resume)


def _seed(run: Run, key: StageKey, folder: Path) -> int:
    return int(run.manifest["seed"]) ^ int(_derived(run, key, folder, 7), 16)


def _derived(run: Run, key: StageKey, folder: Path, size: int) -> str:
    """Derive bytes (hex) for one step: each numbers its targets from 2, and no connection ID comes twice."""
    step = f"{NAME}/{folder.parent.name}/{folder.name}"
    return process.derive(str(run.manifest["cid_key"]), key, size, step)
