"""Folders that the playbook writes to: it creates them, or Debian's packages have them."""

from __future__ import annotations

import subprocess
from pathlib import PurePosixPath
from typing import Any

import pytest

from tests.deploy.site.test_users import tasks

# base-files makes it when it is configured, so no package lists it.
LOCAL = "/usr/local/sbin"


def places(task: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the state that a task asks for, `file` by default, and the paths that it writes."""
    for module in ("copy", "template", "file"):
        written = task.get(f"ansible.builtin.{module}")
        if written:
            place = str(written.get("dest") or written["path"])
            found = task["loop"] if place == "{{ item.path }}" else [{"path": place}]
            return written.get("state", "file"), [item["path"] for item in found]
    return "", []


def without_folder(found: list[dict[str, Any]]) -> set[str]:
    """Return the folders that these tasks write to, and that neither tasks nor packages create."""
    written: set[str] = set()
    created = {LOCAL}
    for task in found:
        state, paths = places(task)
        if state in ("file", "link"):
            # The module makes a folder whose path ends so.
            written |= {str(PurePosixPath(path).parent) for path in paths if not path.endswith("/")}
        elif state == "directory":
            created |= {str(folder) for path in paths for folder in (path, *PurePosixPath(path).parents)}
    owned = subprocess.run(
        ["dpkg-query", "--search", *sorted(written - created)], capture_output=True, text=True, check=False
    )
    return written - created - {line.rpartition(": ")[2] for line in owned.stdout.splitlines()}


def test_each_file_of_the_playbook_has_a_folder() -> None:
    assert without_folder(list(tasks())) == set()


@pytest.mark.parametrize("folder", ["/etc/sysusers.d", "/etc/firstflight/contact"])
def test_a_folder_that_nobody_creates_is_found(folder: str) -> None:
    kept = [task for task in tasks() if places(task) != ("directory", [folder])]
    assert without_folder(kept) == {folder}
