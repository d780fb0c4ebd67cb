"""Builds clients that are standalone packages of Cargo or Maven, outside of the workspace.

In the workspace, their stack would change the builds of other programs (by enabling a feature in a crate, or
by a C library that takes minutes to build), or it is in Java. A client's manifest names the folder
(`package`), which pins all versions.
"""

from __future__ import annotations

from pathlib import Path

from firstflight.system import binaries
from testbed import stacks
from testbed.guest import compiler
from testbed.stacks import java


def packages(file: str = "") -> dict[str, Path]:
    """Return program names and folders of the separate packages that contain `file`."""
    clients = [client for stack in stacks.load().values() for client in stack.programs if client.package]
    folders = {str(client.program): binaries.repository() / str(client.package) for client in clients}
    return {program: folder for program, folder in folders.items() if (folder / file).exists()}


def build_all() -> list[str]:
    """Build all packages that are not up to date into target/release; return their names.

    UsageError if Java or Maven is missing; FirstflightError if cargo is missing or a build fails; OutputError
    if a folder cannot be written.
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
