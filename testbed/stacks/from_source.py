"""A client built from a folder with its stack's source, which the user provides.

For stacks that no package registry has. `make testbed-setup SOURCE=NAME=FOLDER` builds it in the user's cache
folder with the commands in its manifest ([source] in NAME.toml). own_program.py runs it to answer requests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from firstflight.errors import FirstflightError, InputError
from firstflight.system.files import explain_os_errors
from firstflight.system.lock import locked
from testbed.guest import compiler
from testbed.guest.cache_folder import cache
from testbed.stacks import own_program
from testbed.stacks.own_program import filled

_VERSION = "built-from"


class Source(BaseModel):
    """How a stack is built from its source, and how its own program sends a request.

    In `build` {source} is the user's folder, {out} the new one, {jobs} the number of compilers; `program` is
    in {out}. In `request` {program} is that; {host}, {ip}, {port}, {path} and {roots} are of the request.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    build: tuple[tuple[str, ...], ...] = Field(min_length=1)
    program: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")
    request: tuple[str, ...] = Field(min_length=1)

    def folder(self, name: str) -> Path:
        """Return where NAME is built."""
        return _out(name)

    def version(self, name: str) -> str | None:
        """Return the source version of NAME's build; None if the build is incomplete."""
        out = _out(name)
        try:
            # Written last: a program without a version comes from a failed or running build.
            version = (out / _VERSION).read_text(encoding="utf-8").strip()
        except OSError:
            return None
        return version if (out / self.program).is_file() else None

    def command(self, name: str) -> list[str] | None:
        """Return the argument list of the client NAME; None if it is not built."""
        version = self.version(name)
        if version is None:
            return None
        program = str(_out(name) / self.program)
        return own_program.command(name, version, [filled(one, program=program) for one in self.request])


def build(name: str, source: Source, folder: Path, jobs: int) -> Path:
    """Build a stack from `folder` and return its program; this replaces an earlier build.

    InputError if `folder` is not a folder; FirstflightError if a command fails or no program results.
    """
    if not folder.is_dir():
        raise InputError(f"the source of {name}, {folder}, is no folder")
    out = _out(name)
    with explain_os_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    with (
        locked(out.with_name(f"{out.name}.lock"), f"the testbed's folder for {name}"),
        explain_os_errors(out),
    ):
        # A build knows its own folder, so it is made in place; its version is written last.
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        names = {"source": str(folder.absolute()), "out": str(out), "jobs": str(jobs)}
        for step in source.build:
            compiler.run([filled(one, **names) for one in step], folder, f"the stack {name} needs it")
        program = out / source.program
        if not program.is_file():
            raise FirstflightError(f"the build of {name} left no {program}")
        (out / _VERSION).write_text(f"{_version(folder)}\n", encoding="utf-8")
    return program


def _out(name: str) -> Path:
    return cache() / f"sourced-{name}"


def _version(folder: Path) -> str:
    """Return the commit of a source, or `unknown`: its files have no version in a form that all share."""
    argv = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--tags"]
    # Use only the folder's own repository: not a parent repository, nor one whose hook runs this process.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_CEILING_DIRECTORIES"] = str(folder.resolve().parent)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else "unknown"
