"""`firstflight lab exec`: replaces its process with a program on one of the lab's hosts.

No process stays in between, so exit status, signals, terminal and working directory belong to the program.
Imports little, because every stage in a lab campaign starts through this module.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from firstflight.errors import UsageError
from lab.state import Record, StateFolder
from lab.system import namespaces


def enter_host(record: Record, host: str) -> None:
    """Move this single-threaded process to a host of the lab; the working directory stays the same."""
    working_folder = Path.cwd()
    of_lab = f"/proc/{record.pid}/ns"
    try:
        if record.rootless:
            namespaces.enter(f"{of_lab}/user", namespaces.CLONE_NEWUSER)
            namespaces.keep_capabilities()
        namespaces.enter(f"{of_lab}/mnt", namespaces.CLONE_NEWNS)
        namespaces.enter(namespaces.NETNS / host, namespaces.CLONE_NEWNET)
    except PermissionError as error:
        raise UsageError("this user may not enter the lab; use the user who started it") from error
    except FileNotFoundError as error:
        raise UsageError("the lab has just stopped; start it with `firstflight lab up`") from error
    os.chdir(working_folder)


def host_in(command: Sequence[str]) -> str | None:
    """Return the lab's host that a command enters (`... lab exec [--state DIR] HOST ...`), else `None`."""
    words = list(command)
    for position in range(len(words) - 2):
        if words[position : position + 2] == ["lab", "exec"]:
            arguments = words[position + 2 :]
            while arguments and arguments[0].startswith("--"):
                arguments = arguments[1 if "=" in arguments[0] else 2 :]
            return arguments[0] if arguments else None
    return None


def is_on_host(host: str) -> bool | None:
    """Return whether this process is on that lab host; `None` if there is no such namespace."""
    try:
        return (namespaces.NETNS / host).samefile("/proc/self/ns/net")
    except OSError:
        return None


def environment(state: StateFolder) -> dict[str, str]:
    """Return the additional variables for a program in the lab: it trusts only the lab's authority.

    The PATH includes `firstflight` and the administrator's programs, which may be missing from the user's
    PATH.
    """
    bin_folder = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), bin_folder, "/usr/sbin", "/sbin"]),
        "SSL_CERT_FILE": str(state.authority),
        "REQUESTS_CA_BUNDLE": str(state.authority),
        "CURL_CA_BUNDLE": str(state.authority),
    }


def execute(state: StateFolder, host: str, argv: Sequence[str]) -> NoReturn:
    """Replace this process by a program on a host; UsageError if there is no such host or program."""
    record = state.require()
    if host not in record.hosts:
        raise UsageError(f"the lab has no host {host!r}; its hosts are {', '.join(record.hosts)}")
    enter_host(record, host)
    try:
        os.execvpe(argv[0], list(argv), {**os.environ, **environment(state)})
    except FileNotFoundError as error:
        raise UsageError(f"the program {argv[0]} was not found; name its path") from error
    except PermissionError as error:
        raise UsageError(f"the program {argv[0]} may not be run by this user") from error
