"""A record file's origin: a run of this site, a run's folder elsewhere, or no run at all.

The rows in a file name a run and a vantage point, but anybody can write such names into a file. So the load
log keeps the origin of each unit, which depends only on the location of the file, never on its rows. A file
does not replace rows of another origin (`store/load/units.py`).
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from firstflight.run.run import Run, runs_root

OF_SITE = "run:"
_KEY = re.compile(r"[0-9a-f]{32}")
_DIGITS = 16


@dataclass(frozen=True)
class FileOrigin:
    """A file's origin. `text` is its form in the load log, which shows no path.

    `run` is the run of the file's folder, `None` outside any run. `before` is the name of a file outside any
    run in load logs of versions without origins.
    """

    text: str
    run: str | None
    before: str = ""

    @property
    def is_site(self) -> bool:
        """Whether the file lies in a run of this site's folder of runs."""
        return self.text.startswith(OF_SITE)

    def may_replace(self, text: str, source_file: str) -> bool:
        """Return whether this origin may replace rows with these two values in the load log.

        A run of this site may replace rows that were loaded from elsewhere. An empty origin was written by a
        version without origins; such rows belong to the run of this site that they name, or to the same file.
        """
        if text == self.text:
            return True
        if not text and self.run is None:
            return source_file == self.before
        if not text:
            return self.is_site and source_file.startswith(f"{self.run}/")
        return self.is_site and not text.startswith(OF_SITE)


def of_run(run: Run) -> FileOrigin:
    """Return the origin of the files in a run's folder.

    In this site's folder of runs the origin is derived from the secret key of the run. It is the same at the
    centre and at the vantage points, and does not change if the folder of runs moves. InputError for a broken
    manifest.
    """
    folder = run.path.resolve()
    if (runs_root() / run.id).resolve() != folder:
        return FileOrigin(f"folder:{_hash(str(folder))}", run.id)
    key = str(run.manifest.get("cid_key", ""))
    if not _KEY.fullmatch(key):
        return FileOrigin(f"{OF_SITE}{_hash(str(folder))}", run.id)
    keyed = hmac.new(bytes.fromhex(key), f"origin of {run.id}".encode(), sha256).hexdigest()
    return FileOrigin(f"{OF_SITE}{keyed[:_DIGITS]}", run.id)


def of_file(path: Path) -> FileOrigin:
    """Return the origin of a file outside any run."""
    absolute = str(path.resolve())
    return FileOrigin(f"file:{_hash(absolute)}", None, absolute)


def name_outside(path: Path) -> str:
    """Return the source_file of a file outside any run: equal for one path, and without its folders."""
    return f"outside/{_hash(str(path.resolve()))}/{path.name}"


def _hash(text: str) -> str:
    return sha256(text.encode(errors="surrogateescape")).hexdigest()[:_DIGITS]
