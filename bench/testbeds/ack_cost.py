"""The CPU time that acknowledgements cost, in real time: `python -m bench ack_cost`.

The client quinn downloads a body from two servers quinn in turn. One requests an ACK for every second
packet, the other for every tenth (ACK_FREQUENCY). The order within a round is 2, 10, 10, 2. The result is the
ratio of the CPU times in a round, so the speed of the machine cancels. The noise is the ratio of the two
transfers with the same ratio in a round, which would be 1 without noise.

CPU time includes user and system time (schedstat). Packets are counted on the client's device,
without segmentation offload. The path has a rate limit and no delay. A client that gets a processor late
reads several packets at once, and acknowledges them together: on a machine with other work, give
`--realtime` (as root). The comparison fails if a transfer fails, not if the machine is slow.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import process, results
from bench.testbeds.ack_transfers import TRANSFERS
from firstflight.errors import FirstflightError
from firstflight.system import files
from reports.numbers import spread
from reports.numbers.spread import Spread
from testbed import stacks
from testbed.choices import HTTP
from testbed.trials import real_time

RESULT = "ack-cost"
FEW, MANY = 10, 2
"""The ratios: few and many ACKs."""
RATES_MBIT = (20.0, 100.0)
ROUNDS = 12
BODY_BYTES = 5_000_000
STACK = "quinn"
_TRANSFER_LIMIT_S = 120.0
QUANTITIES = {
    "packets of the client": "sent",
    "CPU time of the client, ms": "client_ns",
    "CPU time of the server, ms": "server_ns",
}
"""Quantities of a transfer: title, and the name in a line of `ack_transfers`."""

Transfer = dict[str, Any]


@dataclass(frozen=True)
class AckCost:
    """A quantity at a rate: medians of a transfer with each ratio, and ratios between them.

    `many` and `few`: packets, or ms of CPU time. `times`: the sum of a round with ratio 2 divided by the sum
    with ratio 10, over all rounds. `noise`: the first transfer of a round divided by the last, which have
    the same ratio, and the second divided by the third. `each_us`: the additional CPU time per additional
    packet sent, in us; null for packets.
    """

    rate_mbit: float
    quantity: str
    rounds: int
    received: float
    many: float
    few: float
    times: Spread
    noise: Spread
    each_us: float | None

    def __str__(self) -> str:
        """Return the line to print."""
        each = "" if self.each_us is None else f"; {self.each_us:.1f} us for each additional packet"
        return (
            f"{self.rate_mbit:g} Mbit/s, {self.quantity}: {self.many:.1f} with ratio {MANY}, {self.few:.1f} "
            f"with {FEW}: {_shown(self.times)} times; same ratio {_shown(self.noise)}{each}"
        )


def _shown(values: Spread) -> str:
    return f"{values.median:.2f} (quartiles {values.q1:.2f} to {values.q3:.2f})"


def costs(transfers: Sequence[Transfer]) -> list[AckCost]:
    """Return a line for each rate and quantity. All transfers must be complete."""
    lines = []
    for rate in dict.fromkeys(transfer["rate_mbit"] for transfer in transfers):
        of_rate = [transfer for transfer in transfers if transfer["rate_mbit"] == rate]
        rounds = [
            [transfer for transfer in of_rate if transfer["round"] == number]
            for number in dict.fromkeys(transfer["round"] for transfer in of_rate)
        ]
        lines += [_cost(rate, title, name, rounds) for title, name in QUANTITIES.items()]
    return lines


def _cost(rate: float, title: str, name: str, rounds: Sequence[Sequence[Transfer]]) -> AckCost:
    unit = 1e6 if name.endswith("_ns") else 1

    def total(of: str, ratio: int) -> Callable[[Sequence[Transfer]], float]:
        return lambda round_: sum(transfer[of] for transfer in round_ if transfer["ratio"] == ratio)

    many, few = total(name, MANY), total(name, FEW)
    times = spread.of(many(round_) / few(round_) for round_ in rounds)
    noise = spread.of(
        pair[0][name] / pair[1][name]
        for round_ in rounds
        for ratio in (MANY, FEW)
        if len(pair := [transfer for transfer in round_ if transfer["ratio"] == ratio]) == 2
    )
    if times is None or noise is None:
        raise ValueError(f"no round at {rate:g} Mbit/s has two transfers with each ratio")
    packets = [total("sent", MANY)(round_) - total("sent", FEW)(round_) for round_ in rounds]
    additional = [many(round_) - few(round_) for round_ in rounds]
    each = [cost_ns / 1000 / sent for cost_ns, sent in zip(additional, packets, strict=True) if sent]
    transfers = [transfer for round_ in rounds for transfer in round_]
    return AckCost(
        rate_mbit=rate,
        quantity=title,
        rounds=len(rounds),
        received=median(transfer["received"] for transfer in transfers),
        many=median(transfer[name] for transfer in transfers if transfer["ratio"] == MANY) / unit,
        few=median(transfer[name] for transfer in transfers if transfer["ratio"] == FEW) / unit,
        times=times,
        noise=noise,
        each_us=median(each) if name.endswith("_ns") and each else None,
    )


def measure(
    rounds: int, rates_mbit: Sequence[float], body_bytes: int, *, realtime: bool = False
) -> list[Transfer]:
    """Run the transfers and return their lines. FirstflightError if they cannot run here, or one failed.

    `realtime`: client and servers run before all other programs of the machine (SCHED_FIFO).
    """
    stack = stacks.find(STACK)
    cell = {"client": STACK, "server": STACK, "answering": "wfc", "rtt_ms": 1, "ack_delay_ms": 25}
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as name:
        folder = Path(name)
        (folder / "programs").mkdir()
        job = {
            "cell": {**cell, "ack_ratio": MANY, "body_bytes": body_bytes},
            "ratios": [MANY, FEW],
            "rates_mbit": list(rates_mbit),
            "rounds": rounds,
            "client": stack.client_command(logged=False),
            "server": stack.server_command(),
            "http": HTTP[stack.protocol(None)],
            "alpn": stack.protocol(None),
            "launch_times": False,
            "realtime": realtime,
            "timeout_s": _TRANSFER_LIMIT_S,
            "folder": str(folder / "programs"),
        }
        files.write_json(folder / "job.json", job)
        limit_s = 60 + len(rates_mbit) * (2 + 4 * rounds) * _TRANSFER_LIMIT_S
        argv = [sys.executable, "-P", "-m", "bench.testbeds.ack_transfers"]
        stderr = real_time.in_namespaces(argv, folder, limit_s)
        written = folder / TRANSFERS
        lines = written.read_text(encoding="utf-8").splitlines() if written.is_file() else []
        transfers = [json.loads(line) for line in lines]
    failed = [transfer for transfer in transfers if transfer["end"] != "complete"]
    if failed:
        raise FirstflightError(f"a transfer failed: {failed[0]['detail']}")
    if len(transfers) < 4 * rounds * len(rates_mbit):
        reason = stderr.decode(errors="replace").strip().splitlines() or ["no reason"]
        raise FirstflightError(f"the transfers ended early: {reason[-1]}")
    return transfers


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status of the error if a transfer failed."""
    parser = argparse.ArgumentParser(prog="bench ack_cost")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"of four transfers each ({ROUNDS})")
    parser.add_argument("--rates", default=",".join(f"{rate:g}" for rate in RATES_MBIT), help="in Mbit/s")
    parser.add_argument("--body-bytes", type=int, default=BODY_BYTES, help=f"of a transfer ({BODY_BYTES})")
    parser.add_argument("--realtime", action="store_true", help="run before all other programs")
    results.add_option(parser)
    options = parser.parse_args(arguments)
    file = results.begin(parser, options.result, RESULT, arguments)
    rates = [float(rate) for rate in options.rates.split(",")]
    if options.rounds < 1 or options.body_bytes < 1 or not all(rate > 0 for rate in rates):
        parser.error("--rounds, --rates and --body-bytes are positive")
    print(f"body of {options.body_bytes / 1e6:g} MB, client and server {STACK}; {process.load()}", flush=True)
    try:
        transfers = measure(options.rounds, rates, options.body_bytes, realtime=options.realtime)
    except FirstflightError as error:
        print(f"bench: {error}", file=sys.stderr)
        return error.exit_status
    lines = costs(transfers)
    print(f"  {lines[0].received:.0f} packets arrive in a transfer")
    for line in lines:
        print(f"  {line}")
    print(f"  {process.load()} at the end")
    file.write(*result(transfers, lines))
    return 0


def result(
    transfers: Sequence[Transfer], costs_of_acks: Sequence[AckCost]
) -> tuple[list[results.Line], results.Versions]:
    """Return the lines and versions for a result file."""
    _, _, version = transfers[0]["client_version"].partition("/")
    versions = {"client": {STACK: [version]}, "server": {STACK: [stacks.find(STACK).server_version]}}
    return [asdict(line) for line in costs_of_acks], versions


if __name__ == "__main__":
    sys.exit(main())
