"""deploy/progress.py: the progress display of long commands. The tests run the real Cargo."""

from __future__ import annotations

import fcntl
import os
import re
import threading
import time
from pathlib import Path
from typing import TextIO

import pytest

from deploy import install, progress
from deploy.progress import Job
from tests.waiting import until

SLOW_BUILD = "fn main() { std::thread::sleep(std::time::Duration::from_millis(400)); }"


@pytest.fixture
def cargo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """The build of a program without dependencies and with a build script that takes 0.4 s."""
    monkeypatch.setenv("PATH", f"{Path.home()}/.cargo/bin:{os.environ['PATH']}")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.rs").write_text("fn main() {}")
    (tmp_path / "build.rs").write_text(SLOW_BUILD)
    manifest = tmp_path / "Cargo.toml"
    manifest.write_text('[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2024"\n')
    target = str(tmp_path / "target")
    command = ("cargo", "build", "--offline", "--manifest-path", str(manifest), "--target-dir", target)
    return Job("programs", [command], progress.read_cargo, own_bar=True, bar=progress.CARGO_BAR)


def test_a_pipe_gets_lines_of_a_build(cargo: Job, capfd: pytest.CaptureFixture[str]) -> None:
    progress.run([cargo], interval_s=0.1)
    shown = capfd.readouterr().err
    assert re.search(
        r"^setup: \d:\d\d, programs: \d of 3 \(tiny\S*\)(, less than 1 min left)?$", shown, re.MULTILINE
    )
    assert re.search(r"^setup: programs: ready after \d:\d\d$", shown, re.MULTILINE)


def test_a_build_reports_that_it_waits_for_another_cargo(
    cargo: Job, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lock = tmp_path / "target" / "debug" / ".cargo-lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        waiting = threading.Thread(target=_unlock, args=(lock_file, cargo))
        waiting.start()
        progress.run([cargo], interval_s=0.1)
        waiting.join()
    assert "setup: programs: waiting for another cargo" in capfd.readouterr().err


def _unlock(lock_file: TextIO, cargo: Job) -> None:
    until(lambda: cargo.now.startswith("waiting"), lambda: f"cargo does not wait: {cargo.output}")
    fcntl.flock(lock_file, fcntl.LOCK_UN)


def test_one_that_fails_ends_the_others_and_shows_its_output(capfd: pytest.CaptureFixture[str]) -> None:
    read = progress.counting("()")
    jobs = [
        Job("naps", [("sleep", "60")], read),
        Job("faults", [("sh", "-c", "echo it is broken >&2; exit 3")], read),
    ]
    started = time.monotonic()
    assert install.run(jobs) == 2
    assert time.monotonic() - started < 30
    shown = capfd.readouterr().err
    assert shown.startswith("it is broken\nsetup: faults: `sh -c") and "failed with status 3" in shown


@pytest.mark.parametrize(
    ("job", "lines", "state"),
    [
        (
            install.python_job("packages", Path("/none"), ("requirements-demo.txt",)),
            ["Collecting click==8.5.1", "  Downloading click", "Collecting idna (from anyio)"],
            r"packages: 2 of \d\d \(idna\), about \d+ min left",
        ),
        (
            install.python_job("packages", Path("/none"), ("requirements-demo.txt",)),
            ["Collecting click", "Installing collected packages: click"],
            r"packages: 1 of \d\d \(Installing\), about \d+ min left",
        ),
        (
            install.python_job("packages", Path("/none"), ("requirements-demo.txt",)),
            ["Resolved 80 packages in 1.2s", "   Building pyasn==1.6.2", "Downloading pyarrow (45.1MiB)"],
            "packages: 0 of \\d\\d \\(Downloading pyarrow\\)",
        ),
        (
            install.python_job("packages", Path("/none"), ("requirements-demo.txt",)),
            ["Installed 80 packages in 90ms", " + click==8.5.1", " + idna==3.1"],
            r"packages: 2 of \d\d \(idna\), about \d+ min left",
        ),
        (
            install.go_job("Go packages", Path("/none"), {}),
            ["go: downloading golang.org/x/net v0.1", "stale a/b", "stale c", "# note: x", "a/b"],
            r"Go packages: 1 of 2 \(a/b\), about 2 min left",
        ),
        (
            install.debian_job(3, ["apt-get"]),
            ["Get:1 http bookworm/main", "Unpacking zstd (1.5) ...", "Setting up zstd (1.5) ..."],
            r"Debian packages: 1 of 3 \(zstd\), about 4 min left",
        ),
        (
            install.debian_job(0, ["apt-get"]),
            ["Hit:1 bookworm InRelease"],
            r"Debian packages: bookworm InRelease",
        ),
        (install.cargo_job(install.PROFILES["demo"]), ["   Compiling x v1"], "Rust programs: starting"),
        (
            install.cargo_job(install.PROFILES["demo"]),
            ["    Building [====>    ] 50/100: syn, ring(build)"],
            r"Rust programs: 50 of 100 \(syn\), about 5 min left",
        ),
        (
            install.cargo_job(install.PROFILES["demo"]),
            ["    Building [====>    ] 95/100: boring-sys(build)"],
            r"Rust programs: 95 of 100 \(boring-sys\(build\)\), less than 1 min left",
        ),
    ],
)
def test_how_far_a_command_is(job: Job, lines: list[str], state: str) -> None:
    for line in lines:
        job.read(line, job)
    assert re.fullmatch(state, job.state(120))
