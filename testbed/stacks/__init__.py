"""The stacks of the testbed. A file NAME.toml per stack describes how to start its client and server.

client      {module = "..."} or {program = "firstflight-..."}: takes requests on standard input as
            downloader/clients/contract.py describes them, and the lists in force as arguments;
            `wheel = true`: the stack is a library inside a wheel; `package = FOLDER`: the program is a
            separate Cargo or Maven package there, which `make testbed-setup` builds;
            `programs = [...]`: programs that it runs, which must be on the PATH
server      a folder of lab/stacks with a server that has the modes `iack` and `wait`, or {program =
            "firstflight-..."}, a testbed-only server, which takes one endpoint of the lab's configuration;
            `patched = true`: the server is in testbed/stacks/patched. {serve = [...]}: the argument list of
            an installed program, as testbed/stacks/own_server.py describes it, with `programs` as above and
            the source of its `version`
version     the source of the version: {python = DISTRIBUTION}, {cargo = CRATE}, {go = MODULE},
            {maven = ARTIFACT} in testbed/clients/ARTIFACT/pom.xml, {debian = PACKAGE} if installed,
            or {libcurl = LIBRARY} for a library that libcurl is built with; `lock`: the lock file with the
            crate, if it is not the workspace's. Stacks with `source` or `packaged` report their version
alpn        the protocols of its client and server; default: ["h3"]. Cells without `alpn` use the client's
            first one. With http/1.1 or h2, client and server use TLS over TCP. The protocols of a server in
            lab/stacks are in its own manifest
bodies      true: its server sends response bodies with a length that the cell chooses
certificate_keys  kinds of keys that its server signs with; default: all kinds that a cell may have
controllers the server's congestion controllers
ack_requests  the reordering behaviours that its server can request by ACK_FREQUENCY; empty: its server
            sends no such frame
answers     the server's answers; default: both. A server without `iack` cannot wait for a certificate
handshakes  the handshakes that its server supports; default: only full ones
resumes     true: its client resumes the session of the request before, if the request demands it
repeats     true: its client can load a resource several times in a request, and keeps connections
gso         true: its server can send several datagrams as one; `always`: it cannot turn this off
gso_segments  true: its server can fill buffers with a given number of datagrams
qlog        true: its client writes a qlog file of each connection into the folder QLOGDIR
server_qlog  true: its server does the same
logging     the program that writes qlog files, if the client is built without qlog
launch_times  true: its server sets the time at which fq and etf send each datagram, including datagrams
            sent as one
server_log  true: its server writes the launch time of each datagram, and its congestion window
polls       true: its client polls without reading a clock, so a guest's clock advances while it computes.
            Such runs are not reproducible
not_with    servers that its client does not complete with, and why; such trials are `unavailable`
unavailable why client and server are unavailable; trials have the outcome `unavailable`
source      how to build its programs from source (from_source.py). Without `archive`, it is `unavailable`
            until the user names the folder of the source
packaged    its own client and server in Debian packages, which `make testbed-setup` unpacks
            (testbed/stacks/packaged.py)
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from firstflight.errors import UsageError
from lab import stacks as lab_stacks
from testbed import toml_file
from testbed.choices import (
    Answering,
    CertificateKey,
    Controller,
    Handshake,
    Protocol,
    Reordering,
    Transport,
    transport,
)
from testbed.stacks import own_program
from testbed.stacks.from_source import SourceStack
from testbed.stacks.packaged import Packaged
from testbed.stacks.program import Program, ServerProgram, served_by
from testbed.stacks.version import Version, built_with

FOLDER = Path(__file__).parent


class StackFile(BaseModel):
    """The content of a stack's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    client: Program | None = None
    logging: Program | None = None
    server: str | ServerProgram | None = None
    version: Version = Version()
    alpn: tuple[Protocol, ...] = Field(default=("h3",), min_length=1)
    bodies: bool = False
    certificate_keys: tuple[CertificateKey, ...] = ("ecdsa_p256", "rsa_2048")
    controllers: tuple[Controller, ...] = ()
    ack_requests: tuple[Reordering, ...] = ()
    answers: tuple[Answering, ...] = ("iack", "wfc")
    handshakes: tuple[Handshake, ...] = ("full",)
    resumes: bool = False
    repeats: bool = False
    gso: bool | Literal["always"] = False
    gso_segments: bool = False
    launch_times: bool = False
    server_log: bool = False
    qlog: bool = False
    server_qlog: bool = False
    polls: bool = False
    not_with: Mapping[str, str] = {}
    unavailable: str | None = None
    source: SourceStack | None = None
    packaged: Packaged | None = None

    @model_validator(mode="after")
    def _has_something(self) -> StackFile:
        given = (self.client, self.server, self.unavailable)
        if self.packaged is not None:
            if any(field is not None for field in (*given, self.source)):
                raise ValueError("`packaged` has client and server: remove the others and `unavailable`")
        elif self.source is not None and self.source.archive is not None:
            if any(field is not None for field in given):
                raise ValueError("a `source` with `archive` has client and server: remove the others")
        elif (self.unavailable is None) == (self.client is None and self.server is None):
            raise ValueError("give `client`, `server` or both, or only `unavailable`")
        if self.logging is not None and not self.qlog:
            raise ValueError("`logging` is a client that writes a log: it needs `qlog`")
        fetched = self.source is not None and self.source.archive is not None
        if self.source is not None and not fetched and self.unavailable is None:
            raise ValueError("`source` without `archive` needs `unavailable` until it is built")
        return self

    def here(self, name: str) -> StackFile:
        """Return the stack with the programs built from source or unpacked from packages."""
        if self.packaged is not None:
            argv = self.packaged.client_argv(name), self.packaged.server_argv(name)
            return self._with_own(name, self.packaged.version(name), "unpacked", *argv)
        if self.source is None:
            return self
        version = self.source.version(name)
        if version is None and self.source.archive is None:
            return self
        argv = self.source.argv(name, self.source.request), self.source.argv(name, self.source.serve)
        return self._with_own(name, version, "built", *argv)

    def _with_own(
        self, name: str, version: str | None, done: str, request: list[str], serve: list[str]
    ) -> StackFile:
        """Return the stack with its own programs and these arguments; no server if `serve` is empty."""
        missing = None if version else f"{name} is not {done}: run `make testbed-setup`"
        answers = own_program.command(name, version or "unknown", request)
        serves = served_by(serve)
        changed = self.source is not None and bool(self.source.change)
        update = {
            "client": Program(own=tuple(answers), missing=missing),
            "server": ServerProgram(own=tuple(serves), missing=missing, patched=changed) if serve else None,
            "version": Version(source=version),
            "unavailable": None,
        }
        # Validation would reject client and server together with `packaged` or `source`.
        return self.model_copy(update=update)

    def folders(self, name: str) -> list[Path]:
        """Return the folders outside the checkout that contain its programs."""
        if self.packaged is not None:
            return [self.packaged.folder(name)]
        return [self.source.folder(name)] if self.source is not None and self.client is not None else []

    @property
    def programs(self) -> tuple[Program, ...]:
        """Return the client's programs."""
        return tuple(program for program in (self.client, self.logging) if program is not None)

    def client_command(self, *, logged: bool) -> list[str]:
        """Return the client's argument list; `logged`: for the program that writes a log.

        UsageError if the program is not built.
        """
        program = self.logging if logged and self.logging is not None else self.client
        assert program is not None
        return program.command()

    def missing(self) -> list[str]:
        """Return a sentence for each missing prerequisite of the client and the server."""
        commands = [program.command for program in self.programs] + (
            [self.server_command] if self.server else []
        )
        missing_parts = []
        for command in commands:
            try:
                command()
            except UsageError as error:
                missing_parts.append(str(error))
        return list(dict.fromkeys(missing_parts))

    @property
    def transport(self) -> Transport:
        """Return the transport of its client and server."""
        return transport(self.alpn[0])

    def protocol(self, asked: Protocol | None) -> Protocol:
        """Return the protocol of its client in a cell that asks for `asked`; `None`: for no protocol."""
        return asked or self.alpn[0]

    def server_speaks(self, alpn: Protocol) -> bool:
        """Return whether its server supports a protocol."""
        if isinstance(self.server, ServerProgram):
            return alpn in self.alpn
        return self.server is not None and alpn in lab_stacks.find(self.server).alpn

    def server_command(self) -> list[str]:
        """Return the argument list that starts its server, without `--config FILE`.

        UsageError if the server is not built.
        """
        if isinstance(self.server, ServerProgram):
            return self.server.command()
        given = lab_stacks.find(str(self.server)).command(Path("server.json"))
        return list(given[: given.index("--config")])

    @property
    def server_version(self) -> str | None:
        """Return the server's version for testbed_trial; `None` if unknown.

        A program reports the version that it was built with. A new build may use another version.
        """
        known = self.version.known()
        if isinstance(self.server, ServerProgram):
            built = self.server.program is not None
            known = self.server.version.known() if self.server.version else known
        else:
            built = self.server is not None and lab_stacks.find(self.server).program is not None
        if built:
            with contextlib.suppress(UsageError):
                known = built_with(self.server_command()[0])
        changed = isinstance(self.server, ServerProgram) and self.server.patched
        return f"{known}+changed" if known and changed else known

    @property
    def server_build(self) -> str | None:
        """Return how its server was built, in the form of testbed_trial; `None` without a server."""
        if self.server is None:
            return None
        own = isinstance(self.server, ServerProgram) or lab_stacks.find(self.server).program
        return "release" if own else "python"


@cache
def load(folder: Path = FOLDER) -> dict[str, StackFile]:
    """Return a sorted mapping from name to stack. UsageError if a file is invalid."""
    files = sorted(folder.glob("*.toml"))
    return {file.stem: toml_file.read(file, StackFile).here(file.stem) for file in files}


def find(name: str) -> StackFile:
    """Return a stack; UsageError lists all stacks."""
    if name not in load():
        raise UsageError(f"there is no stack {name!r} in testbed/stacks, only {', '.join(load())}")
    return load()[name]
