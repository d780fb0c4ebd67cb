"""Machines on which a guest cannot start: the error is one sentence, and no process is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli.lab.testbed import command
from firstflight.errors import FirstflightError, InputError, UsageError
from testbed.guest import guest, kernel
from testbed.guest.c_programs import parts
from testbed.guest.cache_folder import cache


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of the kernel, in a new cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = cache() / kernel.key("6.12.1-1", kernel.recipe())
    folder.mkdir(parents=True)
    path = folder / "linux"
    path.write_text("#!/bin/sh\necho it is broken\nexit 1\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """An empty folder for a command."""
    (tmp_path / "job").mkdir()
    return tmp_path / "job"


def test_without_a_kernel(job: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    with pytest.raises(UsageError, match=r"^there is no kernel .*: run `make testbed-setup`$"):
        guest.run(["true"], job)


@pytest.mark.usefixtures("program")
def test_wrong_use(job: Path, tmp_path: Path) -> None:
    for seed in (-1, 2**64):
        with pytest.raises(UsageError, match=f"^the seed {seed} is not between 0 and "):
            guest.run(["true"], job, seed=seed)
    with pytest.raises(InputError, match=r"^cannot read the job's folder .*/missing: No such file"):
        guest.run(["true"], tmp_path / "missing")
    with pytest.raises(UsageError, match=r"^a command line cannot contain zero bytes, but 'a\\x00b' does"):
        guest.run(["a\0b"], job)
    with pytest.raises(
        UsageError, match=r"^a guest of 1000000000 MB does not fit into /dev/shm \(\d+ MB free\)"
    ):
        guest.run(["true"], job, memory_mb=1_000_000_000)
    assert list(job.iterdir()) == []


@pytest.mark.usefixtures("program")
def test_a_kernel_that_does_not_start(job: Path) -> None:
    with pytest.raises(FirstflightError, match=r"^the guest broke down: it is broken$"):
        guest.run(["true"], job)
    assert list(job.iterdir()) == []


def test_a_guest_stays_on_one_processor(job: Path, program: Path) -> None:
    program.write_text("#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status\nexit 1\n")
    with pytest.raises(FirstflightError, match=r"^the guest broke down: Cpus_allowed_list:\t\d+$"):
        guest.run(["true"], job)


@pytest.mark.usefixtures("program")
def test_verify_of_a_guest_that_fails_is_one_sentence() -> None:
    done = CliRunner().invoke(command, ["verify", "iack-ttfb", "--cells", "quiche-quiche-iack"])
    assert isinstance(done.exception, FirstflightError)
    assert str(done.exception) == (
        "the guests of 1 cells failed: the rows of `firstflight testbed run` give the reasons"
    )
    assert done.stdout == "iack-ttfb/quiche-quiche-iack-9ms/0001-0002  FAILED\n"


@pytest.mark.parametrize("name", ["...toml", ".own.toml", "-x.toml", "a b.toml", f"{'a' * 101}.toml"])
def test_results_are_never_written_outside_of_their_folder(tmp_path: Path, name: str) -> None:
    """They are in a folder that is called as the scenario file is."""
    file = tmp_path / name
    file.write_text('title = "x"\n[[cell]]\nclient = "quiche"\nserver = "quiche"\nanswering = "iack"\n')
    arguments = ["run", "--scenario", str(file), "--dry-run", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(command, arguments)
    assert isinstance(done.exception, UsageError)
    assert "letters, digits, '-', '_' and dots" in str(done.exception)


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        ("mount -t tmpfs -o noexec none /dev/shm", "it is mounted noexec: mount it with exec"),
        ("mount -t tmpfs -o size=64m none /dev/shm", "does not fit into /dev/shm (64 MB free)"),
    ],
)
@pytest.mark.usefixtures("program")
def test_shared_memory_that_cannot_have_a_guest(job: Path, mount: str, message: str) -> None:
    """The command runs in a new mount namespace."""
    code = "import sys; from pathlib import Path; from testbed.guest import guest; "
    code += "guest.run(['true'], Path(sys.argv[1]))"
    script = f'{mount} && exec "$0" -c "$1" "$2"'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, sys.executable, code, str(job)],
        capture_output=True,
        text=True,
    )
    assert message in done.stderr.splitlines()[-1]


@pytest.mark.usefixtures("program")
def test_the_programs_are_built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    left = cache() / "compile-killed"
    left.mkdir()
    built = parts()
    assert not left.exists()
    assert all(path.parent.parent == cache() for path in (built.init, built.seeded, built.random_device))
    # Everything is built, so no compiler is needed.
    monkeypatch.setenv("PATH", "/nowhere")
    assert parts() == built
    built.init.parent.rename(left)
    with pytest.raises(UsageError, match=r"^gcc is not installed, .*: run `make testbed-setup`$"):
        parts()
    assert [path.name for path in cache().glob("compile-*")] == []


@pytest.mark.usefixtures("program")
def test_random_numbers_follow_from_the_seed() -> None:
    """SplitMix64's published first output for seed 0, and another one for another seed."""
    code = "import ctypes; b = ctypes.create_string_buffer(8); f = ctypes.CDLL(None).getrandom; f(b, 8, 0); "
    code += "print(b.raw[::-1].hex())"

    def first(seed: str | None) -> subprocess.CompletedProcess[str]:
        host = {**os.environ, "LD_PRELOAD": str(parts().seeded)}
        if seed is not None:
            host["FIRSTFLIGHT_SEED"] = seed
        # Hash seeds would take numbers before.
        return subprocess.run(
            [sys.executable, "-c", code], env={**host, "PYTHONHASHSEED": "0"}, capture_output=True, text=True
        )

    assert first("0").stdout == "e220a8397b1dcdaf\n"
    assert first("0").stdout == first("0").stdout != first("1").stdout
    assert first(None).returncode < 0
