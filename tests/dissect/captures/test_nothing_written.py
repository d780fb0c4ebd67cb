"""If the dissector cannot write, its callers report the reason instead of missing files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dissector.qlog import write
from dissector.stage import stage
from downloader.results import acks
from downloader.results.flows import Flows
from firstflight import settings
from firstflight.errors import FirstflightError
from firstflight.run.run import Run
from firstflight.system import binaries, files
from tests import minimal
from tests.dissect import build as b
from tests.dissect.build import CaptureBuilder

REASON = "x/rows.parquet cannot be written: No space left on device (os error 28)"


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dissector that fails because the disk is full."""
    program = tmp_path / "bin" / "firstflight-dissect"
    program.parent.mkdir()
    lines = ("p.pcap: at byte 24: expected a whole frame", REASON)
    echoes = "".join(f"echo 'firstflight-dissect: {line}' >&2\n" for line in lines)
    program.write_text(f"#!/bin/sh\n{echoes}exit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("FIRSTFLIGHT_BIN", str(program.parent))


def dissect(folder: Path) -> None:
    run = Run.create(*settings.load(minimal.write(folder)))
    key = run.key("here", 1)
    capture = run.layout.stage("capture", key)
    capture.mkdir(parents=True)
    entry = {"interface": "lo", "filter": "udp", "snaplen": 262144, "started_ns": 1, "file": "probe.pcap"}
    files.write_json(capture / "capture.json", {"captures": [entry]})
    CaptureBuilder().sent(0, b.hello_datagram()).write(capture / "probe.pcap")
    stage(run, key)


def captured(folder: Path) -> list[Path]:
    return [CaptureBuilder().sent(0, b.hello_datagram()).write(folder / "quiche.pcap")]


@pytest.mark.parametrize(
    "caller",
    [
        dissect,
        lambda folder: write.write(captured(folder), [], folder / "out"),
        lambda folder: acks.write(
            captured(folder), [], folder / "quic_ack.parquet", lambda path: path.name, {}
        ),
        lambda folder: Flows(captured(folder), []),
    ],
    ids=["stage", "qlog", "acks", "flows"],
)
@pytest.mark.usefixtures("full")
def test_a_full_disk_is_named(
    caller: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    with pytest.raises(FirstflightError) as raised:
        caller(tmp_path)
    assert (str(raised.value), raised.value.exit_status) == (f"the dissector wrote no records: {REASON}", 3)


def test_a_key_log_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "typo.log"
    with pytest.raises(
        FirstflightError, match=f"wrote no records: the key log {missing} cannot be read: No such"
    ):
        write.write(captured(tmp_path), [missing], tmp_path / "out")


KEYLESS = "p.pcap: the key log beside it cannot be read: Is a directory"
BROKEN = "q.pcap: at byte 24: expected a whole frame"
COUNTED = "p.pcap: of 9 frames, 2 are no IP packets"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([KEYLESS, COUNTED], [KEYLESS]),
        ([BROKEN, KEYLESS, COUNTED], [KEYLESS, BROKEN]),
        ([COUNTED, BROKEN, COUNTED], [BROKEN]),
        ([COUNTED], [COUNTED]),
    ],
)
def test_messages_about_unread_input_are_reasons(lines: list[str], expected: list[str]) -> None:
    shown = "".join(f"firstflight-dissect: {line}\n" for line in lines).encode()
    assert binaries.unreadable(3, shown) == expected
