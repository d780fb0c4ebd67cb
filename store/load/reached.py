"""Lists the paths that a load reads outside the store; the process is confined to them before it starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from firstflight.layout import RunLayout


def paths(what: Path) -> Iterator[Path]:
    """Yield the paths to read for a record file, or for the run in the folder `what`, with links resolved."""
    yield what
    for path in what.rglob("*.parquet") if what.is_dir() else [what]:
        absolute = path.resolve()
        yield absolute
        # The name of a file in a run's folder is taken from the run's manifest.
        yield from (folder for folder in absolute.parents if RunLayout(folder).manifest.is_file())
