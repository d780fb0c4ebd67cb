"""Real failures: SIGKILL at random times, and a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from store import open_store
from tests import drawn
from tests.store.rows import many, write
from tests.waiting import PATIENCE_S

FIRSTFLIGHT = [str(Path(sys.executable).parent / "firstflight")]
ROWS = 3_000
TURNS = 12 if drawn.are_all() else 4


def state() -> dict[str, int]:
    """Return the numbers of rows, distinct probes and instant ACKs, and a digest of the content."""
    with open_store() as store:
        (row,) = store.rows(
            "SELECT count() AS rows, uniqExact(vantage, repetition, domain) AS different, "
            "countIf(outcome = 'iack') AS iack, groupBitXor(cityHash64(tuple(*))) AS content FROM quic_probe"
        )
    return {name: int(value) for name, value in row.items()}


def load(*paths: Path) -> subprocess.CompletedProcess[str]:
    command = [*FIRSTFLIGHT, "load", *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def seconds_of_a_file(paths: Sequence[Path], store: Path) -> float:
    """Return the load time per file, measured now with a separate store."""
    with subprocess.Popen(
        [*FIRSTFLIGHT, "load", *map(str, paths)],
        env={**os.environ, "FIRSTFLIGHT_STORE": f"chdb:{store}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        times = [time.monotonic() for _ in process.stderr]
    assert process.returncode == 0 and len(times) >= len(paths), "one line for each file"
    return median(after - before for before, after in pairwise(times))


@pytest.mark.drawn
@pytest.mark.usefixtures("tables")
def test_killed_at_random_moments_nothing_is_doubled_or_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = [(vantage, repetition) for vantage in ("hamburg", "hong_kong") for repetition in (1, 2, 3)]
    paths = [tmp_path / f"{vantage}-{repetition}" / "quic_probe.parquet" for vantage, repetition in units]

    def make(outcome: str) -> None:
        for path, (vantage, repetition) in zip(paths, units, strict=True):
            write(path, many(ROWS, outcome=outcome, vantage=vantage, repetition=repetition))

    make("iack")
    file_s = seconds_of_a_file(paths, tmp_path / "timed")
    moments = drawn.generator("loads killed")
    killed, states = 0, set()
    for turn in range(TURNS):
        if turn % 3 == 0:  # repeated stages: rows are replaced, not only added
            make("coalesced" if turn % 2 else "iack")
        with subprocess.Popen(
            [*FIRSTFLIGHT, "load", *map(str, paths)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            assert process.stderr is not None
            # Kill after a random number of files and a random time.
            for _ in range(moments.randrange(len(paths) - 1)):
                process.stderr.readline()
            time.sleep(moments.uniform(0, 2 * file_s))
            process.kill()
            killed += process.wait() == -9
        now = state()
        # In any state, no probe is in the store twice.
        assert now["rows"] == now["different"] <= ROWS * len(units)
        states.add((now["rows"], now["iack"]))
    assert killed >= TURNS / 3, f"only {killed} of {TURNS} loads were killed before their end"
    # Few kills may all leave the same state by chance, but not twelve.
    assert len(states) > 3 or not drawn.are_all(), f"no kill interrupted a load: {states}"

    assert load(*paths).returncode == 0
    repaired = state()
    assert repaired["rows"] == repaired["different"] == ROWS * len(units)
    assert "6 unchanged" in load(*paths).stdout
    assert state() == repaired
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'undisturbed'}")
    assert load(*paths).returncode == 0
    assert state() == repaired


# $1 folder, $2 firstflight, $3 a file of repetition 1, $4 of repetition 2, $5 repetition 1 done again
FULL_DISK = """
set -eu
mount -t tmpfs -o size=32m tmpfs "$1"
export FIRSTFLIGHT_STORE="chdb:$1/store"
fill() { dd if=/dev/zero of="$1/fill" bs=16k oflag=append conv=notrunc 2>/dev/null || true; }
"$2" load "$3"
for left in 0 200k 700k 1m; do
    fill "$1"
    [ $left = 0 ] || truncate -s -$left "$1/fill"
    set +e; "$2" load --replace "$4" "$5"; echo "with $left left: exit $?"; set -e
done
rm "$1/fill"
"$2" sql "SELECT count() = uniqExact(vantage, repetition, domain) FROM quic_probe" --format TSV
"$2" load --replace "$3" "$4" "$5"
"$2" sql "SELECT repetition, countIf(outcome = 'iack'), countIf(outcome = 'coalesced') FROM quic_probe \\
    GROUP BY repetition ORDER BY repetition" --format TSV
"""


def test_full_disk_is_one_sentence_and_the_next_load_finishes(tmp_path: Path) -> None:
    """Load on a tmpfs in a mount namespace, then with no space, with little space, and with enough space."""
    small = tmp_path / "small"
    small.mkdir()
    first = write(tmp_path / "1" / "quic_probe.parquet", many(20_000))
    second = write(tmp_path / "2" / "quic_probe.parquet", many(60_000, repetition=2))
    third = write(tmp_path / "3" / "quic_probe.parquet", many(20_000, outcome="coalesced"))
    script = ["bash", "-c", FULL_DISK, "bash", str(small), *FIRSTFLIGHT, str(first), str(second), str(third)]
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", *script],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    print(done.stdout, done.stderr, sep="\n")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    exits = [line for line in lines if line.startswith("with ")]
    assert exits[0] == "with 0 left: exit 3"
    messages = [line for line in done.stderr.splitlines() if line.startswith("firstflight:")]
    assert messages
    assert all("no space left on the disk of the store" in line for line in messages)
    assert "Traceback" not in done.stderr
    assert "1" in lines, "a probe is in the store twice"
    assert lines[-2:] == ["1\t0\t20000", "2\t60000\t0"]
