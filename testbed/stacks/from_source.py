"""A stack's own programs, built from its source in the user's cache folder.

The manifest ([source] in NAME.toml) has the commands. If a registry has the source (`archive`),
`make testbed-setup` fetches and builds it. Otherwise `make testbed-setup SOURCE=NAME=FOLDER` builds it from
the user's folder. own_program.py runs the client to answer requests; own_server.py becomes the server.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from firstflight.errors import FirstflightError, InputError
from firstflight.system.files import explain_os_errors
from firstflight.system.lock import locked
from testbed.guest import compiler
from testbed.guest.cache_folder import cache
from testbed.stacks import archive, changes, own_program
from testbed.stacks.archive import SourceArchive
from testbed.stacks.changes import Change
from testbed.stacks.own_program import filled

_VERSION = "built-from"


class SourceStack(BaseModel):
    """How to build a stack from its source, and how its own program sends a request and serves.

    In `build`, {source} is the folder of the source, {out} the new folder, {jobs} the number of compilers;
    `program` is in {out}. In `request` and `serve`, {program} is the path of `program`. own_program.py and
    own_server.py define the other names. `change`: changes to make in a copy of the source.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    archive: SourceArchive | None = None
    build: tuple[tuple[str, ...], ...] = Field(min_length=1)
    program: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")
    request: tuple[str, ...] = Field(min_length=1)
    serve: tuple[str, ...] = ()
    change: tuple[Change, ...] = ()

    def folder(self, name: str) -> Path:
        """Return the build folder of NAME."""
        return _build_folder(name)

    def version(self, name: str) -> str | None:
        """Return the source version of NAME's build; `None` if the build is incomplete."""
        # Written last: without a version, the build has failed or is running.
        version = _stamp(name).partition("\n")[0]
        return version if version and (_build_folder(name) / self.program).is_file() else None

    def argv(self, name: str, arguments: tuple[str, ...]) -> list[str]:
        """Return `request` or `serve` with the path of NAME's program."""
        return [filled(argument, program=str(_build_folder(name) / self.program)) for argument in arguments]

    def command(self, name: str) -> list[str] | None:
        """Return the argument list of the client NAME; `None` if it is not built."""
        version = self.version(name)
        if version is None:
            return None
        return own_program.command(name, version, self.argv(name, self.request))

    @property
    def key(self) -> str:
        """Return a key that changes if the program must be built again."""
        built = self.model_dump_json(include={"archive", "build", "program", "change"})
        return hashlib.sha256(built.encode()).hexdigest()


def build_fetched(name: str, source: SourceStack, jobs: int) -> Path:
    """Build a stack from its archive if needed; return the program.

    FirstflightError if the archive cannot be fetched, a command fails, or no program results.
    """
    assert source.archive is not None
    if source.version(name) is not None and _stamp(name).splitlines()[1:] == [source.key]:
        return _build_folder(name) / source.program
    with explain_os_errors(cache()):
        cache().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"fetch-{name}.", dir=cache()) as scratch:
            folder = archive.fetch(source.archive, Path(scratch))
            return build(name, source, folder, jobs, f"{source.archive.version}\n{source.key}")


def build(name: str, source: SourceStack, folder: Path, jobs: int, stamp: str = "") -> Path:
    """Build a stack from `folder` and return the program; this replaces an earlier build.

    `stamp`: its version and, on a second line, its key; default: the folder's commit. InputError if `folder`
    is not a folder; FirstflightError if a command fails or no program results.
    """
    if not folder.is_dir():
        raise InputError(f"the source of {name}, {folder}, is no folder")
    out = _build_folder(name)
    with explain_os_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    with (
        locked(out.with_name(f"{out.name}.lock"), f"the testbed's folder for {name}"),
        explain_os_errors(out),
    ):
        # A build contains its folder's path, so it is made in place; its version is written last.
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        with tempfile.TemporaryDirectory(prefix=f"changed-{name}.", dir=cache()) as scratch:
            chosen = folder
            if source.change:
                chosen = Path(scratch) / "source"
                shutil.copytree(folder, chosen, symlinks=True)
                changes.apply(source.change, chosen, folder, f"testbed/stacks/{name}.toml")
            names = {"source": str(chosen.absolute()), "out": str(out), "jobs": str(jobs)}
            for step in source.build:
                compiler.run(
                    [filled(argument, **names) for argument in step], chosen, f"the stack {name} needs it"
                )
        program = out / source.program
        if not program.is_file():
            raise FirstflightError(f"the build of {name} left no {program}")
        (out / _VERSION).write_text(f"{stamp or _version(folder)}\n", encoding="utf-8")
    return program


def _build_folder(name: str) -> Path:
    return cache() / f"sourced-{name}"


def _stamp(name: str) -> str:
    """Return the version of NAME's build, and its key on a second line if from an archive; or empty."""
    try:
        return (_build_folder(name) / _VERSION).read_text(encoding="utf-8")
    except OSError:
        return ""


def _version(folder: Path) -> str:
    """Return a source's commit, or `unknown`: sources have no common form for their version."""
    argv = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--tags"]
    # Use only the folder's own repository: not a parent repository, nor one whose hook runs this process.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_CEILING_DIRECTORIES"] = str(folder.resolve().parent)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else "unknown"
