"""A stage's rule files: CDN map, CDN rules, block lists and opt-out lists."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from firstflight.as_map import CDN_MAP_FILE
from firstflight.cdn import rules as cdn_rules
from firstflight.egress import lists
from firstflight.errors import InputError
from firstflight.run.run import Run
from firstflight.system import files


def rule_files(run: Run, *, cdn_by_answer: bool = False) -> list[Path]:
    """Return the rule files in force, in hash order: CDN map, block lists, opt-out lists.

    `cdn_by_answer`: the stage also identifies CDNs by names, headers and certificates. Its rules come last.
    Raise InputError if a file is missing.
    """
    probe = run.settings.probe
    paths = [run.layout.as_data / CDN_MAP_FILE, *probe.blocklist, *probe.optout]
    if cdn_by_answer:
        paths.append(cdn_rules.in_force(run.layout.as_data))
    for path in paths:
        if not path.is_file():
            raise InputError(f"there is no {path}; nothing was sent")
    return paths


def check_lists(run: Run) -> None:
    """Check all lines of the run's block and opt-out lists. Raise InputError with file and line of a fault.

    The prober checks them again. This check rejects a bad list before names are resolved or processes
    started.
    """
    lists.check(run.settings.probe.blocklist, run.settings.probe.optout)


def copy_into_run(run: Run, rules: Sequence[Path]) -> None:
    """Copy each rule file to the run, with the hash in the name, so that a `ruleset` can be looked up."""
    for path in rules:
        copy = run.layout.rule_copy(files.sha256_of(path), path.name)
        if not copy.exists():
            with files.replacing(copy) as temporary:
                shutil.copyfile(path, temporary)
