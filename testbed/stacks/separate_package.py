"""Builds clients that are packages of their own, of Cargo or Maven, outside of the workspace.

In it their stack would change how other programs are built (a feature that it asks of a crate, a library in
C that takes minutes), or it is in Java. A client's manifest names the folder (`package`), which pins all
versions.
"""

from __future__ import annotations

from pathlib import Path

from firstflight.system import binaries
from testbed import stacks
from testbed.guest import compiler
from testbed.stacks import java


def packages(file: str = "") -> dict[str, Path]:
    """Return the folders of programs in separate packages that contain `file`, keyed by name."""
    clients = [one for stack in stacks.load().values() for one in stack.programs if one.package]
    folders = {str(one.program): binaries.repository() / str(one.package) for one in clients}
    return {program: folder for program, folder in folders.items() if (folder / file).exists()}


def build_all() -> list[str]:
    """Build all that are not up to date into target/release; return their names.

    UsageError if Java or Maven is missing; FirstflightError if cargo is, or a build fails; OutputError if a
    folder cannot be written.
    """
    found = packages()
    for program, folder in found.items():
        if (folder / "pom.xml").is_file():
            java.build(program, folder)
        else:
            _build(folder)
    return list(found)


def _build(folder: Path) -> None:
    target = str(binaries.repository() / "target")
    argv = ["cargo", "build", "--quiet", "--release", "--locked", "--target-dir", target]
    compiler.run(argv, folder, f"{folder} is built by it")
