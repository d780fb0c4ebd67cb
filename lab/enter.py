"""`firstflight lab exec`: becomes a program on one of the lab's hosts.

No process stays in between: exit status, signals, terminal and working directory are the program's own.
Light on imports, because every stage of a lab campaign starts through here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from firstflight.errors import UsageError
from lab import namespaces
from lab.state import Record, State


def enter_host(record: Record, host: str) -> None:
    """Move this process (with one thread) to a host of the lab; the working directory stays."""
    here = Path.cwd()
    of_lab = f"/proc/{record.pid}/ns"
    try:
        if record.rootless:
            namespaces.enter(f"{of_lab}/user", namespaces.CLONE_NEWUSER)
            namespaces.keep_capabilities()
        namespaces.enter(f"{of_lab}/mnt", namespaces.CLONE_NEWNS)
        namespaces.enter(namespaces.NETNS / host, namespaces.CLONE_NEWNET)
    except PermissionError as error:
        raise UsageError("this user may not enter the lab; use the user who raised it") from error
    except FileNotFoundError as error:
        raise UsageError("the lab has just gone down; raise it with `firstflight lab up`") from error
    os.chdir(here)


def host_in(command: Sequence[str]) -> str | None:
    """The lab's host that a command leads to (`... lab exec [--state DIR] HOST ...`), if it does."""
    words = list(command)
    for place in range(len(words) - 2):
        if words[place : place + 2] == ["lab", "exec"]:
            rest = words[place + 2 :]
            while rest and rest[0].startswith("--"):
                rest = rest[1 if "=" in rest[0] else 2 :]
            return rest[0] if rest else None
    return None


def is_on(host: str) -> bool | None:
    """Whether this process is on that host of the lab; None if no namespace of that name is in sight."""
    try:
        return (namespaces.NETNS / host).samefile("/proc/self/ns/net")
    except OSError:
        return None


def environment(state: State) -> dict[str, str]:
    """Give the variables a program in the lab needs besides ours: only the lab's authority counts.

    `firstflight` and the programs of an administrator are found there without being on the user's path.
    """
    here = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), here, "/usr/sbin", "/sbin"]),
        "SSL_CERT_FILE": str(state.authority),
        "REQUESTS_CA_BUNDLE": str(state.authority),
        "CURL_CA_BUNDLE": str(state.authority),
    }


def execute(state: State, host: str, argv: Sequence[str]) -> NoReturn:
    """Run a program on a host in place of this process; `UsageError` if there is no such host or program."""
    record = state.require()
    if host not in record.hosts:
        raise UsageError(f"no host {host!r} in the lab; there are {', '.join(record.hosts)}")
    enter_host(record, host)
    try:
        os.execvpe(argv[0], list(argv), {**os.environ, **environment(state)})
    except FileNotFoundError as error:
        raise UsageError(f"the program {argv[0]} was not found; name its path") from error
    except PermissionError as error:
        raise UsageError(f"the program {argv[0]} may not be run by this user") from error
