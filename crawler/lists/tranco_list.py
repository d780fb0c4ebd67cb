"""Tranco lists (https://tranco-list.eu), fetched with the package `tranco` and cached on disk.

The list with a given id never changes, so a cached list is not fetched again. The id of a day's list is
requested only once. The package does not write files atomically, so it writes to a temporary folder, and only
complete files move to the cache.
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
from firstflight.host_names import quoted
from firstflight.system import files

# The length of the lists that the package fetches. The longer full lists are not used.
MAX_TOP = 1_000_000
_LIST_ID = re.compile(r"[0-9A-Za-z]{4,10}")
# zipfile's exceptions for files that are not archives, are encrypted, or use an unknown compression.
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

    `scratch`: a folder for temporary files. Raise FetchError if the list cannot be fetched, InputError if the
    file is not a list, and UsageError if `top` exceeds the length of the lists.
    """
    if top is not None and top > MAX_TOP:
        raise UsageError(f"[targets] top = {top}: Tranco lists are used up to rank {MAX_TOP}; take fewer")
    title = f"the Tranco list {list_id}" if list_id else f"the Tranco list of {date}"
    if list_id is None and date is not None:
        list_id = _known_id(cache_dir, date)
    path = _list(title, date, list_id, cache_dir, session)
    if date is not None:
        _remember_id(cache_dir, date, path.stem)
    ranked = enumerate(_names(path), start=1)
    return read_lines(path.stem, ((rank, f"{rank},{name}") for rank, name in ranked), top, scratch)


def cached(cache_dir: Path, date: Date | None, list_id: str | None) -> Path | None:
    """Return a cached list's file; `None` if the list is not in the cache."""
    known = list_id if date is None else _known_id(cache_dir, date)
    if known is None or not _LIST_ID.fullmatch(known):
        return None
    path = cache_dir / f"{known}.csv"
    return path if path.is_file() else None


def first_names(path: Path, count: int) -> list[str]:
    """Return a cached list's first names, as in the file. Raise InputError if the file is not a list."""
    try:
        return list(islice(_names(path), count))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}): remove it to fetch it again") from error


class _Package(Tranco):  # type: ignore[misc]
    """The package with checks. It would use any id as a file name and unpack archives of any size."""

    def cached(self, date: Date | None, list_id: str | None) -> tuple[str, Path]:
        """Return a list's id and file. Fetches it like the package's `list`, which returns it in memory."""
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
            member = archive.getinfo("top-1m.csv")
            # zipfile unpacks at most this size.
            if member.file_size > https.MAX_LIST_BYTES:
                raise ValueError(f"{member.file_size} bytes, unpacked")
            with archive.open(member) as content, Path(self._cache_path(list_id)).open("wb") as file:
                shutil.copyfileobj(content, file)


def _list_id(text: str) -> str:
    """Return `text` if it is a list id, which becomes a file name. Otherwise raise ValueError."""
    if not _LIST_ID.fullmatch(text):
        raise ValueError(f"{quoted(text)} is no id of a list")
    return text


def _list(
    title: str, date: Date | None, list_id: str | None, cache_dir: Path, session: https.Session
) -> Path:
    """Return the list's file in the cache, ID.csv. Fetches it if it is not there."""
    with files.explain_os_errors(cache_dir):
        cache_dir.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="fetch-", suffix=".part", dir=cache_dir))
    try:
        cached = {path.stem for path in cache_dir.glob("*.csv")}
        metadata = dict.fromkeys(cached, int(TrancoCacheType.CACHED_NOT_FULL))
        (scratch / "metadata.json").write_text(json.dumps(metadata))
        for name in cached:
            (scratch / f"{name}.csv").symlink_to(cache_dir.resolve() / f"{name}.csv")
        package = _Package(cache_dir=str(scratch))
        package.session = session
        try:
            with https.explained(title):
                list_id, path = package.cached(date, list_id)
                is_empty = sum(1 for _ in _names(path)) == 0  # reads each line: keeps no broken list
        except AttributeError as error:  # raised by the package for any status but 200
            raise https.FetchError(f"cannot fetch {title}: tranco-list.eu does not have it (yet)") from error
        except _NO_LIST as error:
            remedy = f"; remove {cache_dir / list_id}.csv to fetch it again" if list_id in cached else ""
            raise InputError(
                f"cannot read {title}: what tranco-list.eu sent is no list ({error}){remedy}"
            ) from error
        if is_empty or not _LIST_ID.fullmatch(list_id):
            raise InputError(f"cannot read {title}: tranco-list.eu sent an empty list, or none")
        if list_id not in cached:
            path.replace(cache_dir / path.name)
        return cache_dir / path.name
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _names(path: Path) -> Iterator[str]:
    """Yield the names in a list file with `RANK,NAME` lines. Raise ValueError for another line."""
    with path.open(encoding="utf-8") as file:
        for line in islice(file, MAX_TOP):
            text = line.rstrip()
            yield text[text.index(",") + 1 :]


def _known_id(cache_dir: Path, date: Date) -> str | None:
    id_file = cache_dir / f"daily-{date}.id"
    return id_file.read_text(encoding="ascii").strip() if id_file.is_file() else None


def _remember_id(cache_dir: Path, date: Date, list_id: str) -> None:
    id_file = cache_dir / f"daily-{date}.id"
    if not id_file.is_file():
        files.write_text(id_file, f"{list_id}\n")
