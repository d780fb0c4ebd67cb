"""Real guests: simulated time, the same bytes from the same seed, and complete cleanup."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.errors import FirstflightError, UsageError
from testbed.guest import guest
from tests.waiting import until

# The interpreter itself, outside of any virtual environment: a guest has no files of the host's /tmp.
PYTHON = str(Path(sys.executable).resolve())
DATAGRAMS = Path(__file__).with_name("datagrams.py")


def sent(folder: Path, seed: int, *arguments: str) -> bytes:
    """Return the output of datagrams.py."""
    folder.mkdir(exist_ok=True)
    (folder / DATAGRAMS.name).write_bytes(DATAGRAMS.read_bytes())
    done = guest.run([PYTHON, "-I", DATAGRAMS.name, *arguments], folder, seed=seed)
    assert (done.status, done.stderr) == (0, b"")
    return done.stdout


def echoed(folder: Path, seed: int) -> bytes:
    """Return the output of datagrams.py for 20 echoed datagrams."""
    return sent(folder, seed, "echo", "20")


def launched(folder: Path, *qdisc: str, how: str = "launch") -> list[float]:
    """Return how many us after their launch times five datagrams arrive."""
    late_us = [int(line) / 1000 for line in sent(folder, 1, how, *qdisc).split()]
    assert len(late_us) == 5
    return late_us


def test_time_is_simulated_and_exact(tmp_path: Path) -> None:
    """The delay is the declared 100 ms within 20 us, even on a busy machine. Two runs give the same bytes."""
    first = echoed(tmp_path / "first", 1)
    for line in first.splitlines():
        sent, received, _ = line.split()
        assert 100_000_000 <= int(received) - int(sent) <= 100_020_000
    assert len(first.splitlines()) == 20
    assert echoed(tmp_path / "second", 1) == first
    payloads = {line.split()[2] for line in first.splitlines()}
    assert len(payloads) == 20
    assert payloads.isdisjoint(line.split()[2] for line in echoed(tmp_path / "third", 2).splitlines())


@pytest.mark.parametrize("how", ["launch", "buffer"])
@pytest.mark.parametrize(
    ("qdisc", "low_us", "high_us"),
    # fq's timers have a slack of 10 us; etf hands a datagram over by `delta` early.
    [(["fq"], 0, 15), (["etf", "clockid", "CLOCK_TAI", "delta", "200000"], -200, -185)],
)
def test_datagrams_leave_at_their_launch_times(
    tmp_path: Path, qdisc: list[str], low_us: int, high_us: int, how: str
) -> None:
    late_us = launched(tmp_path, *qdisc, how=how)
    assert all(low_us <= late <= high_us for late in late_us), late_us


@pytest.mark.parametrize("how", ["launch", "buffer"])
def test_without_such_a_discipline_they_leave_at_once(tmp_path: Path, how: str) -> None:
    late_us = launched(tmp_path, "pfifo", how=how)
    assert [round(-late / 7_000) for late in late_us] == [1, 2, 3, 4, 5], late_us


DRAWS = """
#include <cstdio>
#include <random>
int main() { std::random_device device; std::printf("%u %u\\n", device(), device()); }
"""


def test_other_random_numbers_follow_from_the_seed(tmp_path: Path) -> None:
    """Random numbers of OpenSSL and of libstdc++, which would otherwise use the processor's generator."""
    (tmp_path / "draws.cc").write_text(DRAWS)
    subprocess.run(["g++", "-o", "draws", "draws.cc"], cwd=tmp_path, check=True)
    argv = ["sh", "-c", f"./draws && {PYTHON} -I -c 'import ssl; print(ssl.RAND_bytes(16).hex())'"]
    first, again, other = (guest.run(argv, tmp_path, seed=seed) for seed in (1, 1, 2))
    assert (first.status, first.stderr) == (0, b"")
    assert first == again
    assert all(a != b for a, b in zip(first.stdout.split(), other.stdout.split(), strict=True))


def test_waiting_takes_no_time_of_the_host(tmp_path: Path) -> None:
    """A day in a guest that may take two minutes."""
    done = guest.run(["sh", "-c", "date -Is; sleep 86400; date -Is"], tmp_path, limit_s=120)
    assert done.stdout.decode().split() == ["2023-11-14T22:13:20+00:00", "2023-11-15T22:13:20+00:00"]
    assert 86_400_000_000_000 <= done.took_ns < 86_401_000_000_000


