"""Runs one step in a block: the prober or the handshake engine over its part of the targets."""

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
from scanner.calibrate.pairs import HANDSHAKE, PROBE
from scanner.driver import engine_pause, prober, process
from scanner.driver.arguments import Options, argument_list, derive, number, shared_options
from scanner.driver.feed import Feed
from scanner.driver.segments import closed_segments, read_segment, resume_flag

NAME = "calibrate"
ENGINES = {PROBE: prober.PROBER, HANDSHAKE: process.EngineTexts("handshake engine")}
# Minimum pause in seconds, with which limits per second hold across two engines.
_SECOND = 1.0


def pause_s(settings: Settings) -> float:
    """Return the minimum seconds between two engines, as the limits require."""
    is_limited = settings.probe.per_address_rate or settings.probe.per_prefix_rate
    return max(settings.calibrate.gap_s, _SECOND if is_limited else 0.0, engine_pause.pause_s(settings))


def is_done(folder: Path, targets: int) -> bool:
    """Return whether the step in `folder` has a row for each target or has rejected the target."""
    if not (folder / "summary.json").is_file():
        return False
    return rows_in(folder) + int(files.read_json(folder / "summary.json")["rejected"]) == targets


def rows_in(folder: Path) -> int:
    """Return the number of rows in a step's closed segments."""
    return sum(int(read_segment(path).num_rows) for path in closed_segments(folder / "segments"))


def send(run: Run, key: StageKey, side: str, folder: Path, targets: int, watch: Callable[[], None]) -> None:
    """Run a side's engine over targets.csv in `folder` until each target has a row.

    First waits for the pause between two engines. `watch`: see `process.run`. Raise Interrupted after a stop,
    and FirstflightError if the engine failed or omitted targets.
    """
    engine_pause.wait(run, pause_s(run.settings), ENGINES[side].after_stop)
    with files.explain_os_errors(folder):
        (folder / "segments").mkdir(parents=True, exist_ok=True)
    argv = (_probe if side == PROBE else _handshake)(run, key, folder)

    def look() -> None:
        run.check_not_stopped()
        watch()

    settings = run.settings
    longest_s = prober.in_flight_s(settings) if side == PROBE else settings.handshake.timeout_s
    process.run(argv, folder / "engine.log", Feed(), look, ENGINES[side], longest_s=longest_s)
    if not is_done(folder, targets):
        raise FirstflightError(f"{folder}: {targets} targets, {rows_in(folder)} of them have a row")


def _probe(run: Run, key: StageKey, folder: Path) -> list[str]:
    """Return the prober's command line: as in the probe stage, but with one attempt and a separate rate."""
    settings = run.settings
    probe = settings.probe.model_copy(update={"attempts": 1, "listen_s": None})
    vantage = settings.vantage_named(key.vantage).model_copy(update={"rate": settings.calibrate.rate})
    return prober.arguments(
        settings.model_copy(update={"probe": probe}),
        vantage,
        folder,
        seed=_seed(run, key, folder),
        cid_key=_derived(run, key, folder, 16),
        turn=shared_limits.turn_of(settings, key.vantage, key.shard),
        clock=clock.of(run, key),
        shard=key.shard,
        initial_size=probe.size_of(key.repetition),
    )


def _handshake(run: Run, key: StageKey, folder: Path) -> list[str]:
    """Return the handshake engine's command line. It neither checks nor keeps certificates."""
    settings = run.settings
    vantage = settings.vantage_named(key.vantage)
    options: Options = [
        ("--targets", folder / "targets.csv"),
        ("--rate", number(settings.calibrate.rate / key.shard.count)),
        ("--timeout", number(settings.handshake.timeout_s)),
        ("--ports", settings.ports_at(vantage, shard=key.shard)),
        ("--seed", _seed(run, key, folder)),
        ("--cid-key", _derived(run, key, folder, 16)),
        ("--verify", "none"),
        ("--key-share", settings.handshake.key_share),
        ("--path", settings.handshake.path),
    ]
    options += shared_options(
        settings,
        vantage,
        folder,
        turn=shared_limits.turn_of(settings, key.vantage, key.shard),
        clock=clock.of(run, key),
    )
    return argument_list("firstflight-handshake", options, *resume_flag(folder / "segments"))


def _seed(run: Run, key: StageKey, folder: Path) -> int:
    return int(run.manifest["seed"]) ^ int(_derived(run, key, folder, 7), 16)


def _derived(run: Run, key: StageKey, folder: Path, size: int) -> str:
    """Derive bytes (hex) for one step. All steps number their targets from 2; connection IDs never repeat."""
    step = f"{NAME}/{folder.parent.name}/{folder.name}"
    return derive(str(run.manifest["cid_key"]), key, size, step)
