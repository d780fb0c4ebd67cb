"""Which stacks the handshake engine names, as a confusion table: `python -m bench known_stacks`.

Starts each server of the testbed on loopback and completes a handshake. The options of picoquic and ngtcp2
are drawn (`--seed`), so their transport parameters differ. The other servers have no such options, and run
once. A line of the table has the handshakes with a server by the stack that the engine named. `-`: none.
A wrong name gives exit 1; none does not, because several stacks may fit a fingerprint.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from firstflight.errors import UsageError
from tests.handshake.conftest import HOST, connect
from tests.testbed import loopback

NONE = "-"
SERVERS = {
    "aioquic": "aioquic",
    "ngtcp2-gnutls": "ngtcp2",
    "picoquic": "picoquic",
    "quic-go": "quic-go",
    "quiche": "quiche",
    "quinn": "quinn",
    "s2n-quic": "s2n-quic",
}
"""Server -> stack."""
_TIMEOUT_S = 20


def _ngtcp2(random: Random) -> list[str]:
    sizes = ("data", "stream-data-bidi-local", "stream-data-bidi-remote", "stream-data-uni")
    options = [f"--max-{name}={random.randint(1, 1 << 24)}" for name in sizes]
    options += [f"--max-streams-bidi={random.randint(1, 300)}", f"--max-streams-uni={random.randint(0, 10)}"]
    options += [f"--timeout={random.choice((0, 5, 90))}s"]
    if random.random() < 0.5:
        options.append("--preferred-ipv4-addr=127.0.0.1:4433")
    return options


def _picoquic(random: Random) -> list[str]:
    options = ["-d", str(random.choice((0, 1_000, 90_000))), "-Z", str(random.randint(1 << 16, 1 << 24))]
    for name, values in {"-O": "012", "-j": "01", "-J": "012", "-R": "012"}.items():
        options += [name, random.choice(values)]
    return options + random.sample(["-5", "-M"], random.randint(0, 2))


DRAWN: dict[str, Callable[[Random], list[str]]] = {"ngtcp2-gnutls": _ngtcp2, "picoquic": _picoquic}
"""Server -> function that draws its options."""


def named(server: str, options: list[str]) -> tuple[str, str | None]:
    """Return the stack that the engine names for a server with `options`, and the fingerprint."""
    with tempfile.TemporaryDirectory() as folder:
        given = loopback.configuration(Path(folder), server)
        with loopback.serving(Path(folder), server, given, *options):
            target = (HOST, loopback.NAME, given["port"])
            (row,) = connect(Path(folder), [target], "--timeout", _TIMEOUT_S, "--verify", "none").rows
    assert row["outcome"] == "done", row
    return row["stack"] or NONE, row["stack_fingerprint"]


def main() -> int:
    """Print the table; the exit status is 1 if a name is wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench known_stacks", description=__doc__)
    parser.add_argument(
        "--draws", type=int, default=20, help="settings per server with options (default: 20)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the settings (default: 1)")
    asked = parser.parse_args()
    random = Random(asked.seed)
    counts: dict[str, Counter[str]] = {}
    for server in SERVERS:
        draw = DRAWN.get(server)
        try:
            found = [named(server, draw(random) if draw else []) for _ in range(asked.draws if draw else 1)]
        except UsageError as error:
            print(f"{server}: not measured: {error}", flush=True)
            continue
        counts[server] = Counter(name for name, _ in found)
        print(
            f"{server}: {len(found)} handshakes, {len({text for _, text in found})} fingerprints", flush=True
        )
    names = sorted({name for counted in counts.values() for name in counted})
    print("server \\ named".ljust(16), *(name.rjust(9) for name in names))
    for server, counted in counts.items():
        print(server.ljust(16), *(str(counted[name]).rjust(9) for name in names))
    wrong = sum(counted.total() - counted[SERVERS[name]] - counted[NONE] for name, counted in counts.items())
    print(f"wrong names: {wrong}; none: {sum(counted[NONE] for counted in counts.values())}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
