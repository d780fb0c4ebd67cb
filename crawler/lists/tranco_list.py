"""Tranco lists (https://tranco-list.eu), fetched by the package `tranco` and cached on disk.

The list of an id never changes, so a cached list is not fetched again, and the id of a day's list is
requested once. The package does not write its files atomically; therefore it uses a temporary folder, and
only complete files are moved into the cache.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from datetime import date as Date
from itertools import islice
from pathlib import Path

from tranco import Tranco
from tranco.tranco import TrancoCacheType

from crawler import https
from crawler.lists.target_list import TargetList, read_lines
from firstflight.errors import InputError, UsageError
from firstflight.host_names import shown
from firstflight.system import files

# The length of the lists that the package fetches; the longer full lists are not used.
MAX_TOP = 1_000_000
_LIST_ID = re.compile(r"[0-9A-Za-z]{4,10}")
# Exceptions of zipfile for files that are no archive, are encrypted, or use an unknown compression.
_NO_LIST = (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError, zlib.error)


def read(
    *,
    date: Date | None,
    list_id: str | None,
    top: int | None,
    cache_dir: Path,
    session: https.Session,
    scratch: Path | None = None,
) -> TargetList:
    """Return the first `top` names of the daily list of `date` (domains, no subdomains), or of `list_id`.

    FetchError if the list cannot be fetched; InputError if the file is no list; UsageError if `top` exceeds
    the length of the lists. `scratch`: a folder for temporary files.
    """
    if top is not None and top > MAX_TOP:
        raise UsageError(f"[targets] top = {top}: Tranco lists are used up to rank {MAX_TOP}; take fewer")
    what = f"the Tranco list {list_id}" if list_id else f"the Tranco list of {date}"
    if list_id is None and date is not None:
        list_id = _known_id(cache_dir, date)
    path = _list(what, date, list_id, cache_dir, session)
    if date is not None:
        _remember_id(cache_dir, date, path.stem)
    ranked = enumerate(_names(path), start=1)
    return read_lines(path.stem, ((rank, f"{rank},{name}") for rank, name in ranked), top, scratch)


class _Package(Tranco):  # type: ignore[misc]
    """The package with checks: it would use any id as a file name, and unpack archives of any size."""

    def cached(self, date: Date | None, list_id: str | None) -> tuple[str, Path]:
        """Return id and file of a list, as the package's `list` fetches it; that returns it in memory."""
        list_id = list_id or self._get_list_id_for_date(str(date))
        if not self._is_cached(list_id):
            self._download_file(list_id)
        return list_id, Path(self._cache_path(list_id))

    def _get_list_id_for_date(self, date: str, subdomains: bool = False) -> str:
        return _list_id(str(super()._get_list_id_for_date(date, subdomains=subdomains)))

    def _download_zip_file(self, list_id: str) -> None:
        answer = self.session.get(f"https://tranco-list.eu/download_daily/{_list_id(list_id)}")
        if answer.status_code != 200:
            super()._download_zip_file(list_id)
            return
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            about = archive.getinfo("top-1m.csv")
            # zipfile unpacks at most this size.
            if about.file_size > https.MAX_LIST_BYTES:
                raise ValueError(f"{about.file_size} bytes, unpacked")
            with archive.open(about) as content, Path(self._cache_path(list_id)).open("wb") as file:
                shutil.copyfileobj(content, file)


def _list_id(text: str) -> str:
    """Return `text` if it is the id of a list, which becomes a file name; ValueError otherwise."""
    if not _LIST_ID.fullmatch(text):
        raise ValueError(f"{shown(text)} is no id of a list")
    return text


def _list(what: str, date: Date | None, list_id: str | None, cache_dir: Path, session: https.Session) -> Path:
    """Return the file of a list in the cache, ID.csv, fetched if it was not there."""
    with files.explain_os_errors(cache_dir):
        cache_dir.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="fetch-", suffix=".part", dir=cache_dir))
    try:
        cached = {path.stem for path in cache_dir.glob("*.csv")}
        metadata = dict.fromkeys(cached, int(TrancoCacheType.CACHED_NOT_FULL))
        (work / "metadata.json").write_text(json.dumps(metadata))
        for name in cached:
            (work / f"{name}.csv").symlink_to(cache_dir.resolve() / f"{name}.csv")
        package = _Package(cache_dir=str(work))
        package.session = session
        try:
            with https.explained(what):
                list_id, path = package.cached(date, list_id)
                is_empty = sum(1 for _ in _names(path)) == 0  # reads each line: a broken one is not kept
        except AttributeError as error:  # raised by the package for any status but 200
            raise https.FetchError(f"cannot fetch {what}: tranco-list.eu does not have it (yet)") from error
        except _NO_LIST as error:
            again = f"; remove {cache_dir / list_id}.csv to fetch it again" if list_id in cached else ""
            raise InputError(
                f"cannot read {what}: what tranco-list.eu sent is no list ({error}){again}"
            ) from error
        if is_empty or not _LIST_ID.fullmatch(list_id):
            raise InputError(f"cannot read {what}: tranco-list.eu sent an empty list, or none")
        if list_id not in cached:
            path.replace(cache_dir / path.name)
        return cache_dir / path.name
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _names(path: Path) -> Iterator[str]:
    """Yield the names of a list's file, `RANK,NAME` per line; ValueError if a line is none."""
    with path.open(encoding="utf-8") as file:
        for line in islice(file, MAX_TOP):
            text = line.rstrip()
            yield text[text.index(",") + 1 :]


def _known_id(cache_dir: Path, date: Date) -> str | None:
    note = cache_dir / f"daily-{date}.id"
    return note.read_text(encoding="ascii").strip() if note.is_file() else None


def _remember_id(cache_dir: Path, date: Date, list_id: str) -> None:
    note = cache_dir / f"daily-{date}.id"
    if not note.is_file():
        files.write_text(note, f"{list_id}\n")
