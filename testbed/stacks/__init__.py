"""The stacks of the testbed. A file NAME.toml for each describes how to start its client and server.

client      {module = "..."} or {program = "firstflight-..."}: takes requests on standard input as
            downloader/clients/contract.py describes them, and the lists in force as arguments;
            `wheel = true`: the stack is a library inside a wheel; `package = FOLDER`: the program is a
            separate Cargo or Maven package there, which `make testbed-setup` builds;
            `programs = [...]`: programs that it runs, which must be on the PATH
server      a folder of lab/stacks whose server has the modes `iack` and `wait`, or {program =
            "firstflight-..."}, a testbed-only server, which takes one endpoint of the lab's configuration;
            `patched = true`: it is one of testbed/patched
version     the source of the version: {python = DISTRIBUTION}, {cargo = CRATE}, {go = MODULE},
            {maven = ARTIFACT} in testbed/clients/ARTIFACT/pom.xml, {debian = PACKAGE} if installed,
            or {libcurl = LIBRARY} for a library that libcurl is built with; `lock`: the lock file with the
            crate, if it is not the workspace's. Stacks with `source` or `packaged` report their version
alpn        the client's protocol; default: h3
http        the value of `http` in the client's requests; default: 3
bodies      true: its server sends response bodies of a length that the cell chooses
certificate_keys  kinds of keys that its server signs with; default: all kinds that a cell may have
controllers the server's congestion controllers
ack_requests  the reordering behaviours that its server can request by ACK_FREQUENCY; empty: its server
            sends no such frame
answers     the answers of its server; default: both. A server without `iack` cannot wait for a certificate
gso         true: its server can send several datagrams as one; `always`: it cannot turn this off
qlog        true: its client writes a qlog file of each connection into the folder QLOGDIR
logging     the program that writes qlog files, if the client is built without qlog
launch_times  true: its server sets the time at which fq and etf send each datagram, including datagrams
            sent as one
server_log  true: its server writes the launch time of each datagram, and its congestion window
polls       true: its client polls without reading a clock, so a guest's clock advances while it computes.
            Runs of its cells are not reproducible
unavailable why client and server are unavailable; each of its trials has the outcome `unavailable`
source      how to build its client from a source folder (from_source.py); `unavailable` until then
packaged    its own client and server in Debian packages, which `make testbed-setup` unpacks
            (testbed/stacks/packaged.py)
"""

from __future__ import annotations

import contextlib
import sys
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator

from firstflight.errors import UsageError
from lab import stacks as lab_stacks
from testbed import toml_file
from testbed.choices import Answering, CertificateKey, Controller, Reordering
from testbed.stacks import own_program
from testbed.stacks.from_source import Source
from testbed.stacks.packaged import Packaged
from testbed.stacks.program import Program, Server
from testbed.stacks.version import Version, built_with

FOLDER = Path(__file__).parent


