"""The QUIC stacks of the lab: a folder each, with a server and its manifest.

The folder's name is the stack's name in the behaviour file. The server takes `--config FILE`
(docs/architecture.md) and prints READY; `manifest.toml` says how it is started and what it can do:

    program    a program of target/release, or
    module     a Python module
    modes      the values of `mode` that it takes; a README or docstring beside it says what each one sends
    realtime   true if its delays are declared to the microsecond: it runs before ordinary processes, so it
               must be one thread that mostly sleeps
    alpn       the values of `alpn` that it takes: h3 alone unless it says otherwise
    mirrors_ecn true if its ACKs count the ECN marks of what it received
    ecn        for the modes whose ACKs count marks whatever they were: what the first one says of ECT(0)
    shown      what a client learns of it by a complete handshake that offers all ciphers and X25519 first
    incomplete for the modes that end a handshake before it is complete: how the handshake stage sees that
"""

from __future__ import annotations

import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from firstflight.errors import UsageError
from firstflight.system import binaries

FOLDER = Path(__file__).parent
NO_SERVER = "none"
"""Takes the place of a stack where nothing listens: the address answers "port unreachable"."""


class Shown(BaseModel):
    """Columns of quic_handshake and http3_response that are the same for all endpoints of a stack.

    Of transport parameters, by name, and settings those whose values the server sets or that never vary.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    cipher: str
    tickets: int = 0
    early_data: bool = False
    tokens: int = 0
    transport_parameters: dict[str, int | bool | str]
    settings: dict[str, int]


class Incomplete(BaseModel):
    """Columns of quic_handshake for a handshake that is not completed; docs/definitions.md has the words."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    outcome: str
    stage: str
    first_answer: str | None = None
    retry: bool = False
    version_list: str | None = None
    alert: int | None = None
    alert_by: str | None = None
    close_code: int | None = None
    close_by_application: bool | None = None
    close_reason: str | None = None


class Stack(BaseModel):
    """A manifest."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    program: str | None = Field(default=None, pattern=r"^firstflight-[a-z0-9-]+$")
    module: str | None = Field(default=None, pattern=r"^lab\.stacks\.[a-z0-9_.]+$")
    modes: frozenset[str] = Field(min_length=1)
    realtime: bool = False
    alpn: frozenset[str] = frozenset({"h3"})
    mirrors_ecn: bool = False
    ecn: dict[str, Literal["valid", "wrong"]] = {}
    shown: Shown | None = None
    incomplete: dict[str, Incomplete] = {}

    @model_validator(mode="after")
    def _has_one_server(self) -> Stack:
        if (self.program is None) == (self.module is None):
            raise ValueError("give either `program` or `module`")
        for key, of_modes in (("incomplete", self.incomplete), ("ecn", self.ecn)):
            if unknown := set(of_modes) - self.modes:
                raise ValueError(f"`{key}` has {sorted(unknown)[0]!r}, which is none of `modes`")
        return self

    def command(self, file: Path) -> tuple[str, ...]:
        """Return the argument list that starts the server with a configuration file; UsageError if it is not
        built."""
        if self.module:
            return (sys.executable, "-P", "-m", self.module, "--config", str(file))
        return (str(binaries.find(str(self.program))), "--config", str(file))


@cache
def load(folder: Path = FOLDER) -> dict[str, Stack]:
    """Return all stacks below `folder` by name, sorted. UsageError if a manifest is wrong."""
    return {file.parent.name: _read(file) for file in sorted(folder.glob("*/manifest.toml"))}


def find(name: str) -> Stack:
    """Return a stack; ValueError names all there are."""
    stacks = load()
    if name not in stacks:
        raise ValueError(f"there is no stack {name!r} in lab/stacks, only {', '.join(stacks)}")
    return stacks[name]


def check(name: str, *modes: str) -> None:
    """Check that a stack exists and has these modes; ValueError says what is wrong."""
    for mode in set(modes) - find(name).modes:
        raise ValueError(f"{name} has no mode {mode!r}, only {', '.join(sorted(find(name).modes))}")


def check_alpn(name: str, alpn: str) -> None:
    """Check that a stack can be configured for a protocol; ValueError says what it can."""
    if alpn not in find(name).alpn:
        raise ValueError(f"{name} has no alpn {alpn!r}, only {', '.join(sorted(map(repr, find(name).alpn)))}")


def _read(file: Path) -> Stack:
    try:
        return Stack.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "top level"
        raise UsageError(f"{file} is wrong at {where}: {first['msg']}") from error
