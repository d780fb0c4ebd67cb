"""The rule files of a stage: CDN map, CDN rules, block lists and opt-out lists."""

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

    `cdn_by_answer`: the stage tells CDNs by names, headers and certificates, too, so their rules come last.
    InputError if a file is missing.
    """
    probe = run.settings.probe
    found = [run.layout.as_data / CDN_MAP_FILE, *probe.blocklist, *probe.optout]
    if cdn_by_answer:
        found.append(cdn_rules.in_force(run.layout.as_data))
    for path in found:
        if not path.is_file():
            raise InputError(f"there is no {path}; nothing was sent")
    return found


def check_lists(run: Run) -> None:
    """Check every line of the run's block and opt-out lists; InputError with file and line of a fault.

    The prober checks them again; checking here rejects a bad list before anything is resolved or started.
    """
    lists.check(run.settings.probe.blocklist, run.settings.probe.optout)


def copy_into_run(run: Run, rules: Sequence[Path]) -> None:
    """Copy each rule file into the run, named by its hash, so that a `ruleset` can be looked up later."""
    for path in rules:
        kept = run.layout.rule_copy(files.sha256_of(path), path.name)
        if not kept.exists():
            with files.replacing(kept) as temporary:
                shutil.copyfile(path, temporary)
