"""Real engines at a vantage point during an opt-out at the centre and while the link to the centre is cut."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from firstflight.egress import current
from firstflight.system import binaries, children
from tests.optout.world import OptoutWorld
from tests.waiting import until

RATE = 20
HELD = "confirmation of the opt-out list"
STAYS, LEAVES, LEAVES_BY_NAME = "127.0.0.8", "127.0.0.7", "127.0.0.9"
NAMES = {STAYS: "stays.test", LEAVES: "leaves.test", LEAVES_BY_NAME: "named.test"}
# More targets than any test here waits for.
TARGETS = 3000
QUICK = ("--timeout", "0.2", "--per-address-rate", 0, "--per-prefix-rate", 0, "--allow-net", "127.0.0.0/8")

# Prints time (ns) and destination of every datagram to a port.
_SINK = """
import socket, struct, sys
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.setsockopt(socket.IPPROTO_IP, 8, 1)   # IP_PKTINFO
sink.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
try:  # all of them while this program waits
    sink.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
except PermissionError:
    sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
sink.bind(("0.0.0.0", 443))
print("READY", flush=True)
while True:
    _, found, _, _ = sink.recvmsg(2048, 256)
    for level, kind, data in found:
        if level == socket.IPPROTO_IP:
            to = socket.inet_ntoa(data[8:12])
        else:
            seconds, ns = struct.unpack("=qq", data[:16])
    print(seconds * 10**9 + ns, to, flush=True)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OptoutWorld]:
    """Return both machines; the vantage point follows the list."""
    with OptoutWorld(tmp_path_factory.mktemp("site")) as raised:
        follower = raised.follow()
        until(lambda: raised.age_s() < current.BEGIN_FOR_S, "a confirmation")
        yield raised
        children.stop(follower)


class CutOffEngine:
    """A prober, or another engine, on a list of silent targets, and every datagram that arrives there."""

    def __init__(self, world: OptoutWorld, folder: Path, program: str, *options: object) -> None:
        lines = [f"{ip},n{number}.{name},443" for number in range(TARGETS) for ip, name in NAMES.items()]
        (folder / "targets.csv").write_text("\n".join(["ip,domain,port", *lines]) + "\n")
        self.progress = folder / "engine.json"
        self._summary = folder / "summary.json"
        self._arrived = folder / "arrived"
        with self._arrived.open("wb") as out:
            self._sink = world.start("vantage", [sys.executable, "-c", _SINK], stdout=out)
        until(lambda: self._arrived.read_bytes().startswith(b"READY"), "the sink")
        argv = [binaries.find(program), "--targets", folder / "targets.csv", "--rate", RATE, *QUICK]
        argv += ["--summary", self._summary, "--progress", self.progress, *options]
        with (folder / "rows").open("wb") as rows, (folder / "messages").open("wb") as messages:
            self._process = world.start(
                "vantage", argv, stdin=subprocess.DEVNULL, stdout=rows, stderr=messages
            )
        self._rows, self._messages = folder / "rows", folder / "messages"

    def arrived(self, ip: str = "") -> list[int]:
        """Return arrival times (kernel's clock, ns) of datagrams to an address, or to all addresses."""
        lines = self._arrived.read_text().split("\n")[1:-1]
        return [int(line.split()[0]) for line in lines if line.endswith(ip)]

    def state(self) -> dict[str, Any]:
        """Return the state that the engine reports; empty before its first report."""
        try:
            return dict(json.loads(self.progress.read_text()))
        except (OSError, ValueError):
            return {}

    def messages(self) -> str:
        """Return its messages."""
        return self._messages.read_text()

    def goes_on(self) -> None:
        """Wait until more datagrams have arrived than now."""
        before = len(self.arrived(STAYS))
        until(lambda: len(self.arrived(STAYS)) > before + 3, self.messages)

    def end(self) -> tuple[list[dict[str, Any]], dict[str, Any], str]:
        """Stop the engine gracefully; return rows, summary and messages."""
        children.stop(self._process, 60)
        children.stop(self._sink)
        rows = [json.loads(line) for line in self._rows.read_text().splitlines()]
        return rows, json.loads(self._summary.read_text()), self.messages()


