"""Delays of the servers' stacks, in real time: `python -m bench stack_delays`.

Starts each server of the testbed twice on loopback, in a network namespace without another interface: one
sends an instant ACK (`iack`), the other sends ACK and ServerHello together (`wfc`). Neither waits for a
certificate, so the time between ACK and ServerHello is the time that the stack needs. The handshake engine
completes handshakes with both in turn, RATE per second, so that one ends before the next starts. Times are
differences between the kernel's timestamps at the client (ack_us and sh_us of quic_handshake).

Each server is measured in two equal blocks of handshakes. The noise is the difference between the medians of
the two blocks. A server that sends ACK and ServerHello in the same datagram has no delay between them: null,
not zero. Other work on the machine makes servers slower. On a machine with other work, give `--realtime` (as
root). The load is in the result.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from bench import process, results
from bench.campaigns import campaign_world
from firstflight.errors import FirstflightError, UsageError
from lab.hosts.certificates import KeyKind, issue, make_authority
from reports.numbers import spread
from reports.numbers.spread import Spread
from testbed import stacks
from testbed.choices import Answering
from testbed.experiment.cell import Cell
from testbed.trials import server_config
from tests.handshake.conftest import HOST, connect
from tests.testbed import loopback

RESULT = "stack-delays"
NAME = "www.testbed.test"
HANDSHAKES = 100
MOST_HANDSHAKES = 1000
WARM_UP = 10
"""Uncounted handshakes with each server: they run code for the first time."""
RATE = 20
NOT_BUILT = "not built"
PORTS: dict[Answering, int] = {"iack": 4431, "wfc": 4432}
KEYS: tuple[KeyKind, ...] = get_args(KeyKind)
PUBLISHED_MS = {"quic-go": (2.9, 7.8)}
"""Server -> smallest and largest median, over clients, of the later first ACK (paper 000, section 4.1)."""
_LIMITS = ("--per-address-rate", "0", "--per-prefix-rate", "0", "--rate", str(RATE))

Row = dict[str, Any]


@dataclass(frozen=True)
class Times:
    """The same time of several handshakes in us; `noise_us`: difference of the medians of the two blocks."""

    handshakes: int
    spread_us: Spread
    noise_us: float | None

    def __str__(self) -> str:
        """Return the times for display."""
        noise = "unknown" if self.noise_us is None else f"{self.noise_us:.0f}"
        return (
            f"{self.spread_us.median:.0f} us (quartiles {self.spread_us.q1:.0f} to {self.spread_us.q3:.0f}; "
            f"{self.handshakes} handshakes, noise {noise})"
        )


@dataclass(frozen=True)
class StackDelay:
    """The delays of a server with a kind of key.

    `ack_to_sh`: from the ACK to the ServerHello, of handshakes with both in different datagrams (`iack`).
    `no_ack_to_sh`: why that is null: NOT_BUILT, or the values of first_answer.
    `hello_to_sh`: from the Initial to the ServerHello, of handshakes with both in one datagram (`wfc`).
    `ack_later_ms`: how much later the first ACK comes with `wfc` than with `iack`, from the medians. For one
    server, the paper gives this time as clients reported it: `published_low_ms` to `published_high_ms`.
    """

    server: str
    key: KeyKind
    version: str | None = None
    ack_to_sh: Times | None = None
    no_ack_to_sh: str | None = None
    hello_to_sh: Times | None = None
    ack_later_ms: float | None = None
    published_low_ms: float | None = None
    published_high_ms: float | None = None

    def __str__(self) -> str:
        """Return the line to print."""
        named = f"{self.server}, {self.key}: "
        if self.hello_to_sh is None:
            return named + str(self.no_ack_to_sh)
        parts = [
            f"ACK to ServerHello {self.ack_to_sh or f'not measured ({self.no_ack_to_sh})'}",
            f"Initial to ServerHello {self.hello_to_sh}",
        ]
        if self.ack_later_ms is not None:
            parts.append(f"without an instant ACK, the first ACK is {self.ack_later_ms:.2f} ms later")
        if self.published_low_ms is not None:
            parts[-1] += f" (published: {self.published_low_ms:g} to {self.published_high_ms:g})"
        return named + "; ".join(parts)


def delay(server: str, key: KeyKind, version: str | None, blocks: Sequence[Sequence[Row]]) -> StackDelay:
    """Return the delays in blocks of rows of quic_handshake, which have the answer as `answering`."""
    separate = [_chosen(rows, "iack", "iack") for rows in blocks]
    together = [_chosen(rows, "wfc", "coalesced") for rows in blocks]
    ack, hello = _times(separate, "ack_us"), _times(together, "sh_us")
    later = None if ack is None or hello is None else hello.spread_us.median - ack.spread_us.median
    low, high = PUBLISHED_MS.get(server, (None, None))
    answers = sorted({str(row["first_answer"]) for rows in blocks for row in rows})
    return StackDelay(
        server,
        key,
        version,
        ack_to_sh=_times(separate, "ack_to_sh_us"),
        no_ack_to_sh=None if ack is not None else ", ".join(answers),
        hello_to_sh=hello,
        ack_later_ms=None if later is None else later / 1000,
        published_low_ms=low,
        published_high_ms=high,
    )


def _chosen(rows: Sequence[Row], answering: Answering, first_answer: str) -> list[Row]:
    return [row for row in rows if (row["answering"], row["first_answer"]) == (answering, first_answer)]


def _times(blocks: Sequence[Sequence[Row]], name: str) -> Times | None:
    """Return a time of the rows of both blocks; `None` without a row."""
    of_blocks = [spread.of(row[name] for row in rows) for rows in blocks]
    whole = spread.of(row[name] for rows in blocks for row in rows)
    if whole is None:
        return None
    medians = [found.median for found in of_blocks if found is not None]
    noise = abs(medians[0] - medians[1]) if len(medians) == len(blocks) == 2 else None
    return Times(sum(map(len, blocks)), whole, noise)


def measured(server: str, key: KeyKind, handshakes: int) -> StackDelay:
    """Return the delays of a server, with NOT_BUILT if it is not built. FirstflightError as `measure`."""
    stack = stacks.find(server)
    try:
        stack.server_command()
    except UsageError:
        return StackDelay(server, key, no_ack_to_sh=NOT_BUILT)
    return delay(server, key, stack.server_version, measure(server, key, handshakes))


def measure(server: str, key: KeyKind, handshakes: int) -> list[list[Row]]:
    """Return two blocks of rows of quic_handshake, each with `handshakes` per answer of a server.

    FirstflightError if a server does not start, or a handshake fails.
    """
    answers = stacks.find(server).answers
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstflight-bench-")))
        for answering in answers:
            stack.enter_context(_served(folder, server, key, answering))
        _connected(folder, server, answers, WARM_UP)
        return [_connected(folder, server, answers, handshakes) for _ in range(2)]


def _served(folder: Path, server: str, key: KeyKind, answering: Answering) -> AbstractContextManager[None]:
    """Return a context that runs a server which gives one answer."""
    place = folder / answering
    place.mkdir()
    files = issue(make_authority(place), "server", [NAME], key_kind=key)
    cell = Cell.model_validate({"client": "quinn", "server": server, "answering": answering})
    given = server_config.configuration(cell, NAME, "h3", files, launch_times=False)
    given |= {"port": PORTS[answering], "listen": [HOST]}
    given["endpoints"][0]["ip"] = HOST
    return loopback.serving(place, server, given)


def _connected(folder: Path, server: str, answers: Sequence[Answering], count: int) -> list[Row]:
    by_port = {PORTS[answering]: answering for answering in answers}
    targets = [(HOST, NAME, port) for _ in range(count) for port in by_port]
    rows = connect(folder, targets, "--verify", "none", limits=_LIMITS).rows
    done = [{**row, "answering": by_port[row["port"]]} for row in rows if row["outcome"] == "done"]
    if len(done) < len(targets):
        others = [row["outcome"] for row in rows if row["outcome"] != "done"] or ["no row"]
        raise FirstflightError(
            f"{len(done)} of {len(targets)} handshakes with {server} succeeded: {others[0]}"
        )
    return done


def servers() -> list[str]:
    """Return the stacks with a server of QUIC, built or not."""
    known = stacks.load()
    return [name for name, stack in known.items() if stack.server is not None and stack.transport == "udp"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status of the error if a handshake failed."""
    parser = argparse.ArgumentParser(prog="bench stack_delays")
    parser.add_argument(
        "--handshakes", type=int, default=HANDSHAKES, help=f"per block and answer ({HANDSHAKES})"
    )
    parser.add_argument("--servers", default=",".join(servers()), help="separated by commas (default: all)")
    parser.add_argument("--keys", default=",".join(KEYS), help="kinds of keys, separated by commas")
    parser.add_argument("--realtime", action="store_true", help="run before all other programs")
    results.add_option(parser)
    options = parser.parse_args(arguments)
    file = results.begin(parser, options.result, RESULT, arguments)
    chosen, keys = options.servers.split(","), options.keys.split(",")
    if unknown := [*({*chosen} - {*servers()}), *({*keys} - {*KEYS})]:
        parser.error(f"{unknown[0]}: servers are {', '.join(servers())}; keys are {', '.join(KEYS)}")
    if not 1 <= options.handshakes <= MOST_HANDSHAKES:
        parser.error(f"--handshakes is from 1 to {MOST_HANDSHAKES}")
    given = sys.argv[1:] if arguments is None else arguments
    campaign_world.enter_namespace("bench.testbeds.stack_delays", given)
    if options.realtime:
        process.run_first()
    print(f"two blocks of {options.handshakes} handshakes per answer; {process.load()}", flush=True)
    lines = []
    for server in chosen:
        for key in keys:
            try:
                lines.append(measured(server, key, options.handshakes))
            except FirstflightError as error:
                print(f"bench: {error}", file=sys.stderr)
                return error.exit_status
            print(f"  {lines[-1]}", flush=True)
    print(f"  {process.load()} at the end")
    # A server that is not built has no version.
    versions = {line.server: [line.version] if line.version else [] for line in lines}
    file.write([asdict(line) for line in lines], {"server": versions})
    return 0


if __name__ == "__main__":
    sys.exit(main())
