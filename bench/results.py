"""Result files of benches: `--result FILE` also writes the values of a run, for the tables in docs/.

A file has the format of `firstflight testbed show NAME --format json`: the values (`lines`), the command
line, the date, the machine and the versions of the software. deploy/docs/results.py writes the tables of the
pages from docs/results; docs/results/tables.toml names the columns.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from firstflight.run.provenance import tool_version

Line = dict[str, Any]
# Values keep this number of significant digits.
_DIGITS = 4
Versions = Mapping[str, Mapping[str, Sequence[str]]]
"""Versions by role and software, for example `{"client": {"quinn": ["0.11.12"]}}`."""


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option `--result FILE`."""
    parser.add_argument(
        "--result", type=Path, metavar="FILE", help="also write the values to FILE (JSON), as in docs/results"
    )


@dataclass(frozen=True)
class Values:
    """Values with their goals, the lines of most result files."""

    lines: list[Line] = field(default_factory=list)

    def add(
        self,
        what: str,
        measured: float | None,
        unit: str | None = None,
        *,
        least: float | None = None,
        most: float | None = None,
        of: Sequence[float] = (),
    ) -> bool:
        """Add a value; return whether it meets its goal, as a value without a goal does.

        `measured`: `None` if unknown, which misses a goal; `least`, `most`: the goal; `of`: the values of
        several rounds, whose range the file also keeps.
        """
        if measured is None:
            met = least is None and most is None
        else:
            met = (least is None or measured >= least) and (most is None or measured <= most)
        self.lines.append(
            {
                "what": what,
                "measured": _rounded(measured),
                "low": _rounded(min(of, default=None)),
                "high": _rounded(max(of, default=None)),
                "unit": unit,
                "least": least,
                "most": most,
                "missed": None if met else "missed",
            }
        )
        return met


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")


@dataclass(frozen=True)
class ResultFile:
    """The result file of a benchmark run. If `path` is `None`, nothing is written.

    `name`: the result's name; `command`: the command line; `earlier`: the content of an existing file;
    `load_at_start`, `firstflight`: the one-minute load average and the version when the run began.
    """

    name: str
    command: str
    path: Path | None = None
    earlier: Mapping[str, Any] | None = None
    load_at_start: float = field(default_factory=lambda: os.getloadavg()[0])
    firstflight: str = field(default_factory=tool_version)

    def write(self, lines: Sequence[Line], versions: Versions, *, after_earlier: bool = False) -> None:
        """Write the file with these lines only. OutputError if this fails.

        `after_earlier`: the lines include earlier values, so the earlier commands stay in the file.
        """
        commands = [*self._earlier("commands"), self.command] if after_earlier else [self.command]
        self._save(self._head(commands, versions) | {"lines": list(lines)})

    def _earlier(self, key: str) -> list[Any]:
        return list(self.earlier[key]) if self.earlier is not None else []

    def _head(self, commands: Sequence[str], versions: Versions) -> dict[str, Any]:
        load = f"load {self.load_at_start:.1f} at the start, {os.getloadavg()[0]:.1f} at the end"
        return {
            "result": self.name,
            "commands": list(commands),
            "measured_on": datetime.now(UTC).date().isoformat(),
            "firstflight": [self.firstflight],
            "kernel": [f"linux-{os.uname().release}"],
            "machine": f"{os.cpu_count()} processors ({_processor()}), {load}",
            "versions": versions,
        }

    def _save(self, content: Mapping[str, Any]) -> None:
        if self.path is None:
            return
        # Imported late: the kernel also charges measured programs the memory of this process (process.py).
        from firstflight.system import files
        from testbed import result_file

        files.write_text(self.path, result_file.text(content))
        print(f"wrote {self.path}", flush=True)


def begin(
    parser: argparse.ArgumentParser, path: Path | None, name: str, arguments: Sequence[str] | None = None
) -> ResultFile:
    """Return the result file for a run that begins now; `path`: the value of `--result`.

    `arguments`: the bench's arguments (default: of this process). Exits with a usage error if the folder does
    not exist, or if the file exists and has another result.
    """
    prog = parser.prog if parser.prog.startswith("python ") else f"python -m {parser.prog}"
    command = f"{prog} {shlex.join(sys.argv[1:] if arguments is None else arguments)}".strip()
    earlier = None
    if path is not None and not path.parent.is_dir():
        parser.error(f"--result {path}: the folder {path.parent} does not exist; create it")
    if path is not None and path.exists():
        try:
            earlier = json.loads(path.read_text(encoding="utf-8"))
            known = earlier["result"]
        except (OSError, ValueError, TypeError, KeyError):
            known = None
        if known != name:
            parser.error(
                f"--result {path}: the file exists and does not have the result {name}; name another file"
            )
    return ResultFile(name, command, path, earlier)


def packages(*names: str) -> Versions:
    """Return the versions of these Python packages and of Python."""
    software = {name: [version(name)] for name in sorted(names)}
    return {"software": software | {"python": [".".join(map(str, sys.version_info[:3]))]}}


def _processor() -> str:
    """Return the processor's name (Linux), or the machine's type."""
    with Path("/proc/cpuinfo").open(encoding="utf-8") as known:
        names = [line.partition(":")[2].strip() for line in known if line.startswith("model name")]
    return names[0] if names else os.uname().machine
