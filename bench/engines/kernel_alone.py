"""The kernel's share of the prober's cost: a loop that only sleeps, reads and sends (bench/kernel_alone).

The loop uses the prober's socket options and intervals, so its cost is a lower bound for any prober.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench import process, results
from firstflight.system import binaries

# New probes that the prober sends per pass at each rate (first_answer/src/pace.rs tests these numbers). At
# 2,000 per second, the prober sleeps for 2 ms between passes.
TOGETHER = {50: 5, 200: 8, 500: 7, 1000: 4, 2000: 4}
# Separate runs at one rate show how the cost depends on the number of probes per pass.
PASSES_RATE, PASSES, PASSES_TARGETS = 50, (5, 9, 20), 600


@dataclass
class KernelAlone:
    """CPU time of the kernel per target in microseconds, in the prober's rhythm; `None` if unknown.

    `at_rates`: the measurements at each rate.
    """

    at_rates: dict[int, list[float | None]] = field(default_factory=dict)

    def measure(self, port: int, rate: int, targets: int) -> None:
        """Measure once at a rate."""
        found = us_per_target(port, rate, targets, TOGETHER[rate])
        self.at_rates.setdefault(rate, []).append(found)

    def at(self, rate: int) -> float | None:
        """Return the mean at a rate; `None` if a measurement is unknown."""
        return _mean(self.at_rates[rate])


def kernel_passes(port: int, targets: int, values: results.Values) -> bool:
    """Measure and print the kernel's cost with several numbers of probes per pass. There is no goal."""
    in_passes = {together: us_per_target(port, PASSES_RATE, targets, together) for together in PASSES}
    for together, us in in_passes.items():
        text = f"the kernel alone at {PASSES_RATE}/s, {together} probes in a pass, {targets} targets"
        values.add(text, us, "us")
    shown = ", ".join(f"{each}: {_us(found)}" for each, found in in_passes.items())
    print(
        f"the kernel at {PASSES_RATE}/s, {targets} targets, us of CPU time per target by the number of "
        f"probes in a pass: {shown}; {process.load()}"
    )
    return True


def us_per_target(port: int, rate: int, targets: int, together: int) -> float | None:
    """Return the CPU time per target in microseconds, with `together` probes per pass.

    `None` if not all targets were answered and timestamped.
    """
    argv = [str(binaries.find("firstflight-kernel-alone")), "--port", str(port), "--rate", str(rate)]
    argv += ["--together", str(together), "--targets", str(targets)]
    done = subprocess.run(argv, stdout=subprocess.PIPE)
    if done.returncode != 0:
        return None
    found = json.loads(done.stdout)
    # Targets of the last pass get no close.
    sent = 2 * targets - (targets % together or together)
    if (found["sent"], found["datagrams"], found["stamps"]) != (sent, 2 * targets, targets):
        return None
    return 1e6 * float(found["cpu_s"]) / targets


def _us(found: float | None) -> str:
    return "unknown" if found is None else f"{found:.1f}"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.mean(known) if len(known) == len(values) else None
