"""Builds the small C programs that a guest needs into the user's cache folder."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import FirstflightError, UsageError
from firstflight.system.files import explain_os_errors
from firstflight.system.lock import locked
from testbed.guest.cache_folder import cache

SOURCE = Path(__file__).parent
_SCRATCH = "compile-"
_OPTIONS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror")
_BUILDS = {
    "init": ("init.c", ()),
    "seeded.so": ("seeded.c", ("-shared", "-fPIC")),
    "random_device.so": ("random_device.c", ("-shared", "-fPIC")),
}


@dataclass(frozen=True)
class Parts:
    """Paths: the first process; the preloads of the kernel's process and of programs in the guest."""

    init: Path
    seeded: Path
    random_device: Path


def parts() -> Parts:
    """Return the programs; build them if this version of their source is not in the cache.

    UsageError if gcc is missing; FirstflightError if gcc fails; OutputError if the cache is not writable.
    """
    sources = b"\0".join((SOURCE / source).read_bytes() for source, _ in _BUILDS.values())
    folder = cache() / f"parts-{hashlib.sha256(sources).hexdigest()[:16]}"
    if not folder.is_dir():
        with explain_os_errors(folder):
            cache().mkdir(parents=True, exist_ok=True)
        with locked(cache() / "parts.lock", "the testbed's cache folder", wait_s=60):
            for unfinished in cache().glob(f"{_SCRATCH}*"):
                shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed build
            if not folder.is_dir():
                with (
                    explain_os_errors(folder),
                    tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=cache()) as scratch,
                ):
                    _build(Path(scratch) / "ready").rename(folder)
    return Parts(folder / "init", folder / "seeded.so", folder / "random_device.so")


def _build(folder: Path) -> Path:
    folder.mkdir()
    if shutil.which("gcc") is None:
        raise UsageError("gcc is not installed, and a guest needs it: run `make testbed-setup`")
    for name, (source, options) in _BUILDS.items():
        argv = ["gcc", *_OPTIONS, *options, "-o", str(folder / name), str(SOURCE / source)]
        done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it gave no reason"]
            raise FirstflightError(
                f"gcc failed: {next((line for line in lines if 'error' in line), lines[-1])}"
            )
    return folder
