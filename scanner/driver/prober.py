"""The command line of the prober, `firstflight-prober`."""

from __future__ import annotations

from pathlib import Path

from firstflight.egress.shared_limits import ProbeTurn
from firstflight.settings import Settings, Vantage
from firstflight.shard import WHOLE, Shard
from firstflight.system.network.clock import Offset
from scanner.driver.arguments import Options, argument_list, number, shared_options
from scanner.driver.process import EngineTexts
from scanner.driver.segments import resume_flag

PROBER = EngineTexts("prober")


def arguments(
    settings: Settings,
    vantage: Vantage,
    folder: Path,
    *,
    seed: int,
    cid_key: str,
    listed: bool = True,
    ports: str | None = None,
    turn: ProbeTurn | None = None,
    clock: Offset | None = None,
    shard: Shard = WHOLE,
    initial_size: int | None = None,
) -> list[str]:
    """Return the command line of `firstflight-prober`, with its files in `folder`.

    `listed` false: there is no targets.csv, and all probes come from the feed. `ports`: source ports
    (default: all of the vantage point's ports). `initial_size`: UDP payload of Initials (`Probe.size_of`).
    For the other arguments see `shared_options`.
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
    return argument_list("firstflight-prober", options, "--feed", *resume_flag(folder / "segments"))


def in_flight_s(settings: Settings) -> float:
    """Return the maximum time for a probe's attempt in flight, in seconds."""
    probe = settings.probe
    return probe.timeout_s + probe.settle_ms / 1000 + (probe.listen_s or 0.0)
