"""A server's owner opts out during a download: the download is aborted, and no further request is sent."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstflight.egress import current
from tests.download.world import NAME, SERVER_V4, DownloadWorld
from tests.waiting import until

# Without window scaling 10 MiB take at least 160 round trips: 16 s, in which the test must act.
LONG = "bl"
RTT_US = 100_000
SETS = f"{LONG},all14,quiche,libcurl"


@pytest.fixture
def distant(tmp_path: Path) -> Iterator[DownloadWorld]:
    """Return a vantage point and a server that is far away, up."""
    folder = tmp_path / "world"
    folder.mkdir(mode=0o755)
    with DownloadWorld(folder, RTT_US) as raised:
        yield raised


def test_a_download_that_is_under_way_is_broken_off(distant: DownloadWorld, tmp_path: Path) -> None:
    listed, targets, capture_folder = tmp_path / "optout", tmp_path / "files.csv", tmp_path / "kept"
    listed.write_text("# nobody yet\n")
    targets.write_text(f"url,ip\n{distant.url('twenty')},{SERVER_V4}\n")
    process = distant.start(
        *("download", "--targets", targets, "--capture", capture_folder, "--sets", SETS, "--fixed-order"),
        *("--rate", 100, "--roots", distant.roots, "--allow-net", "198.18.0.0/15"),
        env=os.environ | {current.VARIABLE: str(listed)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    answers, capture = capture_folder / "answers.jsonl", capture_folder / f"{LONG}.pcap.part"

    def is_under_way() -> bool:
        assert process.poll() is None, process.communicate()
        has_answer = answers.is_file() and answers.read_bytes().count(b"\n") == 1
        return has_answer and capture.is_file() and capture.stat().st_size > 100_000

    until(is_under_way, "the first packets of the long download")
    with listed.open("a") as file:
        file.write(f"{NAME}  # his mail of today\n")
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    rows = {row["set"]: row for row in map(json.loads, out.decode().splitlines())}
    assert rows["warmup"]["outcome"] == "stopped_limit"
    assert rows[LONG]["outcome"] == "failed" and "broken off: its name is on a list" in rows[LONG]["detail"]
    assert {rows[name]["outcome"] for name in ("all14", "quiche", "libcurl")} <= {"blocked", "skipped"}
    for name in ("all14", "libcurl"):
        assert to_the_server(capture_folder / f"{name}.pcap") == [], name


def to_the_server(capture: Path) -> list[str]:
    """Return the packets in a capture that go to the server."""
    argv = ["tcpdump", "-n", "-r", str(capture), "dst", "host", SERVER_V4]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
