"""Resolves names for an engine, with `firstflight-resolve`, and writes the target list."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from cli.engines.arguments import Arguments
from firstflight.host_names import normalise
from firstflight.system import children
from firstflight.system.binaries import find

# Options of the engine that the resolver's program has, too.
_SHARED = ("--resolver", "--blocklist", "--optout", "--allow-net", "--contact")
HEADER = "ip,domain,port\n"


@dataclass
class ResolvedNames:
    """Resolved names: `targets` (address, name), aliases per name, and reasons for names without address."""

    targets: list[tuple[str, str]] = field(default_factory=list)
    aliases: dict[str, list[str]] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)

    def as_list(self, port: int) -> str:
        """Return the target list of an engine."""
        return HEADER + "".join(f"{ip},{domain},{port}\n" for ip, domain in self.targets)


def is_address(text: str) -> bool:
    """Return whether `text` is an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def checked(given: Sequence[str]) -> list[str]:
    """Return names as they are resolved, and addresses, each once. NotAName for anything else."""
    return list(dict.fromkeys(text if is_address(text) else normalise(text) for text in given))


def resolve(names: Iterable[str], given: Arguments) -> ResolvedNames:
    """Resolve `names` to all of their addresses, as `firstflight resolve` does; an address is a target.

    Exits with the status of the resolver's program, which prints the reason, if it fails.
    """
    found = ResolvedNames()
    all_names = list(names)
    to_resolve = [name for name in all_names if not is_address(name)]
    rows: dict[str, list[dict[str, object]]] = {name: [] for name in to_resolve}
    for line in _answers(to_resolve, given) if to_resolve else ():
        row = json.loads(line)
        rows.setdefault(row["domain"], []).append(row)
    for name in all_names:
        if name not in rows:
            found.targets.append((name, ""))
            continue
        answered = [row for row in rows[name] if row["address"] is not None]
        for row in sorted(answered, key=lambda row: str(row["qtype"])):
            found.targets.append((str(row["address"]), name))
            found.aliases[name] = list(map(str, row["cname_chain"]))  # type: ignore[call-overload]
        if not answered:
            statuses = dict.fromkeys(str(row["status"]) for row in rows[name])
            found.without[name] = ", ".join(statuses) or "not asked"
    found.targets = list(dict.fromkeys(found.targets))
    return found


def plan(names: Sequence[str], given: Arguments) -> None:
    """Print which resolvers would be asked, and exit if they are wrong; sends nothing."""
    _run(names, given, "--dry-run")


def in_memory(text: str) -> BinaryIO:
    """Return an open file in memory with `text`, positioned at its start."""
    file = os.fdopen(os.memfd_create("firstflight"), "w+b")
    file.write(text.encode())
    file.seek(0)
    return file


def _answers(names: Sequence[str], given: Arguments) -> list[str]:
    return _run(names, given, "--types=A,AAAA", "--format=jsonl")


def _run(names: Sequence[str], given: Arguments, *more: str) -> list[str]:
    argv = [str(find("firstflight-resolve")), "--names=-", *given.only(*_SHARED), *more]
    with in_memory("".join(f"{name}\n" for name in names)) as names_file:
        process = children.start(argv, stdin=names_file, stdout=subprocess.PIPE)
        output, _ = children.wait_for_exit(process)
    if process.returncode not in (0, 1):
        sys.exit(process.returncode)
    return output.decode().splitlines()
