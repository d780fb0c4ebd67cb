"""The connections in a capture that belong to the requested trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from testbed.trials.captures import captured_packets


def test_connections_outside_of_the_trials_do_not_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Repetition 0 is not counted, and a repetition without a row is ignored."""
    block = tmp_path / "cell" / "0001-0003"
    block.mkdir(parents=True)
    windows = [
        {"repetition": number, "begun_ns": 100 * number, "ended_ns": 100 * number + 50} for number in range(4)
    ]
    (block / "trials.jsonl").write_text("".join(json.dumps(window) + "\n" for window in windows))
    asked: list[str] = []

    def dissected(_: Path, row: dict[str, Any], kind: str) -> list[dict[str, Any]]:
        asked.append(row["capture_file"])
        assert kind == "quic_connection"
        return [{"start_time_ns": 100 * number + 1} for number in range(4)]

    monkeypatch.setattr(captured_packets, "_dissected", dissected)
    rows = [
        {"cell": "cell", "capture_file": "cell/0001-0003/path.pcap", "repetition": number}
        for number in (1, 3)
    ]
    found = captured_packets.summaries_of(tmp_path, rows)
    assert [connection["start_time_ns"] for connection in found] == [101, 301]
    # Each capture is read once.
    assert asked == ["cell/0001-0003/path.pcap"]
