"""The whole lab and the prober in a guest: exact times, and the same bytes in two runs (docs/design/0013).

The same comparisons as in tests/end_to_end, with tolerances that no machine in real time would keep.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from lab.declared import internet
from lab.declared.internet import DEFAULT
from lab.expected import truth
from lab.system.link_log import LinkLog
from testbed.guest import guest
from tests.end_to_end import oracle
from tests.end_to_end.stamps import key_of, possible_send_ns, shifted, wrong_stamps

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("lab.sh")
VANTAGE = "hamburg"
TARGETS = 250
# The link's, the kernel's and a compiled server's readings of the clock cost some hundred nanoseconds each.
DELAY_US = 20
# An interpreter reads the clock hundreds of times for an answer; Go's runtime also sleeps in between.
EXACT = ("quiche", "rogue")
# A guest has one processor. The link and the servers spin for this time before each planned event, because a
# real kernel wakes them late (SPIN_NS in lab/link/src/main.rs, SPIN in lab/listener/src/serve.rs).
SPINS_US = 25 + 60
# Pairs (outcome, server's mode) with the delay before the ServerHello.
COMPARED = {("iack", "iack"), ("coalesced", "wait")}
STAMP_FAULT_US = 2
LINK_FAULT_US = 30
WRONG_EDGE = "amazon"

Row = dict[str, Any]


class GuestOutput:
    """The output of one guest, which is compared with the declared network even if the guest had another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def rows(self) -> list[Row]:
        """Return the prober's rows."""
        lines = (self.folder / "probes.jsonl").read_text(encoding="utf-8").splitlines()
        rows: list[Row] = [json.loads(line) for line in lines]
        return [{**row, "sent_ns": row["sent_at"]} for row in rows]

    @cached_property
    def readings(self) -> dict[oracle.Key, oracle.Reading]:
        """Return tshark's readings of the capture that was taken during the probes."""
        return oracle.read(self.folder / "probe.pcap")

    @cached_property
    def log(self) -> LinkLog:
        """Return the link's log."""
        return LinkLog(self.folder / "lateness.csv")


NET = internet.load()
TRUTH = {
    (line["domain"], line["ip"]): line
    for line in truth.lines(NET)
    if line["vantage"] == VANTAGE and line["ip"] is not None
}
HOST_OF = {ip: host.name for host in NET.hosts for ip in (host.v4, host.v6)} | {
    endpoint.ip: endpoint.host for endpoint in NET.endpoints
}


def targets() -> str:
    """Return the first names of the truth as a target list."""
    lines = [f"{ip},{domain}," for (domain, ip), line in TRUTH.items() if line["outcome"] != "blocked"]
    return "\n".join(["ip,domain,port", *lines[:TARGETS], ""])


def probed(folder: Path, *options: str) -> GuestOutput:
    """Run the lab and the prober in a guest in `folder`."""
    folder.mkdir()
    shutil.copyfile(SCRIPT, folder / SCRIPT.name)
    (folder / "targets.csv").write_text(targets(), encoding="utf-8")
    wrong = DEFAULT.read_text(encoding="utf-8")
    rtt_ms = NET.rtt_us(VANTAGE, WRONG_EDGE) / 1000
    head, section, rest = wrong.partition(f"[rtt_ms.{VANTAGE}]\n")
    line = f"{WRONG_EDGE} = {rtt_ms}\n"
    assert line in rest
    rest = rest.replace(line, f"{WRONG_EDGE} = {rtt_ms + 2 * LINK_FAULT_US / 1000}\n", 1)
    (folder / "wrong.toml").write_text(head + section + rest, encoding="utf-8")
    done = guest.run(
        ["sh", SCRIPT.name, sys.executable, *options],
        folder,
        memory_mb=2048,
        environment={"PYTHONPATH": str(ROOT)},
        visible=[ROOT, Path(sys.prefix)],
    )
    logs = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt")))
    assert done.status == 0, (done.stderr.decode(), logs)
    return GuestOutput(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GuestOutput, GuestOutput, GuestOutput]]:
    """Two runs with the same seed, and a run with a slower link to one edge than declared."""
    folder = tmp_path_factory.mktemp("lab")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(probed, folder / "first")
        second = pool.submit(probed, folder / "second")
        wrong = pool.submit(probed, folder / "wrong", "--behaviour", "wrong.toml")
        yield first.result(), second.result(), wrong.result()


