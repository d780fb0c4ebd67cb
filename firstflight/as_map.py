"""Looks up an address's origin AS and CDN in a run's routing table and AS -> CDN map.

The `as_data` stage (crawler/) writes both to the run's folder. `Mapper` reads them.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyasn

from firstflight.errors import InputError, UsageError

RIB_FILE = "rib.pyasn"
CDN_MAP_FILE = "cdn_map.toml"
AS_DATA_FILE = "as_data.json"

# The CDN of an origin AS that no CDN's list contains (docs/definitions.md).
OTHERS = "Others"


class AddressOrigin(NamedTuple):
    """Origin AS and CDN of an address. Both are `None` without a route or a usable origin."""

    asn: int | None
    cdn: str | None


class Mapper:
    """Looks up addresses in a run's AS data. A full routing table loads in about 2 s."""

    def __init__(self, folder: Path) -> None:
        """Load `folder` (RUN/as_data). Raise InputError if the stage has not run or a file is invalid."""
        rib, cdn_map = folder / RIB_FILE, folder / CDN_MAP_FILE
        for path in (rib, cdn_map):
            if not path.is_file():
                raise InputError(f"there is no {path}: run the as_data stage of this run first")
        try:
            self._routes = pyasn.pyasn(str(rib))
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(
                f"{rib} is not a pyasn database ({error}); run the as_data stage again"
            ) from error
        text = cdn_map.read_bytes()
        self._cdn_of = read_cdn_map(cdn_map)
        self.cdn_map_sha256 = hashlib.sha256(text).hexdigest()

    @property
    def cdns(self) -> frozenset[str]:
        """All CDNs that `origin` may return."""
        return frozenset({*self._cdn_of.values(), OTHERS})

    def origin(self, ip: str) -> AddressOrigin:
        """Return origin AS and CDN of the longest matching prefix. ValueError if `ip` is not an address."""
        asn = self.asn(ip)
        return AddressOrigin(asn, self.cdn(asn))

    def asn(self, ip: str) -> int | None:
        """Return the origin AS of the longest matching prefix. ValueError if `ip` is not an address."""
        # Not pyasn's `lookup`, because it also formats the prefix as text.
        node = self._routes.radix.search_best(ip)
        return None if node is None else int(node.asn)

    def cdn(self, asn: int | None) -> str | None:
        """Return the CDN of an origin AS; `None` without an AS."""
        return None if asn is None else self._cdn_of.get(asn, OTHERS)


def read_cdn_map(path: Path) -> dict[int, str]:
    """Read an AS -> CDN file: a TOML table `[cdn]` of name = [AS numbers]. Return {AS number: name}.

    Raise UsageError if the file has another structure, or if two CDNs claim the same AS.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    table = data.pop("cdn", None)
    if not isinstance(table, dict) or data:
        raise UsageError(
            f"{path}: expected one table [cdn] with lines like Fastly = [54113], and nothing else"
        )
    cdn_of: dict[int, str] = {}
    for name, numbers in table.items():
        if not name.strip() or name == OTHERS:
            raise UsageError(f"{path}: {name!r} cannot be the name of a CDN: {OTHERS} means an AS in no list")
        if not isinstance(numbers, list) or not numbers or not all(_is_asn(number) for number in numbers):
            raise UsageError(f"{path}: {name}: expected a list of AS numbers from 1 to 4294967295")
        merge_cdn_map(cdn_of, [(number, name) for number in numbers], path)
    return cdn_of


def merge_cdn_map(cdn_of: dict[int, str], entries: Iterable[tuple[int, str]], path: Path) -> None:
    """Add `entries` (read from `path`) to `cdn_of`. Raise UsageError if another CDN already has an AS."""
    for asn, name in entries:
        first = cdn_of.setdefault(asn, name)
        if first != name:
            raise UsageError(f"{path}: AS{asn} is claimed by {name} and by {first}: remove one of the two")


def _is_asn(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**32
