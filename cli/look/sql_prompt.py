"""The prompt of `firstflight sql`: reads statements from a terminal, with editing and history (readline)."""

from __future__ import annotations

import os
import readline
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from firstflight.errors import FirstflightError
from firstflight.system import terminal

_PROMPT, _CONTINUED = "firstflight> ", "         ... "
_MOST_KEPT = 1000
_LEAVE = {"exit", "quit", "\\q"}
_HELP = "A statement ends with `;` or an empty line. Ctrl-D leaves. Tables: SHOW TABLES;"


@contextmanager
def history() -> Iterator[TextIO | None]:
    """Read the history, and open its file, before the process is confined; `None` if there can be no file.

    The file is XDG_STATE_HOME/firstflight/sql_history (~/.local/state), readable only by the user.
    """
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = base / "firstflight" / "sql_history"
    file: TextIO | None = None
    with suppress(OSError):
        file = _opened(path)
    try:
        yield file
    finally:
        if file is not None:
            with suppress(OSError):
                file.close()


def _opened(path: Path) -> TextIO:
    """Read the history in a file, shorten the file if it is too long, and return it opened for appending."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    file = os.fdopen(handle, "a", encoding="utf-8")
    if len(lines) > 2 * _MOST_KEPT:
        file.truncate(0)
        file.writelines(f"{line}\n" for line in lines[-_MOST_KEPT:])
        file.flush()
    for line in lines[-_MOST_KEPT:]:
        readline.add_history(line)
    return file


def run(answer: Callable[[str], None], file: TextIO | None) -> None:
    """Pass each statement to `answer` until the end of input; print errors and continue.

    Statements are appended to `file`.
    """
    readline.set_auto_history(False)
    terminal.echo(_HELP)
    while (statement := _statement()) is not None:
        if not statement:
            continue
        if statement.lower() in _LEAVE:
            return
        line = " ".join(statement.split("\n"))
        readline.add_history(line)
        if file is not None:
            with suppress(OSError):
                file.write(f"{line}\n")
                file.flush()
        try:
            answer(statement)
        except FirstflightError as error:
            terminal.echo(str(error), err=True)


def _statement() -> str | None:
    """Return the next statement without its semicolon, empty after Ctrl-C; `None` at the end of input."""
    lines: list[str] = []
    while True:
        try:
            line = input(_CONTINUED if lines else _PROMPT)
        except KeyboardInterrupt:
            terminal.echo("")
            return ""
        except EOFError:
            terminal.echo("")
            return "\n".join(lines).strip() or None
        if not line.strip() and lines:
            break
        lines.append(line)
        text = "\n".join(lines).strip()
        if not text or text.endswith(";") or text.lower() in _LEAVE:
            break
    return "\n".join(lines).strip().rstrip(";").strip()