def test_the_jobs_folder_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`testbed run` has results in var/testbed by default."""
    monkeypatch.chdir(tmp_path)
    Path("var/job").mkdir(parents=True)
    assert guest.run(["sh", "-c", "pwd >where"], Path("var/job")).status == 0
    assert Path("var/job/where").read_text() == "/run/job\n"


def test_a_guest_reads_files_and_returns_results(tmp_path: Path) -> None:
    (tmp_path / "question").write_bytes(bytes(range(256)) * 100)
    lines = [
        "tr '[:lower:]' '[:upper:]' <question >answer",
        "echo error >&2",
        'echo "$1|$SET|$HOME|$PWD"',
        "exit 3",
    ]
    done = guest.run(
        ["sh", "-c", "; ".join(lines), "sh", "an argument"], tmp_path, environment={"SET": "here"}
    )
    assert (done.status, done.stdout, done.stderr) == (3, b"an argument|here|/tmp|/run/job\n", b"error\n")
    assert len((tmp_path / "answer").read_bytes()) == 25_600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answer", "question"]


@pytest.mark.parametrize(
    ("argv", "status", "message"),
    [
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM, b""),
        (["no-such-program"], 127, b"no-such-program: No such file or directory\n"),
        # Its background processes are stopped with it.
        (["sh", "-c", "sleep 1000000000 & exit 4"], 4, b""),
    ],
)
def test_how_a_command_ends(tmp_path: Path, argv: list[str], status: int, message: bytes) -> None:
    done = guest.run(argv, tmp_path)
    assert (done.status, done.stderr) == (status, message)
    assert done.took_ns < 10_000_000_000


def test_the_hosts_files_are_read_only_and_its_networks_absent(tmp_path: Path) -> None:
    outside = Path(__file__).with_name("written-by-a-guest")
    command = f"touch {outside}; touch /etc/x; touch /tmp/x /run/x /var/tmp/x /dev/shm/x /srv/x || exit 1"
    argv = ["sh", "-c", f"{command}; ip -br link | cut -d' ' -f1"]
    # The repository may be below /tmp, which is empty in a guest.
    done = guest.run(argv, tmp_path, writable=["/srv"], visible=[outside.parent])
    assert done.status == 0, done.stderr
    assert done.stderr.count(b"Read-only file system") == 2
    assert not outside.exists()
    # The loopback and the interfaces that the kernel creates by itself; they do not lead outside.
    assert set(done.stdout.decode().split()) <= {"lo", "dummy0", "ifb0", "ifb1"}


def test_a_folder_below_an_empty_one_is_shown_read_only(tmp_path: Path) -> None:
    """As a repository below /tmp needs it."""
    shown, job = tmp_path / "a" / "shown", tmp_path / "job"
    for folder in (shown, job):
        folder.mkdir(parents=True)
    (shown / "file").write_text("from the host\n")
    argv = ["sh", "-c", f"cat {shown}/file; touch {shown}/file; ls {tmp_path} {tmp_path}/a"]
    done = guest.run(argv, job, visible=[shown])
    assert done.stdout.decode() == f"from the host\n{tmp_path}:\na\n\n{tmp_path}/a:\nshown\n"
    assert b"Read-only file system" in done.stderr
    with pytest.raises(
        FirstflightError, match=rf"^the guest broke down: guest: {tmp_path}/none: No such file"
    ):
        guest.run(["true"], job, visible=[tmp_path / "none"])


def of_guest(folder: Path) -> list[int]:
    """Return the processes on the host that have the job's folder as working directory."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_guest_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    """The command computes forever, so the guest's clock stops."""
    with pytest.raises(FirstflightError, match=r"^the guest did not end within 3 s: "):
        guest.run(["sh", "-c", "while :; do :; done"], tmp_path, limit_s=3)
    until(lambda: not of_guest(tmp_path), "the end of the guest's processes")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_run_leaves_no_process(tmp_path: Path) -> None:
    """The files that it left do not disturb the next run in its folder."""
    code = "import sys; from pathlib import Path; from testbed.guest import guest; "
    code += "guest.run(['sh', '-c', 'touch begun; while :; do :; done'], Path(sys.argv[1]))"
    killed = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    try:
        until(lambda: (tmp_path / "begun").exists(), "the command's start")
        assert of_guest(tmp_path)
        with pytest.raises(UsageError, match=r"^another guest uses .*: give each its own folder$"):
            guest.run(["true"], tmp_path)
    finally:
        killed.kill()
        killed.wait()
    until(lambda: not of_guest(tmp_path), "the end of the guest's processes")
    assert guest.run(["true"], tmp_path).status == 0
    assert [path.name for path in tmp_path.iterdir()] == ["begun"]


def test_a_guest_without_memory_breaks_down_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FirstflightError, match=r"^the guest broke down: .+"):
        guest.run(["true"], tmp_path, memory_mb=4, limit_s=60)
