"""The programs for a stack's client and server, as specified in its manifest."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict, Field, model_validator

from firstflight.errors import UsageError
from firstflight.system import binaries
from testbed.stacks.version import Version

# Daemons live in sbin, which is not in every user's PATH. A guest's PATH has these folders.
_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


class Program(BaseModel):
    """A client: a Python module, a program that is built here, or a stack's own program."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    wheel: bool = False
    module: str | None = Field(default=None, pattern=r"^[a-z_][a-z0-9_.]*$")
    program: str | None = Field(default=None, pattern=r"^firstflight-[a-z0-9-]+$")
    package: str | None = Field(default=None, pattern=r"^testbed/[a-z0-9/-]+$")
    programs: tuple[str, ...] = ()
    own: tuple[str, ...] = Field(default=(), description="The whole argument list of a stack's own program.")
    missing: str | None = Field(default=None, description="Why that is not here, in a sentence.")

    @model_validator(mode="after")
    def _is_one(self) -> Program:
        if [self.module is None, self.program is None, not self.own].count(False) != 1:
            raise ValueError("give either `module` or `program`")
        if self.package and not self.program:
            raise ValueError("`package` needs `program`")
        return self

    @property
    def build(self) -> str:
        """Return how it was built, in the form of testbed_trial."""
        if self.own:
            return "release"
        return "wheel" if self.wheel else "python" if self.module else "release"

    def command(self) -> list[str]:
        """Return the argument list; UsageError if the program, or a program that it runs, is missing."""
        _check_installed(self.programs)
        if self.missing:
            raise UsageError(self.missing)
        if self.own:
            return list(self.own)
        if self.module:
            return [sys.executable, "-P", "-m", self.module]
        return [_path(str(self.program), by_testbed_setup=self.package is not None)]


class ServerProgram(BaseModel):
    """A testbed-only server: a program built here, an installed program, or a stack's own program."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    program: str | None = Field(default=None, pattern=r"^firstflight-[a-z0-9-]+$")
    patched: bool = False
    serve: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    version: Version | None = None
    own: tuple[str, ...] = Field(default=(), description="The same as of a client.")
    missing: str | None = None

    @model_validator(mode="after")
    def _is_one(self) -> ServerProgram:
        if [self.program is None, not self.serve, not self.own].count(False) != 1:
            raise ValueError("give either `program` or `serve`")
        return self

    def command(self) -> list[str]:
        """Return the argument list; UsageError if the program is not built, or not installed."""
        _check_installed(self.programs)
        if self.missing:
            raise UsageError(self.missing)
        if self.serve:
            return served_by(self.serve)
        return list(self.own) or [_path(str(self.program), by_testbed_setup=self.patched)]


def served_by(argv: Iterable[str]) -> list[str]:
    """Return the argument list that starts a server's own program (testbed/stacks/own_server.py)."""
    return [sys.executable, "-P", "-m", "testbed.stacks.own_server", *argv]


def _check_installed(names: Iterable[str]) -> None:
    """Raise UsageError if a program is not installed on this machine."""
    for name in names:
        if shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}") is None:
            raise UsageError(f"{name} is missing: `make setup` installs it")


def _path(program: str, *, by_testbed_setup: bool) -> str:
    """Return a program's path; UsageError if it is not built."""
    try:
        return str(binaries.find(program))
    except UsageError as error:
        if by_testbed_setup:
            raise UsageError(f"{program} is not built: run `make testbed-setup`") from error
        raise
