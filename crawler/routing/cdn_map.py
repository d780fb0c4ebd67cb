"""The AS -> CDN map in force: Table 5 of the paper (cdn_as.toml) or the user's map, plus additions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from crawler.routing.as2org import Organisation
from firstflight.as_map import merge_cdn_map, read_cdn_map
from firstflight.errors import UsageError

TABLE_5 = Path(__file__).with_name("cdn_as.toml")


def load(base: Path | None, extra: Iterable[Path]) -> dict[int, str]:
    """Join `base` (`None`: Table 5 of the paper) and the `extra` files to {AS number: CDN}.

    Raise UsageError if a file has a wrong structure or two CDNs claim the same AS.
    """
    cdn_of = read_cdn_map(base or TABLE_5)
    for path in extra:
        merge_cdn_map(cdn_of, read_cdn_map(path).items(), path)
    return cdn_of


def by_organisation(cdn_of: Mapping[int, str], organisations: Mapping[int, Organisation]) -> dict[int, str]:
    """Return the map with all ASes of each organisation that has an AS in `cdn_of`.

    Raise UsageError if an organisation has ASes of two CDNs.
    """
    first_of: dict[str, tuple[int, str]] = {}
    for asn, cdn in sorted(cdn_of.items()):
        organisation = _id(organisations.get(asn))
        if organisation is None:
            continue
        first_asn, first = first_of.setdefault(organisation, (asn, cdn))
        if first != cdn:
            raise UsageError(
                f'cdn_by = "organisation": AS{first_asn} of {first} and AS{asn} of {cdn} belong to one '
                'organisation: remove one of the two from the CDN map, or set cdn_by = "asn"'
            )
    found = dict(cdn_of)
    for asn, entry in organisations.items():
        organisation = _id(entry)
        if organisation in first_of:
            found.setdefault(asn, first_of[organisation][1])
    return found


def _id(entry: Organisation | None) -> str | None:
    return None if entry is None else entry.org_id or entry.organisation


def render(cdn_of: dict[int, str], sources: Iterable[Path]) -> str:
    """Return the map as sorted TOML text. Equal maps have equal text after the first line."""
    numbers_of: dict[str, list[int]] = {}
    for asn, name in cdn_of.items():
        numbers_of.setdefault(name, []).append(asn)
    lines = [f"# In force for this run; from {', '.join(path.name for path in sources)}", "", "[cdn]"]
    # A JSON string is also a TOML basic string.
    lines += [f"{json.dumps(name)} = {sorted(numbers_of[name])}" for name in sorted(numbers_of)]
    return "\n".join(lines) + "\n"
