"""Measure the download clients: `python -m bench downloads`.

Each client downloads the same file of 20 MB from the same host over the lab's link without a rate limit, in
separate namespaces; so does the curl command. A round runs one process of each in turn, so that a busy
machine slows all of them. CPU time is the time (user + system) that the kernel charges the process from the
moment it is ready. The start of the curl command cannot be separated from its work; for it, CPU time is the
difference to a small download. QUIC clients also run on the server's loopback: over the link, the kernel
computes each datagram's checksum in software and carries each acknowledgement to the link, both in the
client's time. With a network card, the card does this work.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import process, results
from bench.campaigns import campaign_world
from downloader.clients.contract import ClientAnswer, Request
from downloader.option_sets import SETS
from downloader.transfers.worker import command
from tests.download.world import NAME, SERVER_V4, SIZES, DownloadWorld

RESULT = "downloads"
RTT_US = 10_000
FILE = "twenty"
MB = SIZES[FILE] / 1e6
# Goals in megabytes per CPU second: libcurl for TCP as a share of the curl command, and the QUIC client.
LEAST_OF_CURL, LEAST_QUIC = 0.9, 350.0
COMMAND = "curl's command"
ON_LOOPBACK = " on loopback"
_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class ClientSpeed:
    """A process's work. `cpu_s` is of all downloads, `wall_s` from the first request to the end."""

    downloads: int
    cpu_s: float
    wall_s: float

    @property
    def mb_per_cpu_s(self) -> float:
        """Millions of bytes of bodies per CPU second."""
        return self.downloads * MB / self.cpu_s


def of_client(world: DownloadWorld, name: str, downloads: int, end: str = "v") -> ClientSpeed:
    """Measure a client of `SETS` as the stage runs it. SystemExit if a download is not complete.

    `end`: `v` runs the client at the vantage point, `s` over loopback at the server.
    """
    option_set = SETS[name]
    argv = world.enter(end, command(option_set.client, ["allow-net=198.18.0.0/15"]))
    request = Request(
        url=world.url(FILE),
        host=NAME,
        ip=SERVER_V4,
        port=443,
        path=f"/{FILE}",
        user_agent="firstflight-bench",
        timeout_s=_TIMEOUT_S,
        max_bytes=1 << 30,
        roots=str(world.roots),
        http=option_set.http,
    )
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdin is not None and client.stdout is not None
        client.stdout.readline()
        cpu, began = process.cpu_ns(client.pid), time.monotonic()
        for _ in range(downloads):
            client.stdin.write(request.line())
            client.stdin.flush()
            answer = ClientAnswer.of(client.stdout.readline())
            if answer.end != "complete" or answer.body_bytes != SIZES[FILE]:
                raise SystemExit(f"bench: {name}: {answer.end}, {answer.body_bytes} bytes, {answer.detail}")
        used = ClientSpeed(downloads, (process.cpu_ns(client.pid) - cpu) / 1e9, time.monotonic() - began)
        client.stdin.close()
    return used


def of_curl(world: DownloadWorld, downloads: int) -> ClientSpeed:
    """Measure the curl command with one connection per download, like the clients."""

    def used(file: str, times: int) -> process.Used:
        connection = ["--connect-to", f"::{SERVER_V4}:443", "--cacert", str(world.roots)]
        headers = ["--http1.1", "--header", "Connection: close", "--header", "Accept-Encoding: identity"]
        files = [word for _ in range(times) for word in ("--output", "/dev/null", world.url(file))]
        return process.run(world.enter("v", ["curl", "--silent", "--fail", *connection, *headers, *files]))

    start, all_of_them = used("small", 1), used(FILE, downloads)
    return ClientSpeed(downloads, all_of_them.cpu_s - start.cpu_s, all_of_them.wall_s - start.wall_s)


def measure(
    world: DownloadWorld, names: Sequence[str], downloads: int, rounds: int
) -> dict[str, list[ClientSpeed]]:
    """Return the measured speeds of each client and of the curl command, one per round."""
    ways: dict[str, Callable[[], ClientSpeed]] = {COMMAND: lambda: of_curl(world, downloads)}
    for name in names:
        ways[name] = lambda name=name: of_client(world, name, downloads)  # type: ignore[misc]
        if SETS[name].protocol == "udp":
            ways[name + ON_LOOPBACK] = lambda name=name: of_client(world, name, downloads, "s")  # type: ignore[misc]
    found: dict[str, list[ClientSpeed]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            found[name].append(way())
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a client misses the goal."""
    parser = argparse.ArgumentParser(prog="bench downloads")
    parser.add_argument("--sets", nargs="+", default=["bl", "quiche", "libcurl"], choices=sorted(SETS))
    parser.add_argument("--downloads", type=int, default=10, help="of 20 MB, by each process")
    parser.add_argument("--rounds", type=int, default=5)
    results.add_option(parser)
    options = parser.parse_args(arguments)
    file = results.begin(parser, options.result, RESULT)
    campaign_world.enter_namespace("bench.engines.downloads", sys.argv[1:])
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with DownloadWorld(folder, RTT_US) as world:
            found = measure(world, options.sets, options.downloads, options.rounds)
    listed = results.Values()
    missed = 0
    for name, speeds in found.items():
        values = [speed.mb_per_cpu_s for speed in speeds]
        ratios = [v / of.mb_per_cpu_s for v, of in zip(values, found[COMMAND], strict=True)]
        middle, ratio = statistics.median(values), statistics.median(ratios)
        wall = statistics.median(speed.downloads * MB / speed.wall_s for speed in speeds)
        print(
            f"{name}: {middle:,.0f} MB per CPU second ({min(values):,.0f} to {max(values):,.0f}), "
            f"{ratio:.2f} of curl's command, {wall:,.0f} MB per second of time",
            flush=True,
        )
        goal = LEAST_QUIC if name == "quiche" else None
        missed += not listed.add(f"{name}: body per CPU second", middle, "MB", least=goal, of=values)
        goal = LEAST_OF_CURL if name in SETS and SETS[name].protocol == "tcp" else None
        if name != COMMAND:
            text = f"{name}, compared with {COMMAND}"
            missed += not listed.add(text, ratio, "times", least=goal, of=ratios)
    print(
        f"goals: TCP {LEAST_OF_CURL} of curl's command, quiche {LEAST_QUIC:.0f} MB per CPU second; "
        f"{options.rounds} rounds of {options.downloads} downloads of {MB:.0f} MB, round trip "
        f"{RTT_US / 1000:.0f} ms; {process.load()}"
    )
    file.write(listed.lines, results.packages("pycurl"))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
