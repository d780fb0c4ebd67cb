"""Launch times and windows in a server's log: joined with a capture, counted, and shown."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import InputError
from lab.hosts.certificates import ServerCertificate
from testbed.experiment.cell import Cell
from testbed.measures import launches
from testbed.measures.launches import Launches
from testbed.measures.sending import windows as of_windows
from testbed.measures.sending.windows import CongestionWindow, reductions
from testbed.trials import block, server_config, trial_row
from testbed.trials.captures import lateness
from tests.testbed.experiments import find
from tests.testbed.experiments import text as text_of

OWN = find("pacing-launches")
SIZE = 12_000
FILES = ServerCertificate(Path("chain.pem"), Path("key.pem"))


def named(control: str, qdisc: str, server: str = "quiche") -> Cell:
    conditions = (control, qdisc, server)
    found: Cell
    (found,) = (
        cell for cell in OWN.cells() if (cell.congestion_control, cell.qdisc, cell.server) == conditions
    )
    return found


def test_datagrams_are_joined_by_their_tags() -> None:
    of_log = {"aa" * 16: 1000, "bb" * 16: 2000, "dd" * 16: 9}
    left = [(1500, b"\xbb" * 16), (1400, b"\xaa" * 16), (7, b"\xcc" * 16)]
    assert launches.late_ns(of_log, left) == [-500, 400]


def windows(*sizes: int) -> list[CongestionWindow]:
    return [CongestionWindow(1000 * number, size, 0) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "back", "rolling_ns"),
    [
        ([], [], 0),
        ([SIZE, SIZE + 1200], [], 0),
        ([SIZE, 8400, SIZE], [True], 1000),
        # It grows back, an ACK at a time.
        ([SIZE, 10_800, SIZE], [False], 0),
        ([SIZE, 8400, 9600, 10_800, SIZE], [False], 0),
        # A rollback restores exactly the earlier window, not approximately.
        ([SIZE, 8400, SIZE + 1], [False], 0),
        # Twice in a row, the second time from a window that had grown; then no more.
        ([SIZE, 8400, SIZE, 8400, 9600 - 600, SIZE, 8400, 9600], [True, True, False], 4000),
        # Twice in a row, but to another window the second time.
        ([SIZE, 8400, SIZE, SIZE + 1200, 9000, SIZE + 1200], [True, True], 1000),
        # Two reductions before: the last one counts.
        ([20_000, SIZE, 8400, 20_000], [False, False], 0),
        ([20_000, SIZE, 8400, SIZE, 20_000], [False, True], 1000),
        # The same window with more losses is no change.
        ([SIZE, SIZE, 8400, 8400, SIZE], [True], 2000),
    ],
)
def test_reductions_that_are_rolled_back(sizes: list[int], back: list[bool], rolling_ns: int) -> None:
    found = windows(*sizes)
    assert [reduction[1] is not None for reduction in reductions(found)] == back
    assert of_windows.rolling_ns(found) == rolling_ns


def frame(time_ns: int, payload: bytes) -> bytes:
    content = bytes(42) + payload
    return struct.pack("=IIII", *divmod(time_ns, 10**9), len(content), len(content)) + content


def trial(folder: Path, cell: Cell, late_ns: tuple[int, ...]) -> dict[str, Any]:
    """Leave log and capture of a trial between 1 and 2 s, and a datagram before it; return the row."""
    block_folder = folder / cell.name / "0001-0001"
    block_folder.mkdir(parents=True)
    lines: list[dict[str, Any]] = [{"time_ns": 5, "tag": "ff" * 16}]
    # The same datagram in two trials.
    frames = [frame(7, b"begin" * 20 + bytes(16))]
    for number, late in enumerate(late_ns):
        at_ns = 1_100_000_000 + number
        lines.append({"time_ns": at_ns, "tag": f"{number:02x}" * 16})
        frames.append(frame(at_ns + late, b"begin" * 20 + bytes([number]) * 16))
    for second, size in ((1.2, SIZE), (1.4, 8400), (1.7, SIZE), (5, 1)):
        lines.append({"time_ns": round(second * 1e9), "window_bytes": size, "lost": 3})
    (block_folder / "sender.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"time')
    (block_folder / "sender.pcap").write_bytes(struct.pack("=I", 0xA1B23C4D) + bytes(20) + b"".join(frames))
    done = {"repetition": 1, "begun_ns": 10**9, "ended_ns": 2 * 10**9}
    (block_folder / "trials.jsonl").write_text(json.dumps(done) + "\n")
    row = trial_row.without_trial("x", cell, 1, "done", None)
    return {**row, "capture_file": f"{cell.name}/0001-0001/path.pcap"}


def test_precision_is_the_deviation_of_lateness(tmp_path: Path) -> None:
    rows = [
        trial(tmp_path, named("bbr", "none"), (0, 2_000_000)),
        trial(tmp_path, named("bbr", "fq"), (10_000, 12_000, 14_000)),
        trial(tmp_path, named("bbr", "etf"), (-200_000, 200_000)),
        trial(tmp_path, named("cubic", "fq"), ()),
    ]
    found = {(cell.congestion_control, cell.qdisc): cell for cell in launches.cells(OWN, tmp_path, rows)}
    changed = trial(tmp_path, named("cubic", "fq", "quiche-sf"), ())
    assert (
        "quiche-sf, cubic, qdisc fq: not met: no reduction of the window is rolled back: 1 of 1."
        in text_of(OWN, [changed], tmp_path)
    )
    none, fq, cubic = found["bbr", "none"], found["bbr", "fq"], found["cubic", "fq"]
    assert (none.precision_ms, none.datagrams, none.late_p50_us) == (1, 2, 1000)
    assert fq.precision_ms == pytest.approx(0.00163, abs=1e-5)
    assert (fq.late_p50_us, fq.published_precision_ms) == (12, 0.12)
    assert (cubic.precision_ms, cubic.reductions, cubic.rollbacks) == (None, 1, 1)
    assert cubic.rolling_s == pytest.approx(0.3)
    assert [size for _, size in cubic.windows] == [SIZE, 8400, SIZE]
    text = text_of(OWN, rows, tmp_path)
    assert "quiche, bbr: met: precision in the published order: fq < etf < none: fq 0.002 ms" in text
    assert "quiche, cubic, qdisc fq: not met: several reductions of the window are rolled back" in text
    panels = launches.panels(list(found.values()))
    # Once for a qdisc, whatever the control.
    (theirs,) = (series for series in panels[0].series if series.published)
    assert [qdisc for qdisc, _ in theirs.points] == ["none", "fq", "etf"]
    assert [panel.title for panel in panels] == ["Launch times", "quiche CUBIC, qdisc fq"]
    assert panels[1].series[0].points[0] == (0, 12)


def test_log_and_capture_of_a_block_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each trial of the block gets its own part of the log."""
    row = trial(tmp_path, named("bbr", "fq"), (10, 20))
    with (tmp_path / row["capture_file"]).with_name("trials.jsonl").open("a") as file:
        file.write(json.dumps({"repetition": 2, "begun_ns": 3 * 10**9, "ended_ns": 6 * 10**9}) + "\n")
    read: list[Path] = []
    datagrams = lateness.datagrams

    def counted(file: Path, part: slice) -> Iterator[tuple[int, bytes]]:
        read.append(file)
        return datagrams(file, part)

    monkeypatch.setattr(lateness, "datagrams", counted)
    rows = [row, {**row, "repetition": 2}]
    (first, size), (second, other) = launches._of_block(tmp_path, rows)
    assert (first, [window.size for window in size]) == ([10, 20], [SIZE, 8400, SIZE])
    assert (second, [window.size for window in other]) == ([], [1])
    assert len(read) == 1
    (found,) = launches.cells(OWN, tmp_path, rows)
    assert (found.done, found.datagrams, len(read)) == (2, 2, 2)


