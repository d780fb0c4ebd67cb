"""Stages that sample names and contact their addresses: handshake, calibrate, tcp_options.

They run after the probes of their key, and only if the section of the settings with their name enables them.
They keep the limits, lists and turns of the probe stage.
"""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from firstflight.egress import shared_limits
from firstflight.errors import UsageError
from firstflight.layout import StageKey
from firstflight.run import clock
from firstflight.run.run import Run
from scanner.driver import draw
from scanner.driver.arguments import Options, argument_list, derive, number, shared_options
from scanner.driver.segments import resume_flag
from scanner.target_stage import EngineStage, TargetStage


class SampledStage(TargetStage):
    """A stage that samples targets according to its settings section. UsageError if that disables it."""

    done = "contacted"
    over_quic: ClassVar[bool] = True
    """Whether it uses QUIC (`draw.plan`)."""

    def __init__(self, run: Run, key: StageKey) -> None:
        if not getattr(run.settings, self.name).enabled:
            raise UsageError(f"{self.name}.enabled is false in the settings of this run: nothing was sent")
        super().__init__(run, key)

    @property
    def without_targets(self) -> str:
        """The warning if the sample is empty."""
        return f"no name with an address was drawn ({self.name}.share, cdn, limit)"

    def choose(self) -> pa.Table:
        """Sample names, and return their addresses."""
        return draw.plan(self.run, self.key, self.name, self.mapper, over_quic=self.over_quic)


class SampledEngineStage(SampledStage, EngineStage):
    """A stage that samples its targets and runs one engine over them."""

    @property
    def log(self) -> str:
        """The name of the engine's log."""
        return f"{self.name}.log"

    @property
    def longest_s(self) -> float:
        """A connection's time limit, in seconds."""
        return float(getattr(self.run.settings, self.name).timeout_s)

    def shared_options(self) -> Options:
        """Return the options that these stages' engines share: targets, rate, seed, files, limits, lists."""
        run, key, settings = self.run, self.key, self.run.settings
        section = getattr(settings, self.name)
        vantage = settings.vantage_named(key.vantage)
        seed = int(run.manifest["seed"]) ^ int(derive(str(run.manifest["cid_key"]), key, 7, self.name), 16)
        return [
            ("--targets", self.folder / "targets.csv"),
            ("--rate", number(section.rate / key.shard.count)),
            ("--timeout", number(section.timeout_s)),
            ("--seed", seed),
            *shared_options(
                settings,
                vantage,
                self.folder,
                turn=shared_limits.turn_of(settings, vantage.name, key.shard),
                clock=clock.of(run, key),
            ),
        ]

    def command(self, program: str, options: Options, *flags: str) -> list[str]:
        """Return the command line of an engine with a feed. It continues after the closed segments."""
        return argument_list(program, options, "--feed", *resume_flag(self.segments), *flags)
