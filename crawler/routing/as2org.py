"""AS organisations from CAIDA (publicdata.caida.org), in both formats.

`YYYYMMDD.as-org2info.txt` has two parts, in either order: organisations (`org_id|...`) and AS numbers
(`aut|...`). A line `# format:` with the field names precedes each part. Vertical bars separate the fields.
`YYYYMMDD.as-org2info.jsonl` has a JSON object per line, with `type` Organization or ASN. Both may be gzipped.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from datetime import date as Date
from pathlib import Path
from typing import Any, NamedTuple

from crawler import https
from crawler.decompress import gunzip
from firstflight.errors import InputError
from firstflight.host_names import quoted
from firstflight.system import files, from_outside

FOLDER_URL = "https://publicdata.caida.org/datasets/as-organizations/"
_LINK = re.compile(r'href="((\d{8})\.as-org2info\.(txt|jsonl)\.gz)"', re.IGNORECASE)
# The decompressed file has about 10 MB.
_MAX_BYTES = 256 << 20
# Different names of the same field, by year and format.
_ALIASES = {
    "aut": "asn",
    "aut_name": "name",
    "org_name": "name",
    "organizationid": "org_id",
    "opaqueid": "opaque_id",
}


class Organisation(NamedTuple):
    """An AS's organisation. `None`: the file has no value, or does not describe the organisation."""

    as_name: str | None
    org_id: str | None
    organisation: str | None
    country: str | None
    registry: str | None


def fetch(date: Date, cache_dir: Path, session: https.Session) -> tuple[Path, str]:
    """Fetch the newest file of `date` or an earlier day. Return the path in the cache and the URL.

    For past days, also caches the file's name, so the host is requested only once. Raise FetchError if the
    host is unreachable or has no such file.
    """
    name_file = cache_dir / f"newest-{date}.name"
    if name_file.is_file():
        name = name_file.read_text(encoding="ascii").strip()
    else:
        candidates = [
            (day, extension == "txt", name)
            for name, day, extension in _LINK.findall(https.get_text(session, FOLDER_URL))
            if day <= f"{date:%Y%m%d}"
        ]
        if not candidates:
            raise https.FetchError(f"{FOLDER_URL} has no file of {date} or before; choose a later date")
        name = max(candidates)[2]
    path = cache_dir / name
    if not path.is_file():
        https.download(session, FOLDER_URL + name, path)
    if date < datetime.now(UTC).date() and not name_file.is_file():
        files.write_text(name_file, f"{name}\n")
    return path, FOLDER_URL + name


def read(path: Path) -> dict[int, Organisation]:
    """Return the organisation of each AS in a file of either format, gzipped or not, sorted by AS number.

    Raise InputError if it cannot be opened, if it is damaged (with the line), or if it has neither format.
    """
    ases: dict[int, dict[str, str]] = {}
    orgs: dict[str, dict[str, str]] = {}
    for number, entry in _entries(path):
        if "asn" in entry:
            asn = entry["asn"]
            if not (asn.isascii() and asn.isdigit() and len(asn) <= 10 and int(asn) < 2**32):
                raise InputError(f"{path}: line {number}: {quoted(asn)} is not an AS number")
            ases[int(asn)] = entry
        elif "org_id" in entry:
            orgs[entry["org_id"]] = entry
    if not ases:
        raise InputError(f"{path} names no AS: is it a file of CAIDA's AS organisations?")
    return {asn: _organisation(entry, orgs) for asn, entry in sorted(ases.items())}


def _organisation(entry: Mapping[str, str], orgs: Mapping[str, Mapping[str, str]]) -> Organisation:
    org = orgs.get(entry.get("org_id", ""), {})
    return Organisation(
        entry.get("name") or None,
        entry.get("org_id") or None,
        org.get("name") or None,
        org.get("country") or None,
        entry.get("source") or None,
    )


def _entries(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, dict of fields) for each line with data."""
    fields: list[str] = []
    for number, line in enumerate(text_lines(path), start=1):
        if line.startswith("{"):
            yield number, _from_json(line, number, path)
        elif line.startswith("#"):
            _, is_format, names = line.partition("format:")
            if is_format:
                fields = [_ALIASES.get(name, name) for name in names.strip().split("|")]
        elif line:
            values = line.split("|")
            if not fields or len(values) != len(fields):
                raise InputError(
                    f"{path}: line {number}: {len(values)} fields between bars, expected {len(fields)} as "
                    "in the last `# format:` line; is the file complete?"
                )
            yield number, dict(zip(fields, values, strict=True))


def _from_json(line: str, number: int, path: Path) -> dict[str, str]:
    try:
        entry: dict[str, Any] = from_outside.json_value(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: line {number} is not JSON ({error}): is the file complete?") from error
    return {_ALIASES.get(k.lower(), k.lower()): str(v) for k, v in entry.items() if v is not None}


def text_lines(path: Path) -> Iterator[str]:
    """Return the lines of a file, gzipped or not, stripped at both ends; InputError if it cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    if content.startswith(b"\x1f\x8b"):
        content = gunzip(content, path, _MAX_BYTES)
    # Not splitlines(): it also splits at separators that names may contain.
    text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="replace", newline="\n")
    return (line.strip() for line in text)
