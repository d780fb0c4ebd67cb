"""Measure the engine of the TCP option survey: `python -m bench tcp_options`.

It connects to the kernel's listening sockets on loopback, in a separate network namespace, without a limit
per address. CPU time and memory are the values that the kernel charges the engine's process (user + system,
peak resident memory). On loopback, the kernel charges its work for both ends of a connection to the sender,
so the result is a lower bound.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench import process, results
from bench.campaigns import campaign_world
from firstflight.system import binaries

RESULT = "tcp-options"
TARGETS = 50_000
LEAST_PER_CPU_S = 10_000
# Per second: practically no limit, and a rate that users of the survey set.
RATES = (1_000_000, 1_000)
_LISTENERS, _PORT = 4, 443
# Slower runs use fewer targets, so that they take at most this time.
_LONGEST_S = 15


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if the engine misses the goal without a limit."""
    parser = argparse.ArgumentParser(prog="bench tcp_options")
    parser.add_argument("--targets", type=int, default=TARGETS)
    results.add_option(parser)
    options = parser.parse_args(arguments)
    file = results.begin(parser, options.result, RESULT)
    campaign_world.enter_namespace("bench.engines.tcp_options", sys.argv[1:])
    Path("/proc/sys/net/core/somaxconn").write_text("65535")
    values = results.Values()
    goals_met = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstflight-bench-")))
        for number in range(1, _LISTENERS + 1):
            address = (f"127.0.0.{number}", _PORT)
            stack.enter_context(socket.create_server(address, backlog=65_535))
        for rate in RATES:
            count = min(options.targets, rate * _LONGEST_S)
            targets, summary = folder / "targets.csv", folder / f"summary-{rate}.json"
            lines = (f"127.0.0.{1 + n % _LISTENERS},name-{n}.test,{_PORT}\n" for n in range(count))
            targets.write_text("ip,domain,port\n" + "".join(lines), encoding="ascii")
            used = process.run(
                [
                    *(binaries.find("firstflight-tcp-options"), "--targets", targets),
                    *("--allow-net", "127.0.0.0/8", "--per-address-rate", "0", "--per-prefix-rate", "0"),
                    *("--rate", str(rate), "--segments", folder / f"segments-{rate}", "--summary", summary),
                ]
            )
            answered = json.loads(summary.read_text())["outcomes"].get("answered", 0)
            goals_met.append(
                values.add(
                    f"answered connections per CPU second, at most {rate:,}/s",
                    answered / used.cpu_s,
                    least=LEAST_PER_CPU_S if rate == RATES[0] else None,
                )
            )
            values.add(f"resident memory, at most {rate:,}/s", used.peak_mb, "MB")
            print(
                f"{count:,} targets, at most {rate:,} a second: {answered:,} answered, "
                f"{answered / used.cpu_s:,.0f} per CPU second ({used.cpu_s:.2f} CPU s, {used.wall_s:.1f} s, "
                f"{used.peak_mb:.0f} MB at most); {process.load()}",
                flush=True,
            )
    print(f"goal: {LEAST_PER_CPU_S:,} per CPU second")
    file.write(values.lines, results.packages())
    return int(not all(goals_met))


if __name__ == "__main__":
    sys.exit(main())
