"""Results to keep: an experiment's lines with commands, date, versions and outcomes, as one JSON object.

`firstflight testbed show EXPERIMENT --format json` prints it. docs/results has such files, and
deploy/docs/results.py writes the tables of the pages from them.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from firstflight.system import terminal
from testbed import repeat_commands
from testbed.experiment.experiment import Experiment
from testbed.trials import versions
from testbed.trials.captures import block_files
from testbed.trials.trial_row import TrialRow


def of_trials(
    name: str,
    found: Mapping[str, tuple[Experiment, Sequence[TrialRow]]],
    out: Path,
    lines: Iterable[Mapping[str, Any]],
    scenario: Path | None = None,
) -> dict[str, Any]:
    """Return the content of the file for the result `name`.

    `found`: the experiments below `out` and their rows; `lines`: the lines of `--format jsonl`; `scenario`:
    the experiment's file, if it is not one of the testbed's. `measured_on` is the date (UTC) of the newest
    trials' file.
    """
    rows = [row for _, experiment_rows in found.values() for row in experiment_rows]
    argument = shlex.quote(name) if scenario is None else f"--scenario {shlex.quote(str(scenario))}"
    arguments = {shlex.quote(source) if scenario is None else argument: found[source] for source in found}
    return {
        **computed(name, lines),
        "commands": repeat_commands.commands(argument, arguments, verified=False),
        "measured_on": _newest(out / source for source in found),
        "firstflight": _values(rows, "tool_version"),
        "kernel": _values(rows, "kernel"),
        "versions": {side: _versions(rows, side) for side in ("client", "server")},
        "trials": dict(sorted(Counter(row["outcome"] for row in rows).items())),
    }


def computed(name: str, lines: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the content of the file for a computed result, which has no trials and no date."""
    return {
        "result": name,
        "commands": [f"firstflight testbed show {shlex.quote(name)}"],
        "lines": [dict(line) for line in lines],
    }


def text(content: Mapping[str, Any]) -> str:
    """Return the content as JSON, with each line of the results on a line."""
    head = [f'  "{name}": {terminal.as_json(value)},\n' for name, value in content.items() if name != "lines"]
    lines = ",\n".join(f"    {terminal.as_json(line)}" for line in content["lines"])
    return "".join(["{\n", *head, '  "lines": [\n', lines, "\n  ]\n}\n"])


def _newest(folders: Iterable[Path]) -> str | None:
    times = [path.stat().st_mtime for folder in folders for path in folder.glob(f"*/*/{block_files.ROWS}")]
    return datetime.fromtimestamp(max(times), UTC).date().isoformat() if times else None


def _values(rows: Sequence[TrialRow], column: str) -> list[str]:
    return sorted({str(row[column]) for row in rows if row[column] is not None})


def _versions(rows: Sequence[TrialRow], side: str) -> dict[str, list[str]]:
    known: dict[str, list[str]] = {}
    for stack, of_side, version in sorted(versions.of(rows)):
        if of_side == side:
            known.setdefault(stack, []).append(version)
    return known
