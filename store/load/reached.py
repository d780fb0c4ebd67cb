"""What a load reads beside the store, for the walls that are put around it before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from firstflight.layout import RunLayout


def paths(what: Path) -> Iterator[Path]:
    """What is read for a record file, or for the run in the folder `what`, wherever links lead."""
    yield what
    for path in what.rglob("*.parquet") if what.is_dir() else [what]:
        whole = path.resolve()
        yield whole
        # A file below a run's folder is named after it.
        yield from (folder for folder in whole.parents if RunLayout(folder).manifest.is_file())