def test_two_runs_are_the_same_bytes(runs: tuple[GuestOutput, GuestOutput, GuestOutput]) -> None:
    first, second, wrong = runs
    for name in ("probes.jsonl", "probe.pcap", "lateness.csv"):
        content = (first.folder / name).read_bytes()
        assert (second.folder / name).read_bytes() == content, name
        assert (wrong.folder / name).read_bytes() != content, name


def test_outcomes_are_as_declared(runs: tuple[GuestOutput, GuestOutput, GuestOutput]) -> None:
    for run in runs:
        assert len(run.rows) == TARGETS
        for row in run.rows:
            declared = TRUTH[row["domain"], row["ip"]]["outcome"]
            assert row["outcome"] == declared == run.readings[key_of(row)].outcome, row


def test_every_stamp_is_within_a_microsecond(runs: tuple[GuestOutput, GuestOutput, GuestOutput]) -> None:
    """Prober, capture and link stamp the same packet at the same time."""
    for run in runs:
        for row in run.rows:
            reading = run.readings[key_of(row)]
            possible = possible_send_ns(reading, key_of(row), run.log)
            assert possible[1] - possible[0] <= 1000, row
            assert wrong_stamps(row, reading, possible) == [], (row, reading)


@pytest.mark.parametrize("fault_us", [STAMP_FAULT_US, -STAMP_FAULT_US])
@pytest.mark.parametrize("column", ["sent_at", "ack_us", "sh_us", "ack_to_sh_us"])
def test_a_wrong_timestamp_is_detected(
    runs: tuple[GuestOutput, GuestOutput, GuestOutput], column: str, fault_us: int
) -> None:
    """In every row, not only in most."""
    run = runs[0]
    rows = [row for row in run.rows if row["outcome"] == "iack"]
    assert len(rows) > TARGETS / 4
    for row in rows:
        reading = run.readings[key_of(row)]
        possible = possible_send_ns(reading, key_of(row), run.log)
        assert wrong_stamps(shifted(row, column, fault_us), reading, possible) == [column], row


def late_us(run: GuestOutput) -> dict[str, list[int]]:
    """Return each answer's lateness relative to the declared delays, by edge, in us."""
    found = defaultdict(list)
    for row in run.rows:
        declared = TRUTH[row["domain"], row["ip"]]
        if declared["stack"] not in EXACT or (row["outcome"], declared["mode"]) not in COMPARED:
            continue
        edge = HOST_OF[row["ip"]]
        rtt_us, waited_us = NET.rtt_us(VANTAGE, edge), declared["delay_us"] or 0
        found[edge].append(row["sh_us"] - rtt_us - waited_us)
        if row["outcome"] == "iack":
            found[edge] += [row["ack_us"] - rtt_us, row["ack_to_sh_us"] - declared["ack_to_sh_us"]]
    return found


def is_declared(late: list[int]) -> bool:
    """Return whether an edge's answers fit the declared delays: no early answer, and an exact median."""
    return min(late) >= 0 and median(late) <= DELAY_US and max(late) <= DELAY_US + SPINS_US


def test_delays_are_as_declared(runs: tuple[GuestOutput, GuestOutput, GuestOutput]) -> None:
    """Round trips and the servers' delays; a link that is 30 us slower each way is seen where it is."""
    first, _, wrong = runs
    late = late_us(first)
    assert sum(map(len, late.values())) > TARGETS
    assert {edge: late_of_edge for edge, late_of_edge in late.items() if not is_declared(late_of_edge)} == {}
    assert [edge for edge, late_of_edge in late_us(wrong).items() if not is_declared(late_of_edge)] == [
        WRONG_EDGE
    ]
