"""Changes to a stack's source: text that occurs once in a file, and its replacement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from firstflight.errors import FirstflightError


class Change(BaseModel):
    """A text in a file that occurs once, and the replacement."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    file: str
    old: str = Field(min_length=1)
    new: str


def apply(changes: Sequence[Change], folder: Path, original: Path, listed_in: str) -> None:
    """Make all changes in `folder`, a copy of `original`.

    FirstflightError if a text does not occur exactly once. The message names `original` and `listed_in`, the
    file with the changes.
    """
    for change in changes:
        file = folder / change.file
        text = file.read_text(encoding="utf-8") if file.is_file() else ""
        if (times := text.count(change.old)) != 1:
            beginning = change.old.strip().splitlines()[0].strip()
            raise FirstflightError(
                f"{original / change.file} is not as {listed_in} expects: "
                f"{beginning!r} and what follows is there {times} times"
            )
        file.write_text(text.replace(change.old, change.new), encoding="utf-8")
