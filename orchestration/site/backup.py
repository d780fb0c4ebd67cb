"""Backups of a site's parts, each restored as a test before it counts.

A backup is a folder FOLDER/PART/TIME. The name is TIME.part until the backup is complete and was restored as
a test: Airflow's database into a scratch database, the store by a check of every part of every table, the
settings by reading the archive. TIME.bytes has its size for metrics, whose user lists backups but reads none.
docs/how-to/restore-a-site.md describes how to restore a backup.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.system import files

PARTS = ("settings", "airflow", "store")
DUMP, ARCHIVE, COPY = "airflow.dump", "settings.tar", "store"
_TIME = "%Y%m%dT%H%M%SZ"
_UNFINISHED, _SIZE = ".part", ".bytes"
# Values and marks of a column: nearly all bytes of a store.
_OF_COLUMNS = frozenset({".bin", ".mrk2", ".mrk3", ".mrk4", ".cmrk2", ".cmrk3", ".cmrk4"})


def backups(folder: Path, part: str) -> list[Path]:
    """Return a part's complete backups, oldest first."""
    return [path for path in sorted((folder / part).glob("*")) if _time_of(path) is not None]


def started_at(backup: Path) -> datetime:
    """Return when a complete backup was started."""
    started = _time_of(backup)
    assert started is not None
    return started


def size_bytes(backup: Path) -> int | None:
    """Return the bytes of a backup's files; None if they were not counted when it was made."""
    try:
        return int(backup.with_suffix(_SIZE).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


@contextmanager
def _private() -> Iterator[None]:
    """Create files and folders that only their owner can read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@_private()
def make(
    folder: Path, part: str, write: Callable[[Path], None], check: Callable[[Path], str], keep: int
) -> str:
    """Make a backup of a part: `write` fills its folder, `check` restores it. Then remove all but `keep`.

    Returns a sentence about the backup. FirstflightError if it cannot be written or restored: then no backup
    is added or removed.
    """
    place = folder / part / f"{datetime.now(UTC):{_TIME}}{_UNFINISHED}"
    with files.explain_os_errors(place):
        for unfinished in (folder / part).glob(f"*{_UNFINISHED}"):
            shutil.rmtree(unfinished)
        place.mkdir(parents=True)
        write(place)
    found = check(place)
    files.sync(path for path in place.rglob("*") if path.is_file())
    backup = place.with_suffix("")
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    with files.explain_os_errors(backup):
        counted = backup.with_suffix(_SIZE)
        counted.write_text(f"{size}\n", encoding="utf-8")
        counted.chmod(0o644)
        place.rename(backup)
        for old in backups(folder, part)[:-keep]:
            shutil.rmtree(old)
            old.with_suffix(_SIZE).unlink(missing_ok=True)
    return f"{backup}: {size} bytes, restored as a test: {found}"


def write_airflow(place: Path, database: str) -> None:
    """Dump Airflow's database, which keeps running."""
    _run("pg_dump", "--format=custom", f"--file={place / DUMP}", f"--dbname={database}")


def check_airflow(place: Path, database: str) -> str:
    """Restore the dump into a scratch database, count its tables and drop it."""
    scratch = f"{database}_restore_test"
    _run("dropdb", "--if-exists", scratch)
    _run("createdb", scratch)
    try:
        _run("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={scratch}", str(place / DUMP))
        query = (
            "SELECT count(*), bool_or(tablename = 'alembic_version') "
            "FROM pg_tables WHERE schemaname = 'public'"
        )
        tables, is_airflow = _run("psql", "-qAtX", f"--dbname={scratch}", "-c", query).strip().split("|")
    finally:
        _run("dropdb", "--if-exists", scratch)
    if is_airflow != "t":
        raise InputError(f"{place / DUMP} has no table alembic_version: is {database} Airflow's database?")
    return f"{tables} tables"


def write_settings(place: Path, paths: Sequence[Path]) -> None:
    """Pack files and folders, such as /etc/firstflight and the opt-out list, with their owners."""
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist: correct the paths of the backup")
    with tarfile.open(place / ARCHIVE, "x") as archive:
        for path in paths:
            archive.add(path)


def check_settings(place: Path, paths: Iterable[Path]) -> str:
    """Read the archive; it must contain all `paths`, and each file must be equal to the one on the disk."""
    count = 0
    with tarfile.open(place / ARCHIVE) as archive:
        names = set(archive.getnames())
        for member in filter(tarfile.TarInfo.isfile, archive.getmembers()):
            packed, now = archive.extractfile(member), Path("/", member.name)
            assert packed is not None
            content = packed.read()
            # A file that changed since is no fault.
            if now.is_file() and now.stat().st_mtime <= member.mtime and now.read_bytes() != content:
                raise InputError(f"{place / ARCHIVE}: {member.name} differs from {now}: check the disk")
            count += 1
    missing = [str(path) for path in paths if str(path).lstrip("/") not in names]
    if missing:
        raise InputError(f"{place / ARCHIVE} lacks {', '.join(missing)}: run the backup again")
    return f"{count} files"


def snapshot(source: Path, target: Path) -> None:
    """Copy the folder of a store that no program has open to `target` on the same disk, in seconds.

    Columns of parts are linked, because the engine never changes them but writes new parts. Other files are
    copied, because the engine appends to its log of deduplication tokens; with later tokens, a restored store
    would drop new rows.
    """
    _check_is_store(source)
    with files.explain_os_errors(target):
        if target.exists():
            shutil.rmtree(target)
        shutil.copytree(source, target, symlinks=True, copy_function=_linked)


def _linked(source: str, target: str) -> None:
    path = Path(source)
    if path.suffix in _OF_COLUMNS and (path.parent / "checksums.txt").exists():
        Path(target).hardlink_to(path)
    else:
        shutil.copy2(source, target)


def _check_is_store(folder: Path) -> None:
    if not (folder / "metadata").exists():
        raise UsageError(
            f"there is no store in {folder}: name its folder, or a copy made while it was stopped"
        )


def write_store(place: Path, source: Path) -> None:
    """Copy the folder of a store that is not served, or a snapshot's folder."""
    _check_is_store(source)
    shutil.copytree(source, place / COPY, symlinks=True)


def check_store(place: Path) -> str:
    """Open the copied store and compare each part of each table with its checksums (`firstflight db check`).

    Uses another process, because a process that opens a store confines itself to it.
    """
    environment = {**os.environ, "FIRSTFLIGHT_STORE": f"chdb:{place / COPY}"}
    return _run(sys.executable, "-P", "-m", "cli", "db", "check", environment=environment).splitlines()[-1]


def _run(program: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run a program and return its output; FirstflightError with its message if it fails."""
    try:
        done = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise UsageError(f"the backup needs the program {program}: apt-get install postgresql") from error
    if done.returncode:
        why = " ".join(done.stderr.split()) or f"exit status {done.returncode}"
        raise FirstflightError(f"{Path(program).name} failed: {why}; no backup was added")
    return done.stdout


def _time_of(path: Path) -> datetime | None:
    with suppress(ValueError):
        return datetime.strptime(path.name, _TIME).replace(tzinfo=UTC)
    return None
