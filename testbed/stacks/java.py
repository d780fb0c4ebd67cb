"""Builds a client in Java: a folder NAME with pom.xml, sources and the script that starts it.

Maven fetches the stack in the version in pom.xml. The script is in target/release, and the jars are in
target/release/NAME.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import binaries
from firstflight.system.files import explain_os_errors
from firstflight.system.lock import locked
from testbed.guest.cache_folder import cache

_STAMP = "built-from"


def build(program: str, source: Path) -> None:
    """Build the client in `source`, which has the script `program`, unless it is up to date.

    UsageError if Java or Maven is missing; FirstflightError if the build fails; OutputError if a folder
    cannot be written.
    """
    with explain_os_errors(cache()):
        cache().mkdir(parents=True, exist_ok=True)
    target = binaries.repository() / "target/release"
    with (
        locked(cache() / "java.lock", "the testbed's clients in Java", wait_s=1800),
        explain_os_errors(target),
    ):
        # We hold the lock, so only killed builds can have left these folders.
        for outdated in cache().glob(f"{source.name}-*"):
            shutil.rmtree(outdated, ignore_errors=True)
        _build(source, source / program, target)


def package(source: Path, out: Path) -> None:
    """Build the project in `source`; write the jar to `out` and the dependencies' jars to `out`/lib.

    UsageError if Java or Maven is missing; FirstflightError if the build fails.
    """
    if shutil.which("javac") is None:
        raise UsageError(
            f"javac is not installed, and the client in {source} needs it: run `make testbed-setup`"
        )
    argv = ["mvn", "--batch-mode", "--quiet", "-Dstyle.color=never", f"-Dout={out}", "package"]
    try:
        done = subprocess.run(
            argv, cwd=source, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"mvn is not installed, and the client in {source} needs it: run `make testbed-setup`"
        ) from error
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
        reason = (lines or ["it gave no reason"])[0].removeprefix("[ERROR] ")
        raise FirstflightError(f"mvn failed in {source}: {reason}")


def _build(source: Path, script: Path, target: Path) -> None:
    jars = target / source.name
    digest = hashlib.sha256()
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(source)}\n".encode() + file.read_bytes())
    stamp = jars / _STAMP
    if (target / script.name).is_file() and stamp.is_file() and stamp.read_text() == digest.hexdigest():
        return
    with tempfile.TemporaryDirectory(prefix=f"{source.name}-", dir=cache()) as scratch:
        out = Path(scratch)
        package(source, out)
        shutil.rmtree(jars, ignore_errors=True)
        jars.mkdir(parents=True)
        for jar in (*out.glob("*.jar"), *(out / "lib").glob("*.jar")):
            shutil.copyfile(jar, jars / jar.name)
    shutil.copy(script, target / script.name)
    stamp.write_text(digest.hexdigest())
