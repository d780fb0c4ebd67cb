"""Finds the guest's kernel in the user's cache folder, and builds it there from Debian's source.

A kernel's folder name contains its version and a hash of version and recipe (configuration and source
patches). Each recipe and version has a separate folder. A folder with this name is complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from firstflight.errors import FirstflightError, UsageError
from firstflight.system.files import explain_os_errors
from firstflight.system.lock import locked
from testbed.guest.cache_folder import cache
from testbed.guest.debian_package import DebianArchive, open_archive

PACKAGE = "linux-source-6.12"
CONFIGURATION = Path(__file__).with_name("uml.config")
# One patch per change of the source; each starts with its reason.
CHANGES = Path(__file__).with_name("changes")
# Program -> Debian package that contains it.
NEEDED = {name: name for name in ("gcc", "make", "flex", "bison", "bc", "tar", "perl", "patch")}
NEEDED |= {"xz": "xz-utils", "strip": "binutils", "dpkg-deb": "dpkg"}
NICENESS = 5
_SCRATCH = "build-"


def recipe() -> str:
    """Return all inputs that determine the build: the configuration and the source patches."""
    return "\0".join(path.read_text() for path in (CONFIGURATION, *changes()))


def changes() -> list[Path]:
    """Return the patches of the source, in the order of application."""
    return sorted(CHANGES.glob("*.patch"))


def key(version: str, made_by: str) -> str:
    """Return a kernel's folder name: its source's Debian version, and a hash of version and recipe."""
    digest = hashlib.sha256(f"{PACKAGE}\0{version}\0{made_by}".encode()).hexdigest()
    return f"linux-{version}-{digest[:16]}"


def built() -> Path | None:
    """Return the newest kernel built from the current recipe, or `None`."""
    made_by = recipe()
    paths = []
    for path in cache().glob("linux-*/linux"):
        version = path.parent.name.removeprefix("linux-").rpartition("-")[0]
        if path.parent.name == key(version, made_by) and os.access(path, os.X_OK):
            paths.append((_order(version), path))
    return max(paths)[1] if paths else None


def find() -> Path:
    """Return the guest's kernel; UsageError if it is not built."""
    kernel = built()
    if kernel is None:
        raise UsageError(f"there is no kernel of this configuration in {cache()}: run `make testbed-setup`")
    return kernel


def missing_packages() -> list[str]:
    """Return the Debian packages that a build needs and this machine lacks."""
    return sorted(package for program, package in NEEDED.items() if shutil.which(program) is None)


def refused(requested: str, resulting: str) -> list[str]:
    """Return the lines of the configuration `requested` that do not hold in `resulting`.

    Kconfig drops an option without a message if a dependency is off.
    """
    have = set(resulting.splitlines())
    on = {line.partition("=")[0] for line in have}
    missing = [line for line in requested.splitlines() if line.startswith("CONFIG_") and line not in have]
    # A disabled option has a line only if it could be enabled.
    off = re.findall(r"^# (CONFIG_\w+) is not set$", requested, re.MULTILINE)
    return missing + [f"# {name} is not set" for name in off if name in on]


def build(report: Callable[[str], None], jobs: int) -> Path:
    """Return the kernel of this configuration; build it if needed. `report` receives a line per step.

    A build needs about nine minutes of CPU time and 2 GB in the cache folder; 9 MB remain. UsageError if
    programs are missing or another build is running; FirstflightError if the mirror or the build fails.
    """
    folder = cache()
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock", "the testbed's cache folder"):
        # We hold the lock, so only killed builds can have left these folders.
        for unfinished in folder.glob(f"{_SCRATCH}*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        kernel = built()
        if kernel is not None:
            return kernel
        missing = missing_packages()
        if missing:
            raise UsageError(
                f"the kernel's build needs Debian packages: run `apt-get install {' '.join(missing)}`"
            )
        with (
            explain_os_errors(folder),
            tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as scratch,
        ):
            return _build(Path(scratch), open_archive(Path(scratch)), report, jobs)


def _build(scratch: Path, archive: DebianArchive, report: Callable[[str], None], jobs: int) -> Path:
    report("reading the lists of packages")
    archive.update()
    version = archive.candidate(PACKAGE)
    report(f"downloading {PACKAGE} {version} (153 MB)")
    fetched = scratch / "package"
    fetched.mkdir()
    package = archive.download(PACKAGE, version, fetched)
    report("unpacking it")
    _step(["dpkg-deb", "-x", str(package), str(fetched)], scratch)
    _step(["tar", "-xf", str(fetched / "usr" / "src" / f"{PACKAGE}.tar.xz"), "-C", str(scratch)], scratch)
    tree = scratch / PACKAGE
    for change in changes():
        _step(["patch", "--batch", "--forward", "-s", "-p1", "-i", str(change)], tree)
    configuration = CONFIGURATION.read_text()
    make = ["nice", "-n", str(NICENESS), "make", "-s", "ARCH=um"]
    _step([*make, f"KCONFIG_ALLCONFIG={CONFIGURATION}", "allnoconfig"], tree)
    dropped = refused(configuration, (tree / ".config").read_text())
    if dropped:
        raise FirstflightError(
            f"{PACKAGE} {version} does not accept {dropped[0]} of {CONFIGURATION}: change it"
        )
    report(f"building it with {jobs} jobs, some nine minutes of CPU time")
    _step([*make, f"-j{jobs}", "linux"], tree)
    ready = scratch / "ready"
    ready.mkdir()
    _step(["strip", "-o", str(ready / "linux"), str(tree / "linux")], scratch)
    place = cache() / key(version, recipe())
    shutil.rmtree(place, ignore_errors=True)
    ready.rename(place)
    return place / "linux"


def _step(argv: list[str], folder: Path) -> None:
    """Run a program of the build; FirstflightError with its last message if it fails."""
    # make passes its options through these variables, if this runs below `make testbed-setup`.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    done = subprocess.run(
        argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        reason = next(
            (line for line in lines if "error" in line.lower()), (lines or ["it gave no reason"])[-1]
        )
        program = next(argument for argument in argv if argument not in ("nice", "-n", str(NICENESS)))
        raise FirstflightError(f"the kernel was not built, {program} failed: {reason.strip()}")


def _order(version: str) -> tuple[tuple[int, ...], str]:
    return tuple(int(number) for number in re.findall(r"\d+", version)), version
