"""`scan --engine qscanner` from the target list to the imported run.

QScanner is not available in any registry. A shell script replaces it: it accepts the same arguments and
writes recorded output of QScanner (tests/fixtures/qscanner). No test covers QScanner's traffic.
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.errors import FirstflightError
from scanner.external import qscanner
from store import open_store
from tests.store.conftest import place, tables, template

__all__ = ["place", "tables", "template"]
TREE = Path(__file__).resolve().parents[2]
FIXTURE = TREE / "tests" / "fixtures" / "qscanner"
STAND_IN = f"""#!/bin/sh
printf '%s\\n' "$@" > "$0.arguments"
while [ $# -gt 1 ]; do
    case $1 in
        -input) [ -s "$2" ] || exit 4 ;;
        -output) mkdir "$2" && cp {FIXTURE}/*.csv "$2" ;;
    esac
    shift
done
"""


def scan(folder: Path, program: Path, *options: str) -> subprocess.CompletedProcess[str]:
    targets = folder / "targets.csv"
    targets.write_text(
        "ip,domain,port\n127.0.0.1,a.example,443\n127.0.0.9,b.example,\n127.0.0.2,c.owner.test,443\n"
    )
    blocked, optout = folder / "blocked", folder / "optout"
    blocked.write_text("127.0.0.9\n")
    optout.write_text("owner.test\n")
    lists = ("--blocklist", str(blocked), "--optout", str(optout), "--allow-net", "127.0.0.0/8")
    command = [sys.executable, "-P", "-m", "cli", "scan", "--engine", "qscanner", "--targets", str(targets)]
    command += ["--out", str(folder / "out"), "--program", str(program), *lists, *options]
    return subprocess.run(
        command, env={**os.environ, "FIRSTFLIGHT_RUNS": str(folder / "runs")}, capture_output=True, text=True
    )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "qscanner"
    path.write_text(STAND_IN)
    path.chmod(0o755)
    return path


@pytest.mark.usefixtures("tables")
def test_its_results_are_a_run_of_ours(tmp_path: Path, program: Path) -> None:
    done = scan(tmp_path, program, "--vantage", "hamburg", "--rate", "20")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == "1 targets, 2 blocked"
    with (tmp_path / "out.input.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["saddr", "hostname", "port"], ["127.0.0.1", "a.example", "443"]]
    given = Path(f"{program}.arguments").read_text().splitlines()
    assert given[:4] == ["-input", str(tmp_path / "out.input.csv"), "-output", str(tmp_path / "out")]
    assert given[-4:] == ["-bucket-size", "2", "-bucket-refill-duration", "100"]
    run = done.stdout.splitlines()[-1]
    with open_store() as store:
        (row,) = store.rows(
            "SELECT count() AS rows, groupUniqArray(toString(vantage)) AS vantages FROM quic_handshake "
            "WHERE run = {run:String}",
            {"run": run},
        )
    assert row == {"rows": 12, "vantages": ["hamburg"]}


def test_a_dry_run_starts_nothing(tmp_path: Path, program: Path) -> None:
    done = scan(tmp_path, program, "--dry-run")
    assert (done.returncode, done.stderr) == (0, "1 targets, 2 blocked\n")
    assert done.stdout.split()[:2] == [str(program), "-input"]
    assert not (tmp_path / "out").exists() and not Path(f"{program}.arguments").exists()


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [(None, 2, "was not found"), ("#!/bin/sh\nexit 3\n", 1, "ended with status 3; its log is in ")],
)
def test_a_program_that_is_missing_or_fails(
    tmp_path: Path, program: Path, text: str | None, status: int, says: str
) -> None:
    if text is None:
        program.unlink()
    else:
        program.write_text(text)
    done = scan(tmp_path, program)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    first, second = done.stderr.splitlines()
    assert first == "1 targets, 2 blocked" and says in second


def test_a_server_that_keeps_a_connection_open_does_not_hold_the_scan(tmp_path: Path, program: Path) -> None:
    program.write_text("#!/bin/sh\nexec sleep 100\n")
    with pytest.raises(FirstflightError, match=r"did not end 0.1 s after the last connection"):
        qscanner.run(qscanner.ScanOptions(tmp_path, program=str(program)), tmp_path / "input.csv", 1, 0.1)