@pytest.fixture
def engine(world: OptoutWorld, tmp_path: Path) -> Iterator[Callable[..., CutOffEngine]]:
    """Start engines; stop engines that a failed test left running."""
    started: list[CutOffEngine] = []

    def start(*words: object) -> CutOffEngine:
        program, *options = words
        started.append(CutOffEngine(world, tmp_path, str(program), *options))
        return started[-1]

    yield start
    for each_engine in started:
        children.stop(each_engine._process)
        children.stop(each_engine._sink)


def test_an_opt_out_at_the_centre_applies_to_a_running_stage(
    world: OptoutWorld, engine: Callable[..., CutOffEngine]
) -> None:
    probing = engine("firstflight-prober", "--attempts", 1)
    for ip in NAMES:
        until(partial(probing.arrived, ip), "probes to all addresses")
    world.enter(LEAVES, "named.test")
    until(lambda: "named.test" in world.copy.read_text(), "the entry at the vantage point")
    copied_ns = world.copy.stat().st_mtime_ns
    for _ in range(3):
        probing.goes_on()
    rows, summary, _ = probing.end()
    for ip in (LEAVES, LEAVES_BY_NAME):
        # An engine checks the list four times a second. While it is delayed, it does not send either.
        late = [at for at in probing.arrived(ip) if at > copied_ns]
        assert len(late) <= RATE, f"{len(late)} datagrams to {ip} after the arrival of the copy"
        blocked = [row for row in rows if row["ip"] == ip and row["outcome"] == "blocked"]
        assert blocked and all("opt-out" in row["detail"] and row["sent_at"] is None for row in blocked)
        sent = [row["sent_at"] for row in rows if row["ip"] == ip and row["sent_at"] is not None]
        assert len(sent) == len(probing.arrived(ip))
    assert not [row for row in rows if row["ip"] == STAYS and row["outcome"] == "blocked"]
    assert summary["lists_read_again"] == 1 and summary["unconfirmed_s"] == 0.0


@pytest.mark.parametrize("program", ["prober", "handshake", "tcp-options"])
def test_nothing_is_sent_while_the_link_to_the_centre_is_cut(
    world: OptoutWorld, engine: Callable[..., CutOffEngine], program: str
) -> None:
    is_tcp = program == "tcp-options"
    probing = engine(f"firstflight-{program}")
    if not is_tcp:
        probing.goes_on()
    world.cut()
    try:
        # A request in flight may still be confirmed. After it, there are no confirmations.
        until(lambda: world.age_s() > 3 * 2.0, "the link to be cut")
        # Simulate that the time has passed: probes in flight finish, and no further ones start.
        world.age_by(current.BEGIN_FOR_S)
        until(lambda: probing.state().get("limit") == HELD, probing.state)
        until(lambda: probing.state().get("in_flight") == 0, probing.state)
        world.age_by(current.SEND_FOR_S - current.BEGIN_FOR_S)
        until(lambda: "nothing is sent" in probing.messages(), probing.messages)
        held_ns, done = time.time_ns(), probing.state()["done"]
        probing.progress.unlink()
        until(probing.state, "another state")  # the engine is alive, and its loop runs
        assert (probing.state()["limit"], probing.state()["done"]) == (HELD, done)
    finally:
        mended_ns = time.time_ns()
        world.mend()
    until(lambda: world.age_s() < current.BEGIN_FOR_S, "a confirmation")
    until(lambda: probing.state().get("done", 0) > done + 3, "more targets")
    if not is_tcp:
        # Datagrams that arrived during the cut would have been printed before these.
        until(lambda: probing.arrived() and probing.arrived()[-1] > mended_ns, "later datagrams")
    assert [at for at in probing.arrived() if held_ns < at < mended_ns] == []
    rows, summary, messages = probing.end()
    assert rows and summary["unconfirmed_s"] > 0
    assert "not confirmed" in messages and "the run continues" in messages
