"""The QUIC stacks of the lab: one folder for each stack, with a server and its manifest.

The behaviour file refers to a stack by the folder's name. The server takes `--config FILE`
(docs/reference/lab-hosts.md) and prints READY. `manifest.toml` has these keys:

    program     a program in target/release; alternatively:
    module      a Python module
    modes       supported values of `mode`, described in the stack's README or docstring
    realtime    true if delays are declared to the microsecond. The server then runs before ordinary
                processes, so it must be a single thread that mostly sleeps
    alpn        supported values of `alpn`; the default is only h3
    mirrors_ecn true if ACKs count the ECN marks of received packets
    ecn         for modes with fixed ECN counts in ACKs: the verdict on ECT(0) from the first ACK
    shown       results of a complete handshake that offers all ciphers, and X25519 first
    incomplete  for modes that stop a handshake before it is complete: the results of the handshake stage
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
"""Stack name of an address without a server: the address answers "port unreachable"."""


class SharedColumns(BaseModel):
    """Columns of quic_handshake and http3_response that are the same for all endpoints of a stack.

    Transport parameters (name to value) and settings are only listed if the server sets them or they never
    vary.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    cipher: str
    tickets: int = 0
    early_data: bool = False
    tokens: int = 0
    transport_parameters: dict[str, int | bool | str]
    settings: dict[str, int]


class Incomplete(BaseModel):
    """Columns of quic_handshake for an incomplete handshake; docs/definitions.md defines the values."""

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


class LabStack(BaseModel):
    """A manifest."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    program: str | None = Field(default=None, pattern=r"^firstflight-[a-z0-9-]+$")
    module: str | None = Field(default=None, pattern=r"^lab\.stacks\.[a-z0-9_.]+$")
    modes: frozenset[str] = Field(min_length=1)
    realtime: bool = False
    alpn: frozenset[str] = frozenset({"h3"})
    mirrors_ecn: bool = False
    ecn: dict[str, Literal["valid", "wrong"]] = {}
    shown: SharedColumns | None = None
    incomplete: dict[str, Incomplete] = {}

    @model_validator(mode="after")
    def _has_one_server(self) -> LabStack:
        if (self.program is None) == (self.module is None):
            raise ValueError("give either `program` or `module`")
        for key, of_modes in (("incomplete", self.incomplete), ("ecn", self.ecn)):
            if unknown := set(of_modes) - self.modes:
                raise ValueError(f"`{key}` has {sorted(unknown)[0]!r}, which is not in `modes`")
        return self

    def command(self, file: Path) -> tuple[str, ...]:
        """Return the arguments that start the server with a configuration file; UsageError if not built."""
        if self.module:
            return (sys.executable, "-P", "-m", self.module, "--config", str(file))
        return (str(binaries.find(str(self.program))), "--config", str(file))


@cache
def load(folder: Path = FOLDER) -> dict[str, LabStack]:
    """Return name -> stack, for all stacks below `folder`, sorted. UsageError if a manifest is wrong."""
    return {file.parent.name: _read(file) for file in sorted(folder.glob("*/manifest.toml"))}


def find(name: str) -> LabStack:
    """Return a stack; ValueError lists all stacks."""
    stacks = load()
    if name not in stacks:
        raise ValueError(f"there is no stack {name!r} in lab/stacks, only {', '.join(stacks)}")
    return stacks[name]


def check(name: str, *modes: str) -> None:
    """Check that a stack exists and has these modes; ValueError names the error."""
    for mode in set(modes) - find(name).modes:
        raise ValueError(f"{name} has no mode {mode!r}, only {', '.join(sorted(find(name).modes))}")


def check_alpn(name: str, alpn: str) -> None:
    """Check that a stack supports a protocol; ValueError lists the supported ones."""
    if alpn not in find(name).alpn:
        raise ValueError(f"{name} has no alpn {alpn!r}, only {', '.join(sorted(map(repr, find(name).alpn)))}")


def _read(file: Path) -> LabStack:
    try:
        return LabStack.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not TOML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"])) or "top level"
        raise UsageError(f"{file} is wrong at {location}: {first['msg']}") from error
