"""Pauses on disk, their rows, and a stage that resumes with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firstflight.settings import Backoff
from scanner.backoff.controller import Controller
from scanner.backoff.detector import SECOND_NS
from scanner.backoff.pauses import REFUSED_DETAIL, Pause, carry_over, paused_at, read_pauses
from scanner.driver.feed import FIRST_SLOT, Feed

RULE = Backoff(baseline_s=10, window_s=10, least_probes=5, resume_after_s=60)
START = 1000 * SECOND_NS


def pause(**changes: Any) -> Pause:
    known: dict[str, Any] = {"asn": 1, "sign": "timeout", "baseline": (0, 9), "window": (5, 9)}
    return Pause(**known | {"suspect_from_ns": 100, "paused_at_ns": 150} | changes)


def test_rows_are_flagged_from_the_window_until_probing_resumes() -> None:
    rows = [
        # (AS, sent at, detail, flag)
        (1, 99, None, None),
        (1, 100, None, 150),
        (1, 199, None, 150),
        (1, 200, None, None),
        (1, 300, None, 350),
        (1, 900, None, 350),
        (1, None, REFUSED_DETAIL, 150),
        (1, None, "address on the block list", None),
        (2, 150, None, None),
        (None, 150, None, None),
    ]
    segments = pa.table(
        {
            "sent_at": pa.array([row[1] for row in rows], pa.int64()),
            "detail": pa.array([row[2] for row in rows], pa.string()),
        }
    )
    asn = pa.array([row[0] for row in rows], pa.uint32())
    pauses = [pause(resumed_at_ns=200), pause(suspect_from_ns=300, paused_at_ns=350)]
    assert paused_at(segments, asn, pauses).to_pylist() == [row[3] for row in rows]
    assert paused_at(segments, asn, []).null_count == len(rows)


class StageFolder:
    """The folder of a stage with segments from a prober."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "segments").mkdir(parents=True)
        self.written = 0

    def rows(self, *rows: tuple[str, int, str]) -> None:
        """Close a segment with rows (ip, seconds after the start, outcome)."""
        table = pa.table(
            {
                "target": pa.array(
                    [FIRST_SLOT + n if ip == "slot" else n for n, (ip, _, _) in enumerate(rows)]
                ),
                "ip": ["192.0.2.1" if ip == "slot" else ip for ip, _, _ in rows],
                "outcome": [outcome for _, _, outcome in rows],
                "retried": [False for _ in rows],
                "sent_at": [START + at * SECOND_NS for _, at, _ in rows],
            }
        )
        self.written += 1
        path = self.folder / "segments" / f"seg-{self.written:06}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    def controller(self, rule: Backoff = RULE) -> tuple[Controller, Feed]:
        """Return a controller of the stage, and the commands that it sends."""
        feed = Feed()
        asn = {"192.0.2.1": 64500, "192.0.2.2": 64501}
        return Controller(rule, self.folder, asn.get, feed, "here, repetition 1"), feed


@pytest.fixture
def stage(tmp_path: Path) -> StageFolder:
    return StageFolder(tmp_path)


def bad_after_good(stage: StageFolder) -> None:
    stage.rows(*((ip, at, "iack") for at in range(10) for ip in ("192.0.2.1", "192.0.2.2")))
    stage.rows(*(("slot", 12 + at, "timeout") for at in range(8)), ("192.0.2.2", 15, "iack"))


def test_a_resumed_stage_keeps_a_pause_and_ends_it(stage: StageFolder) -> None:
    bad_after_good(stage)
    controller, feed = stage.controller()
    controller.update(lambda: START + 20 * SECOND_NS)
    assert (controller.listed_rows, controller.planned_rows, bytes(feed._unsent)) == (21, 8, b"hold 64500\n")
    (found,) = read_pauses(stage.folder)
    assert (found.asn, found.sign, found.baseline, found.window) == (64500, "timeout", (0, 10), (8, 8))
    assert (found.suspect_from_ns, found.resumed_at_ns) == (START + 12 * SECOND_NS, None)
    assert "64500 was paused" in controller.warnings[0]
    controller.update(lambda: START + 21 * SECOND_NS)
    assert len(read_pauses(stage.folder)) == 1, "once is enough"

    resumed, feed = stage.controller()
    assert bytes(feed._unsent) == b"hold 64500\n"
    resumed.update(lambda: START + 80 * SECOND_NS)
    assert bytes(feed._unsent) == b"hold 64500\nfree 64500\n"
    (found,) = read_pauses(stage.folder)
    assert found.resumed_at_ns == START + 80 * SECOND_NS

    # Probes before the pause no longer count, in this process and the next.
    for resumed_controller in (resumed, stage.controller()[0]):
        resumed_controller.update(lambda: START + 81 * SECOND_NS)
    assert len(read_pauses(stage.folder)) == 1
    stage.rows(*(("192.0.2.1", 90 + at, "timeout") for at in range(8)))
    resumed.update(lambda: START + 99 * SECOND_NS)
    assert len(read_pauses(stage.folder)) == 2


@pytest.mark.parametrize(
    ("resumed_at", "now", "resume_after_s", "goes_on"),
    [
        (None, 79, 60.0, True),
        (None, 80, 60.0, False),
        (None, 9999, 0.0, True),
        (60, 70, 60.0, False),
    ],
)
def test_a_pause_continues_in_the_next_period(
    tmp_path: Path, resumed_at: int | None, now: int, resume_after_s: float, goes_on: bool
) -> None:
    before, after = StageFolder(tmp_path / "before"), StageFolder(tmp_path / "after")
    bad_after_good(before)
    before.controller()[0].update(lambda: START + 20 * SECOND_NS)
    if resumed_at is not None:
        before.controller()[0].update(lambda: START + 80 * SECOND_NS)
    carry_over(before.folder, after.folder, now_ns=START + now * SECOND_NS, resume_after_s=resume_after_s)
    assert read_pauses(after.folder) == (read_pauses(before.folder) if goes_on else [])
    if goes_on and resume_after_s:
        controller, feed = after.controller()
        controller.update(lambda: START + 79 * SECOND_NS)
        assert bytes(feed._unsent) == b"hold 64500\n"
        controller.update(lambda: START + 80 * SECOND_NS)
        assert bytes(feed._unsent) == b"hold 64500\nfree 64500\n"
        # The next period has its own pauses now.
        carry_over(before.folder, after.folder, now_ns=START, resume_after_s=resume_after_s)
        assert read_pauses(after.folder)[0].resumed_at_ns is not None


def test_a_pause_without_end_refuses(stage: StageFolder) -> None:
    bad_after_good(stage)
    controller, feed = stage.controller(RULE.model_copy(update={"resume_after_s": 0.0}))
    controller.update(lambda: START + 20 * SECOND_NS)
    controller.update(lambda: START + 9999 * SECOND_NS)
    assert bytes(feed._unsent) == b"refuse 64500\n"


def test_nothing_is_paused_when_that_is_not_wanted(stage: StageFolder) -> None:
    bad_after_good(stage)
    controller, feed = stage.controller(RULE.model_copy(update={"enabled": False}))
    controller.update(lambda: START + 20 * SECOND_NS)
    assert (controller.listed_rows, controller.planned_rows) == (21, 8)
    assert (bytes(feed._unsent), controller.pauses) == (b"", [])
