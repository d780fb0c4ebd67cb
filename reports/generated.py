"""Writes generated files into a folder, for programs that read configuration from files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from firstflight.errors import FirstflightError
from firstflight.system import files, terminal


def write(folder: Path, contents: Mapping[str, str]) -> None:
    """Write `contents` (path below `folder` -> text). FirstflightError: a file cannot be written."""
    for name, text in contents.items():
        files.write_text(folder / name, text, lasting=False)


def main(program: str, contents: Callable[[], Mapping[str, str]]) -> int:
    """Write the files of `python -m PROGRAM FOLDER`; return the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to write the files")
    folder = parser.parse_args().folder
    try:
        write(folder, contents())
    except FirstflightError as error:
        terminal.echo(f"{program}: {error}", err=True)
        return error.exit_status
    return 0
