"""The feed: probes at planned times, paused targets, and the exit of the feeder."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scanner.backoff.pauses import REFUSED_DETAIL
from tests.engines.feeding import started
from tests.engines.segments import rows_of
from tests.engines.shared_limits import EACH, check_turns
from tests.prober.conftest import LOOPBACK, argv, arrivals, datagrams
from tests.processes import halt
from tests.waiting import PATIENCE_S

Silent = Callable[[str], socket.socket]
FIRST = 1 << 31
MS = 1_000_000
TRIES = 5
FAULT_NS = 5 * MS


@dataclass
class Fed:
    """A prober with a feed. `folder` has its output."""

    folder: Path
    process: subprocess.Popen[str]

    def say(self, *lines: str) -> None:
        """Send commands."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines))
        self.process.stdin.flush()

    def slot(
        self,
        number: int,
        at_ns: int,
        to: tuple[str, int],
        *,
        grace: int = 100,
        owned: int = 0,
        group: int = 7,
    ) -> None:
        """Send a slot."""
        self.say(f"slot {FIRST + number} {at_ns} {grace} {owned} {group} {to[0]} {to[1]} a.test")

    def end(self) -> int:
        """Close the feed and return the exit status."""
        _, messages = self.process.communicate(timeout=PATIENCE_S)
        self.messages = messages
        return self.process.returncode

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return all records."""
        return rows_of(self.folder / "segments")

    @property
    def skipped(self) -> dict[int, str]:
        """Return the reasons of skipped slots, by slot number."""
        lines = [json.loads(line) for line in (self.folder / "skipped").read_text().splitlines()]
        return {line["slot"] - FIRST: line["reason"] for line in lines}

    @property
    def summary(self) -> dict[str, Any]:
        """Return the summary."""
        found: dict[str, Any] = json.loads((self.folder / "summary").read_text())
        return found


Feeds = Callable[..., Fed]


@pytest.fixture
def feed(tmp_path: Path) -> Feeds:
    """Return a function that starts a prober with a feed. The feed already contains the commands `first`."""

    def start(
        *options: object,
        limits: tuple[str, str] = ("0", "0"),
        targets: str | None = None,
        first: Sequence[str] = (),
    ) -> Fed:
        listed: list[object] = []
        if targets is not None:
            (tmp_path / "targets.csv").write_text(targets)
            listed = ["--targets", tmp_path / "targets.csv"]
        command = argv(
            *("--feed", *listed, "--segments", tmp_path / "segments", "--skipped", tmp_path / "skipped"),
            *("--summary", tmp_path / "summary", *LOOPBACK, "--timeout", "0.3", "--linger-ms", "0"),
            *("--per-address-rate", limits[0], "--per-prefix-rate", limits[1], *options),
        )
        return Fed(tmp_path, started(command, *first))

    return start


def test_slots_leave_at_their_time_once(feed: Feeds, silent: Silent) -> None:
    """Try several times, because all probes are late if the machine stalls the prober for seconds."""
    least = []
    for _ in range(TRIES):
        fed = feed("--attempts", 2)
        late_ns = lateness(fed, silent("127.0.0.1"))
        shutil.rmtree(fed.folder / "segments")
        assert min(late_ns) >= 0
        least.append(min(late_ns))
        # A prober that always waits too long by FAULT_NS is detected.
        assert not in_time([delay_ns + FAULT_NS for delay_ns in late_ns])
        if in_time(late_ns):
            return
    raise AssertionError(f"all probes are late, by at least {least} ns")


def in_time(late_ns: list[int]) -> bool:
    """Return whether no probe is early, and at least one is not late. The machine may delay others."""
    return 0 <= min(late_ns) < FAULT_NS


def lateness(fed: Fed, server: socket.socket) -> list[int]:
    """Feed slots over six seconds, check that each is sent once, and return the delays in ns."""
    to = ("127.0.0.1", server.getsockname()[1])
    start, count = time.time_ns() + 10_000 * MS, 60  # by then the prober has started
    times = {number: start + number * 100 * MS for number in range(count)}
    for number in reversed(times):  # in any order
        fed.slot(number, times[number], to, grace=60_000)
    fed.say("end")
    assert fed.end() == 0, fed.messages
    rows = fed.rows
    assert {row["target"] - FIRST for row in rows} == set(times)
    assert {(row["outcome"], row["attempts"]) for row in rows} == {("timeout", 1)}, (
        "a slot must be one connection"
    )
    assert len({row["client_cid"] for row in rows}) == count == len(datagrams(server))
    assert (fed.summary["targets"], fed.summary["skipped"], fed.skipped) == (count, 0, {})
    return [row["sent_at"] - times[row["target"] - FIRST] for row in rows]


def test_slots_that_cannot_leave_are_written_down(feed: Feeds, silent: Silent, tmp_path: Path) -> None:
    (tmp_path / "block").write_text("127.0.0.9\n")
    server = silent("127.0.0.1")
    to = ("127.0.0.1", server.getsockname()[1])
    fed = feed("--blocklist", tmp_path / "block", limits=("0.125", "0"))
    start = time.time_ns() + 2000 * MS
    fed.slot(0, start - 10_000 * MS, to)  # long past
    fed.slot(1, start, to, grace=60_000)
    # The limit blocks the address for eight seconds, longer than the grace. The reason would only be `late`
    # if the prober stalled for 7 s.
    fed.slot(2, start + 50 * MS, to, grace=7500)
    fed.slot(3, start + 60 * MS, to, grace=60_000)  # this one can wait that long
    fed.slot(4, start + 70 * MS, to, grace=60_000, owned=1)  # and this one is exempt
    fed.slot(5, start, ("127.0.0.9", 443), grace=60_000)
    fed.slot(6, start, ("192.0.2.1", 443), grace=60_000)  # not allowed without a contact
    fed.say("hold 8")
    fed.slot(7, start - 200 * MS, ("127.0.0.2", to[1]), group=8, grace=60_000)
    first = arrivals(server, 1)  # now the planned time of the slot in the held group has passed
    fed.say("free 8", "end")
    assert fed.end() == 0, fed.messages
    assert fed.skipped == {0: "late", 2: "limit", 6: "contact", 7: "paused"}
    rows = {row["target"] - FIRST: row for row in fed.rows}
    assert {number: row["outcome"] for number, row in rows.items()} == {
        1: "timeout",
        3: "timeout",
        4: "timeout",
        5: "blocked",
    }
    # The prober decides on the first slot at `start` or later, and on this slot eight seconds after that.
    # Timestamps are later than decisions.
    assert rows[3]["sent_at"] >= start + 7999 * MS
    assert rows[4]["sent_at"] < rows[3]["sent_at"]
    assert len(first) + len(datagrams(server)) == 3
    assert (fed.summary["targets"], fed.summary["sent"], fed.summary["skipped"]) == (4, 3, 4)


def test_a_stalled_prober_skips_what_it_missed(feed: Feeds, silent: Silent) -> None:
    server = silent("127.0.0.1")
    to = ("127.0.0.1", server.getsockname()[1])
    fed = feed()
    grace_ms, count = 300, 100  # ten seconds of slots, so that some remain after the stall
    start = time.time_ns() + 1000 * MS
    times = [start + number * 100 * MS for number in range(count)]
    for number, at_ns in enumerate(times):
        fed.slot(number, at_ns, to, grace=grace_ms)
    fed.say("end")
    arrivals(server, 1)
    halt(fed.process.pid)
    stopped = time.time_ns()
    time.sleep(1)
    resumed = time.time_ns()
    fed.process.send_signal(signal.SIGCONT)
    assert fed.end() == 0, fed.messages
    assert set(fed.skipped.values()) == {"late"}
    missed = {n for n, at_ns in enumerate(times) if stopped < at_ns < resumed - grace_ms * MS}
    assert missed and missed <= set(fed.skipped)
    sent = {row["target"] - FIRST: row["sent_at"] for row in fed.rows}
    assert all(times[number] <= at_ns for number, at_ns in sent.items())
    assert any(at_ns > resumed for at_ns in sent.values()), "the prober must continue after the stall"
    assert sorted([*sent, *fed.skipped]) == list(range(count)), "every slot must be sent or skipped once"


def test_held_groups_wait_and_refused_ones_are_blocked(feed: Feeds, silent: Silent) -> None:
    first_server, second_server = silent("127.0.0.1"), silent("127.0.0.1")
    ports = [first_server.getsockname()[1], second_server.getsockname()[1]]
    # Group 2 is large, so that some targets remain even if the refusal is late.
    counts = {1: 30, 2: 300}
    lines = [
        f"127.0.0.1,n{g}-{n}.test,{ports[g - 1]},{g}" for g, count in counts.items() for n in range(count)
    ]
    targets = "\n".join(["ip,domain,port,group", *lines])
    fed = feed("--rate", 20, "--attempts", 2, targets=targets, first=["hold 2"])
    arrivals(
        first_server, 60
    )  # both attempts of all targets in group 1: without the hold, the list would be done
    held_at = len(datagrams(second_server))
    assert held_at < counts[2] and fed.process.poll() is None, "the prober must wait for targets of group 2"
    fed.say("free 2")
    arrivals(second_server, 1)
    fed.say("refuse 2", "end")
    assert fed.end() == 0, fed.messages
    by_group = {group: [row for row in fed.rows if row["port"] == ports[group - 1]] for group in (1, 2)}
    assert {group: len(rows) for group, rows in by_group.items()} == counts
    assert {(row["outcome"], row["attempts"]) for row in by_group[1]} == {("timeout", 2)}
    blocked = [row for row in by_group[2] if row["outcome"] == "blocked"]
    probed = [row for row in by_group[2] if row["outcome"] == "timeout"]
    assert len(blocked) + len(probed) == counts[2] and blocked and len(probed) > held_at // 2
    assert {(row["detail"], row["attempts"]) for row in blocked} == {(REFUSED_DETAIL, 0)}
    # No further attempt while the group is held or refused.
    assert any(row["attempts"] == 1 for row in probed)


def test_a_run_with_a_list_ends_with_it_however_many_slots_follow(feed: Feeds, silent: Silent) -> None:
    """A campaign with enough control names always has a slot in flight."""
    server = silent("127.0.0.1")
    to = ("127.0.0.1", server.getsockname()[1])
    targets = f"ip,domain,port\n{to[0]},a.test,{to[1]}\n"
    planned = 600  # they fit into a pipe
    now = time.time_ns()
    # One slot every 100 ms, with a timeout of 300 ms.
    slots = [f"slot {FIRST + n} {now + n * 100 * MS} 100 1 0 {to[0]} {to[1]} a.test" for n in range(planned)]
    fed = feed(targets=targets, first=[*slots, "end"])
    assert fed.end() == 0, fed.messages
    assert sum(row["target"] < FIRST for row in fed.rows) == 1
    assert len(fed.rows) - 1 + len(fed.skipped) == planned
    assert list(fed.skipped.values()).count("stopped") > planned // 2


def test_a_feeder_that_is_gone_ends_the_run_in_order(feed: Feeds, silent: Silent) -> None:
    server = silent("127.0.0.1")
    to = ("127.0.0.1", server.getsockname()[1])
    fed = feed()
    now = time.time_ns()
    fed.slot(0, now + 200 * MS, to, grace=20_000)
    fed.slot(1, now + 600_000 * MS, to)
    arrivals(server, 1)
    assert fed.end() == 130
    assert [row["outcome"] for row in fed.rows] == ["timeout"] and fed.skipped == {1: "stopped"}


@pytest.mark.parametrize("line", ["probe it", "slot 7 1 0 0 0 127.0.0.1 443 a.test", "hold x"])
def test_a_broken_command_is_3(feed: Feeds, line: str) -> None:
    fed = feed()
    fed.say("hold 5", line)
    assert fed.end() == 3
    assert "line 2 of the feed" in fed.messages and "panicked" not in fed.messages


@pytest.mark.parametrize(
    "options", [["--feed"], ["--targets", "-", "--feed", "--segments", "x"], ["--turn", "2/2:3:1"]]
)
def test_wrong_use_of_the_feed_is_2(tmp_path: Path, options: list[str]) -> None:
    done = subprocess.run(
        argv(*options, *LOOPBACK),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])


def test_turns_keep_two_probers_apart(silent: Silent, tmp_path: Path) -> None:
    """Two probers share 20 probes a second to one prefix. Together they keep the limit, and take turns."""
    port = silent("127.0.0.1").getsockname()[1]
    (tmp_path / "t.csv").write_text(
        "ip,domain,port\n" + "".join(f"127.0.0.1,n{n}.test,{port}\n" for n in range(EACH))
    )
    running = []
    for index in range(2):
        folder = tmp_path / str(index)
        command = argv(
            *("--targets", tmp_path / "t.csv", "--segments", folder, *LOOPBACK, "--timeout", "0.2"),
            *("--attempts", 1, "--linger-ms", 0, "--rate", 500, "--per-address-rate", 0),
            *("--per-prefix-rate", 20, "--turn", f"{index}/2:0.8:0.3"),
        )
        running.append((folder, subprocess.Popen(command, stderr=subprocess.DEVNULL)))
    sent: list[tuple[int, int]] = []
    for index, (folder, process) in enumerate(running):
        assert process.wait(timeout=PATIENCE_S) == 0
        sent += [(row["sent_at"], index) for row in rows_of(folder)]
    check_turns(sent, EACH)


def test_targets_not_sent_in_a_turn_wait_for_the_next(silent: Silent, tmp_path: Path) -> None:
    """The prober has the first of two turns, 2 s long with a pause of 1 s. Its targets need several turns.

    Each target is in another prefix.
    """
    port = silent("0.0.0.0").getsockname()[1]
    ips = [f"127.{n}.7.1" for n in range(100)]
    lines = [f"{ip},n{n}.test,{port}" for n, ip in enumerate(ips)]
    (tmp_path / "t.csv").write_text("\n".join(["ip,domain,port", *lines]) + "\n")
    folder = tmp_path / "segments"
    command = argv(
        *("--targets", tmp_path / "t.csv", "--segments", folder, *LOOPBACK, "--timeout", "0.2"),
        *("--attempts", 1, "--linger-ms", 0, "--rate", 20, "--turn", "0/2:2:1"),
    )
    subprocess.run(command, stderr=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
    sent = [(row["ip"], row["sent_at"]) for row in rows_of(folder)]
    assert sorted(ip for ip, _ in sent) == sorted(ips)
    # The prober decides during its turn. A stall between decision and kernel timestamp delays a batch of 5.
    assert outside(sent) < 20
    assert outside([(ip, at + 1000 * MS) for ip, at in sent]) > 80, "probes in pauses must be detected"


def outside(sent: Sequence[tuple[str, int]]) -> int:
    """Return the number of (address, UTC in ns) outside of the turns (docs/design/0008)."""
    count = 0
    for ip, at in sent:
        hashed = 0xCBF29CE484222325
        for byte in socket.inet_aton(ip)[:3] + b"\0":
            hashed = (hashed ^ byte) * 0x100000001B3 % (1 << 64)
        turn, into = divmod(at, 2000 * MS)
        ours = (turn + (hashed ^ hashed >> 32) % (1 << 32)) % 2 == 0
        count += not (ours and into < 1000 * MS)
    return count
