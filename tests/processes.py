"""Finds processes of the programs under test."""

from __future__ import annotations

from pathlib import Path


def children(pid: int, program: str) -> list[int]:
    """Return the children of `pid` that run `program`."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            name = (folder / "exe").readlink().name
        except OSError:
            continue
        if name == program and parent == pid:
            found.append(int(folder.name))
    return found


def child(pid: int, program: str) -> int:
    """Return the only child of `pid` that runs `program`."""
    (one,) = children(pid, program)
    return one