def test_precision_is_compared_within_a_server() -> None:
    def line(server: str, qdisc: str, precision_ms: float) -> Launches:
        known = {"server": server, "qdisc": qdisc, "precision_ms": precision_ms, "done": 1}
        every: dict[str, Any] = {field.name: known.get(field.name) for field in dataclasses.fields(Launches)}
        return Launches(**every)

    lines = [line("a", "none", 2), line("a", "fq", 1), line("b", "none", 0.1), line("b", "fq", 0.2)]
    found = launches.summary(OWN, lines).checks
    assert [(check.about, check.met) for check in found] == [("a, None", True), ("b, None", False)]


def test_without_log_or_capture_values_are_null(tmp_path: Path) -> None:
    row = trial(tmp_path, named("bbr", "fq"), (1,))
    for missing in ("sender.jsonl", "sender.pcap"):
        file = tmp_path / named("bbr", "fq").name / "0001-0001" / missing
        kept = file.read_bytes()
        file.unlink()
        with pytest.raises(InputError, match="were not kept"):
            launches.cells(OWN, tmp_path, [row])
        file.write_bytes(kept)
    with pytest.raises(InputError, match="were not kept"):
        launches.cells(OWN, tmp_path, [{**row, "capture_file": None}])


def test_a_server_writes_a_log_if_the_cell_requires_it() -> None:
    cell = named("bbr", "fq")
    assert block.blocks("x", cell, 1)[0].unavailable() is None
    quinn = cell.model_copy(update={"server": "quinn", "qdisc": "none"})
    assert block.blocks("x", quinn, 1)[0].unavailable() == "the server quinn writes no launch times"
    for asked in (True, False):
        logged = cell.model_copy(update={"server_log": asked})
        made = server_config.configuration(
            logged, "a.test", "h3", FILES, launch_times=True, log=Path("/tmp/x.jsonl")
        )
        assert made["transport"].get("log") == ("/tmp/x.jsonl" if asked else None)
