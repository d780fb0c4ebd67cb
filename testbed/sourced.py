"""A client that is built from a folder of its stack's source, which the user names.

For stacks that no package registry has. `make testbed-setup SOURCE=NAME=FOLDER` builds it into the user's
cache folder by the commands of its manifest ([source] in testbed/stacks/NAME.toml). As a client this module
answers requests (downloader/clients/contract.py) by the stack's own program, a run for each:

python -m testbed.sourced NAME/VERSION COMMAND... [KIND=LIST...]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from downloader.clients import shared
from downloader.clients.contract import Answer, Request
from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.system.files import explain_os_errors
from firstflight.system.lock import locked
from testbed import compiler
from testbed.folder import cache

_VERSION = "built-from"
_LISTS = ("blocklist=", "optout=", "allow-net=")


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
        """Return of which version of its source NAME is built; None if it is not built to the end."""
        out = _out(name)
        try:
            # Written last: a program without it is of a build that failed, or goes on.
            version = (out / _VERSION).read_text(encoding="utf-8").strip()
        except OSError:
            return None
        return version if (out / self.program).is_file() else None

    def command(self, name: str) -> list[str] | None:
        """Return the argument list of the client NAME; None if it is not built."""
        version = self.version(name)
        if version is None:
            return None
        given = [_filled(one, program=str(_out(name) / self.program)) for one in self.request]
        return [sys.executable, "-P", "-m", "testbed.sourced", f"{name}/{version}", *given]


def build(name: str, source: Source, folder: Path, jobs: int) -> Path:
    """Build a stack from `folder` and return its program; what was built before is replaced.

    InputError if `folder` is none; FirstflightError if a command fails, or leaves no program.
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
            compiler.run([_filled(one, **names) for one in step], folder, f"the stack {name} needs it")
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
    # The folder's own: not the repository that an unpacked source is in, nor the one whose hook this is.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_CEILING_DIRECTORIES"] = str(folder.resolve().parent)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    except OSError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else "unknown"


def _filled(text: str, **names: str) -> str:
    """Return a text with the names in braces that are known; others stay."""
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def answer(request: Request, command: list[str]) -> Answer:
    """Send a request by the stack's own program, and return how that ended."""
    names: Mapping[str, str] = {
        "host": request.host,
        "ip": request.ip,
        "port": str(request.port),
        "path": request.path,
        "roots": request.roots,
    }
    argv = [_filled(one, **names) for one in command]
    began, begun = time.time_ns(), time.monotonic()
    end, detail = "complete", None
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=request.timeout_s, check=False
        )
        if done.returncode:
            lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
            end, detail = "failed", f"status {done.returncode}: {(lines or ['it gave no reason'])[-1]}"
    except subprocess.TimeoutExpired:
        end, detail = "timeout", "timed out"
    except OSError as error:
        end, detail = "failed", f"{argv[0]}: {error.strerror}"
    took_us = round((time.monotonic() - begun) * 1e6)
    return Answer(end=end, detail=detail, started_at=began, duration_us=took_us)


def _say(answer: Answer) -> None:
    """Write an answer; without the bytes of a body, which nobody counts here."""
    known = {name: value for name, value in asdict(answer).items() if name != "body_bytes"}
    sys.stdout.write(json.dumps(known, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Answer requests until standard input ends; return the exit status."""
    lists = [one for one in arguments if one.startswith(_LISTS)]
    version, *command = [one for one in arguments if one not in lists]
    try:
        permitted = shared.permitted(lists)
        shared.say_ready(version)
        for line in sys.stdin:
            try:
                request = Request.of(line)
            except (TypeError, ValueError) as error:
                raise UsageError(f"{line.strip()!r} is no request: {error}") from error
            why = shared.why_not(permitted, request.ip, request.host)
            _say(Answer("blocked", why) if why is not None else answer(request, command))
    except FirstflightError as error:
        sys.stderr.write(f"testbed.sourced: {error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