class Stack(BaseModel):
    """A file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    client: Program | None = None
    logging: Program | None = None
    server: str | Server | None = None
    version: Version = Version()
    http: str = "3"
    alpn: str = "h3"
    bodies: bool = False
    certificate_keys: tuple[CertificateKey, ...] = ("ecdsa_p256", "rsa_2048")
    controllers: tuple[Controller, ...] = ()
    ack_requests: tuple[Reordering, ...] = ()
    answers: tuple[Answering, ...] = ("iack", "wfc")
    gso: bool | Literal["always"] = False
    launch_times: bool = False
    server_log: bool = False
    qlog: bool = False
    polls: bool = False
    unavailable: str | None = None
    source: Source | None = None
    packaged: Packaged | None = None

    @model_validator(mode="after")
    def _has_something(self) -> Stack:
        if self.packaged is not None:
            if any(one is not None for one in (self.client, self.server, self.source, self.unavailable)):
                raise ValueError("`packaged` is client and server: give no other, nor `unavailable`")
        elif (self.unavailable is None) == (self.client is None and self.server is None):
            raise ValueError("give `client`, `server` or both, or else `unavailable`")
        if self.logging is not None and not self.qlog:
            raise ValueError("`logging` is a client that writes a log: give `qlog`, too")
        if self.source is not None and self.unavailable is None:
            raise ValueError("`source` needs `unavailable`, for as long as nothing is built of it")
        return self

    def here(self, name: str) -> Stack:
        """Return the stack with the client built from source, or with the programs from packages."""
        if self.packaged is not None:
            return self._unpacked(name, self.packaged)
        command = self.source.command(name) if self.source is not None else None
        if self.source is None or command is None:
            return self
        client = Program(own=tuple(command))
        version = Version(source=self.source.version(name))
        return self.model_copy(update={"client": client, "version": version, "unavailable": None})

    def _unpacked(self, name: str, packaged: Packaged) -> Stack:
        version = packaged.version(name)
        missing = None if version else f"{name} is not unpacked: run `make testbed-setup`"
        answers = own_program.command(name, version or "unknown", packaged.client_argv(name))
        serves = [sys.executable, "-P", "-m", "testbed.stacks.own_server", *packaged.server_argv(name)]
        update = {
            "client": Program(own=tuple(answers), missing=missing),
            "server": Server(own=tuple(serves), missing=missing),
            "version": Version(source=version),
        }
        # Validation would reject client and server together with `packaged`.
        return self.model_copy(update=update)

    def folders(self, name: str) -> list[Path]:
        """Return the folders outside the checkout that contain its programs."""
        if self.packaged is not None:
            return [self.packaged.folder(name)]
        return [self.source.folder(name)] if self.source is not None and self.client is not None else []

    @property
    def programs(self) -> tuple[Program, ...]:
        """Return the client's programs."""
        return tuple(one for one in (self.client, self.logging) if one is not None)

    def client_command(self, *, logged: bool) -> list[str]:
        """Return the client's argument list; `logged`: for the program that writes a log.

        UsageError if the program is not built.
        """
        chosen = self.logging if logged and self.logging is not None else self.client
        assert chosen is not None
        return chosen.command()

    def missing(self) -> list[str]:
        """Return a sentence for each missing prerequisite of the client and the server."""
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
        if isinstance(self.server, Server):
            return alpn == "h3"
        return self.server is not None and alpn in lab_stacks.find(self.server).alpn

    def server_command(self) -> list[str]:
        """Return the argument list that starts its server, without `--config FILE`.

        UsageError if the server is not built.
        """
        if isinstance(self.server, Server):
            return self.server.command()
        given = lab_stacks.find(str(self.server)).command(Path("server.json"))
        return list(given[: given.index("--config")])

    @property
    def server_version(self) -> str | None:
        """Return the server's version for testbed_trial; None if unknown.

        A program reports the version it was built with. A new build might use another version.
        """
        known = self.version.known()
        if isinstance(self.server, Server):
            built = self.server.program is not None
        else:
            built = self.server is not None and lab_stacks.find(self.server).program is not None
        if built:
            with contextlib.suppress(UsageError):
                known = built_with(self.server_command()[0])
        changed = isinstance(self.server, Server) and self.server.patched
        return f"{known}+changed" if known and changed else known

    @property
    def server_build(self) -> str | None:
        """Return how its server was built, as testbed_trial has it; None without one."""
        if self.server is None:
            return None
        own = isinstance(self.server, Server) or lab_stacks.find(self.server).program
        return "release" if own else "python"


@cache
def load(folder: Path = FOLDER) -> dict[str, Stack]:
    """Return all stacks, keyed and sorted by name. UsageError if a file is invalid."""
    files = sorted(folder.glob("*.toml"))
    return {file.stem: toml_file.read(file, Stack).here(file.stem) for file in files}


def find(name: str) -> Stack:
    """Return a stack; UsageError names all there are."""
    if name not in load():
        raise UsageError(f"there is no stack {name!r} in testbed/stacks, only {', '.join(load())}")
    return load()[name]
