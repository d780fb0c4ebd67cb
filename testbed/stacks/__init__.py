"""The stacks of the testbed: a file each, NAME.toml, that says how its client and its server are started.

client      {module = "..."} or {program = "firstflight-..."}: takes requests on standard input as
            downloader/clients/contract.py describes them, and the lists in force as arguments;
            `wheel = true`: the stack is a library inside a wheel; `package = FOLDER`: the program is a
            package of its own there, of Cargo or Maven, which `make testbed-setup` builds;
            `programs = [...]`: programs that it runs, which have to be on the PATH
server      a folder of lab/stacks whose server has the modes `iack` and `wait`, or {program =
            "firstflight-..."} of the testbed's own, which takes one endpoint of the lab's configuration;
            `patched = true`: it is one of testbed/patched
version     where the version stands: {python = DISTRIBUTION}, {cargo = CRATE}, {go = MODULE},
            {maven = ARTIFACT} in testbed/clients/ARTIFACT/pom.xml, {debian = PACKAGE} that is installed,
            or {libcurl = LIBRARY} of those that libcurl is built with; `lock`: the lock file that has the
            crate, if it is not the workspace's. What is built of a `source` knows its own
alpn        the protocol that its client speaks; h3 unless given
http        what a request of its client says as `http`; 3 unless given
bodies      true: its server sends response bodies of a length that a cell chooses
certificate_keys  kinds of keys that its server signs with; unless given, all that a cell may have
controllers congestion controllers that its server has
ack_requests  what its server can ask of a client when packets come out of order, by ACK_FREQUENCY; none: it
            sends no such frame
gso         true: its server can send several datagrams as one
qlog        true: its client writes a qlog file of each connection into the folder QLOGDIR
logging     the program that does so, if the client is built without
launch_times  true: its server gives each datagram the time at which fq and etf shall send it, also those
            that it sends as one
server_log  true: its server writes the launch time of each datagram, and its congestion window
polls       true: its client polls without reading a clock, so a guest's clock goes on while it computes: no
            two runs of its cells are the same
unavailable why neither can be had here: each of its trials has the outcome `unavailable`
source      how its client is built from a folder of its source (testbed/sourced.py); `unavailable` until then
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pycurl
from pydantic import BaseModel, ConfigDict, Field, model_validator

from firstflight.errors import UsageError
from firstflight.system import binaries
from lab import stacks as lab_stacks
from testbed import checked
from testbed.cell import CertificateKey, Controller, Reordering
from testbed.sourced import Source

FOLDER = Path(__file__).parent


class _Program(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    wheel: bool = False
    module: str | None = Field(default=None, pattern=r"^[a-z_][a-z0-9_.]*$")
    program: str | None = Field(default=None, pattern=r"^firstflight-[a-z0-9-]+$")
    package: str | None = Field(default=None, pattern=r"^testbed/[a-z0-9/-]+$")
    programs: tuple[str, ...] = ()
    sourced: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _is_one(self) -> _Program:
        if (self.module is None) == (self.program is None):
            raise ValueError("give either `module` or `program`")
        if self.package and not self.program:
            raise ValueError("`package` is of a `program`")
        return self

    @property
    def build(self) -> str:
        """Return how it was built, as testbed_trial has it."""
        if self.sourced:
            return "release"
        return "wheel" if self.wheel else "python" if self.module else "release"

    def command(self) -> list[str]:
        """Return the argument list; UsageError if the program, or one that it runs, is not here."""
        for name in self.programs:
            if shutil.which(name) is None:
                raise UsageError(f"{name} is missing: `make setup` installs it")
        if self.sourced:
            return list(self.sourced)
        if self.module:
            return [sys.executable, "-P", "-m", self.module]
        return [_path(str(self.program), by_testbed_setup=self.package is not None)]


class _Server(BaseModel):
    """A server that is the testbed's alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    program: str = Field(pattern=r"^firstflight-[a-z0-9-]+$")
    patched: bool = False

    def command(self) -> list[str]:
        """Return the argument list; UsageError if the program is not built."""
        return [_path(self.program, by_testbed_setup=self.patched)]


def _path(program: str, *, by_testbed_setup: bool) -> str:
    """Return the path of a program; UsageError if it is not built."""
    try:
        return str(binaries.find(program))
    except UsageError as error:
        if by_testbed_setup:
            raise UsageError(f"{program} is not built: run `make testbed-setup`") from error
        raise


