"""The rule files of a stage (CDN map, block and opt-out lists): what may be sent, and what rows say of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from firstflight.as_map import CDN_MAP_FILE
from firstflight.egress import lists
from firstflight.errors import InputError
from firstflight.run.run import Run
from firstflight.system import files


def rule_files(run: Run) -> list[Path]:
    """The rule files in force, in the order in which they are hashed: CDN map, block lists, opt-out lists."""
    probe = run.settings.probe
    found = [run.layout.as_data / CDN_MAP_FILE, *probe.blocklist, *probe.optout]
    for path in found:
        if not path.is_file():
            raise InputError(f"there is no {path}; nothing was sent")
    return found


def check_lists(run: Run) -> None:
    """UsageError, with file and line, if a block or opt-out list of the run is not understood as a whole.

    The prober reads them again; this is so that a stage refuses before it asks or starts anything.
    """
    lists.check(run.settings.probe.blocklist, run.settings.probe.optout)


def keep(run: Run, rules: Sequence[Path]) -> None:
    """Keep a copy of each rule file with the run, named by its content, so that a `ruleset` can be read."""
    for path in rules:
        kept = run.layout.rule_copy(files.sha256_of(path), path.name)
        if not kept.exists():
            with files.replacing(kept) as temporary:
                shutil.copyfile(path, temporary)
