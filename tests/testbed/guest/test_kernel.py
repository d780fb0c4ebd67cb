"""The kernel's folder depends on version and configuration; a missing part is reported in one sentence."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.errors import FirstflightError, UsageError
from testbed.guest import kernel
from testbed.guest.cache_folder import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The testbed's folder in a new cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "firstflight" / "testbed"


def put(folder: Path, version: str, configuration: str | None = None) -> Path:
    """Write a program where the kernel of this version belongs."""
    name = kernel.key(version, configuration or kernel.recipe())
    (folder / name).mkdir(parents=True)
    program = folder / name / "linux"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_the_cache_is_the_users(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache() == folder
    home = Path.home() / ".cache" / "firstflight" / "testbed"
    for wrong in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", wrong)
        assert cache() == home
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache() == home


def test_the_key_changes_with_version_and_configuration() -> None:
    keys = {
        kernel.key(*version_and_configuration)
        for version_and_configuration in (("6.12.1-1", "a"), ("6.12.1-2", "a"), ("6.12.1-1", "b"))
    }
    assert len(keys) == 3
    assert kernel.key("6.12.1-1", "a") in keys
    assert all(key.startswith("linux-6.12.1-") and len(key.rpartition("-")[2]) == 16 for key in keys)


def test_the_newest_kernel_of_this_configuration_is_found(folder: Path) -> None:
    with pytest.raises(
        UsageError, match=rf"no kernel of this configuration in {folder}: run `make testbed-setup`"
    ):
        kernel.find()
    put(folder, "6.12.200-1", "CONFIG_OTHER=y")
    assert kernel.built() is None
    older, newer = put(folder, "6.12.95-1~bpo12+1"), put(folder, "6.12.117-1~deb12u1")
    assert kernel.find() == newer
    newer.chmod(0o644)
    assert kernel.find() == older


def test_an_existing_kernel_is_not_built_again(folder: Path) -> None:
    """The remains of a killed build are removed."""
    program = put(folder, "6.12.117-1")
    left = folder / "build-killed" / "linux-source-6.12"
    left.mkdir(parents=True)
    steps: list[str] = []
    assert kernel.build(steps.append, 1) == program
    assert steps == []
    assert not left.parent.exists()


def test_a_second_build_is_refused(folder: Path) -> None:
    folder.mkdir(parents=True)
    with (folder / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="the testbed's cache folder"):
            kernel.build(print, 1)


def test_missing_programs_are_named_by_their_packages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name in kernel.NEEDED:
        if name not in ("flex", "xz"):
            (programs / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(programs))
    assert kernel.missing_packages() == ["flex", "xz-utils"]
    with pytest.raises(UsageError, match=r"run `apt-get install flex xz-utils`$"):
        kernel.build(print, 1)


def test_options_that_the_kernel_dropped_are_found() -> None:
    wanted = "# words\nCONFIG_A=y\nCONFIG_B=y\n# CONFIG_C is not set\n"
    assert kernel.refused(wanted, "CONFIG_A=y\nCONFIG_B=y\n") == []
    assert kernel.refused(wanted, "CONFIG_A=y\n# CONFIG_B is not set\n# CONFIG_C is not set\n") == [
        "CONFIG_B=y"
    ]
    # CONFIG_C should be off, but is on because another option needs it.
    assert kernel.refused(wanted, "CONFIG_A=y\nCONFIG_B=y\nCONFIG_C=y\n") == ["# CONFIG_C is not set"]


def test_a_failed_step_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text("linux:\n\t@echo 'a.c:1:2: error: no type' >&2; exit 1\n")
    with pytest.raises(
        FirstflightError, match=r"^the kernel was not built, make failed: a\.c:1:2: error: no type$"
    ):
        kernel._step(["nice", "-n", "5", "make", "-s", "linux"], tmp_path)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--jobs", "0"), 2, "--jobs 0 is less than 1"),
        (("--help",), 0, ""),
        ((), 3, "testbed: cannot write "),
    ],
)
def test_the_command(tmp_path: Path, arguments: tuple[str, ...], status: int, message: str) -> None:
    # The lock is a folder, so no user can use this cache folder.
    (tmp_path / "firstflight" / "testbed" / "lock").mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "testbed.setup", *arguments],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert message in done.stderr
    assert (done.returncode, "Traceback" in done.stderr) == (status, False)