class _Version(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    python: str | None = None
    cargo: str | None = None
    go: str | None = None
    maven: str | None = None
    debian: str | None = None
    libcurl: str | None = None
    source: str | None = None
    lock: str = "Cargo.lock"

    def text(self) -> str:
        """Return the version that is here, or `unknown`."""
        return self.known() or "unknown"

    def known(self) -> str | None:
        """Return the version that is here, or None."""
        try:
            if self.libcurl:
                return dict(one.partition("/")[::2] for one in pycurl.version.split())[self.libcurl]
            if self.python:
                return metadata.version(self.python)
            if self.cargo:
                return _crates(self.lock)[self.cargo]
            if self.debian:
                return _installed(self.debian)
            if self.source:
                return self.source
            if self.maven:
                return _in_pom(self.maven)
            words = (binaries.repository() / "lab/stacks/quic-go/go.mod").read_text(encoding="utf-8").split()
            return words[words.index(str(self.go)) + 1].removeprefix("v")
        except (OSError, KeyError, ValueError, metadata.PackageNotFoundError):
            return None


@cache
def _crates(lock: str) -> dict[str, str]:
    """Return the crates' versions; read once, because each trial's row has one, and the file is long."""
    text = (binaries.repository() / lock).read_text(encoding="utf-8")
    # Of several versions of a crate the first one counts.
    return {str(one["name"]): str(one["version"]) for one in reversed(tomllib.loads(text)["package"])}


@cache
def _built_with(program: str) -> str | None:
    """Return the version of its stack that a program was built with: PROGRAM VERSION (STACK VERSION)."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False, timeout=60)
    found = re.fullmatch(r"\S+ \S+ \(\S+ (\S+)\)", done.stdout.strip())
    return found[1] if found else None


@cache
def _installed(package: str) -> str | None:
    """Return the version of a Debian package; None if it is not installed."""
    argv = ["dpkg-query", "--show", "--showformat=${source:Upstream-Version}", package]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout or None


def _in_pom(artifact: str) -> str:
    """Return the version of an artifact that a client in Java names as a property, ARTIFACT.version."""
    text = (binaries.repository() / f"testbed/clients/{artifact}/pom.xml").read_text(encoding="utf-8")
    return text.partition(f"<{artifact}.version>")[2].partition("<")[0]


class Stack(BaseModel):
    """A file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    client: _Program | None = None
    logging: _Program | None = None
    server: str | _Server | None = None
    version: _Version = _Version()
    http: str = "3"
    alpn: str = "h3"
    bodies: bool = False
    certificate_keys: tuple[CertificateKey, ...] = ("ecdsa_p256", "rsa_2048")
    controllers: tuple[Controller, ...] = ()
    ack_requests: tuple[Reordering, ...] = ()
    gso: bool = False
    launch_times: bool = False
    server_log: bool = False
    qlog: bool = False
    polls: bool = False
    unavailable: str | None = None
    source: Source | None = None

    @model_validator(mode="after")
    def _has_something(self) -> Stack:
        if (self.unavailable is None) == (self.client is None and self.server is None):
            raise ValueError("give `client`, `server` or both, or else `unavailable`")
        if self.logging is not None and not self.qlog:
            raise ValueError("`logging` is a client that writes a log: give `qlog`, too")
        if self.source is not None and self.unavailable is None:
            raise ValueError("`source` needs `unavailable`, for as long as nothing is built of it")
        return self

    def here(self, name: str) -> Stack:
        """Return it with the client that was built from its source, if there is one."""
        command = self.source.command(name) if self.source is not None else None
        if self.source is None or command is None:
            return self
        client = _Program(module="testbed.sourced", sourced=tuple(command))
        version = _Version(source=self.source.version(name))
        return self.model_copy(update={"client": client, "version": version, "unavailable": None})

    def folders(self, name: str) -> list[Path]:
        """Return folders beside the checkout that the program of its client is in."""
        return [self.source.folder(name)] if self.source is not None and self.client is not None else []

    @property
    def programs(self) -> tuple[_Program, ...]:
        """Return the programs of its client."""
        return tuple(one for one in (self.client, self.logging) if one is not None)

    def client_command(self, *, logged: bool) -> list[str]:
        """Return the argument list of its client, the one that writes a log if `logged`.

        UsageError if it is not built.
        """
        chosen = self.logging if logged and self.logging is not None else self.client
        assert chosen is not None
        return chosen.command()

    def missing(self) -> list[str]:
        """Return what its sides lack to be started here, a sentence each."""
        commands = [one.command for one in self.programs] + ([self.server_command] if self.server else [])
        found = []
        for command in commands:
            try:
                command()
            except UsageError as error:
                found.append(str(error))
        return list(dict.fromkeys(found))

    def server_speaks(self, alpn: str) -> bool:
        """Return whether its server takes a protocol."""
        if isinstance(self.server, _Server):
            return alpn == "h3"
        return self.server is not None and alpn in lab_stacks.find(self.server).alpn

    def server_command(self) -> list[str]:
        """Return the argument list that starts its server, but for `--config FILE`.

        UsageError if it is not built.
        """
        if isinstance(self.server, _Server):
            return self.server.command()
        given = lab_stacks.find(str(self.server)).command(Path("server.json"))
        return list(given[: given.index("--config")])

    @property
    def server_version(self) -> str | None:
        """Return the version of its server, as testbed_trial has it; None if it is not known.

        A program says what it was built with, which may be another version than the one that would be built.
        """
        known = self.version.known()
        if isinstance(self.server, _Server) or (self.server and lab_stacks.find(self.server).program):
            with contextlib.suppress(UsageError):
                known = _built_with(self.server_command()[0])
        changed = isinstance(self.server, _Server) and self.server.patched
        return f"{known}+changed" if known and changed else known

    @property
    def server_build(self) -> str | None:
        """Return how its server was built, as testbed_trial has it; None without one."""
        if self.server is None:
            return None
        own = isinstance(self.server, _Server) or lab_stacks.find(self.server).program
        return "release" if own else "python"


@cache
def load(folder: Path = FOLDER) -> dict[str, Stack]:
    """Return all stacks by name, sorted. UsageError if a file is wrong."""
    files = sorted(folder.glob("*.toml"))
    return {file.stem: checked.read(file, Stack).here(file.stem) for file in files}


def find(name: str) -> Stack:
    """Return a stack; UsageError names all there are."""
    if name not in load():
        raise UsageError(f"there is no stack {name!r} in testbed/stacks, only {', '.join(load())}")
    return load()[name]
