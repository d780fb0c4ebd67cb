"""Groups of ASes that belong to one organisation, in addition to CAIDA's file: as2org+ or the user's own.

as2org+ (Arturi et al., "as2org+: Enriching AS-to-Organization Mappings with PeeringDB", PAM 2023) joins ASes
that the registries list under several organisations. Its program writes one JSON array of groups, each an
array of AS numbers. A file may also have a group per line, as an array or as an object with a name:

    {"asns": [13335, 209242], "organisation": "Cloudflare"}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from crawler.routing.as2org import Organisation, text_lines
from firstflight.errors import InputError
from firstflight.host_names import quoted
from firstflight.system import from_outside


class Group(NamedTuple):
    """The ASes of one organisation. `name`: `None` if the file does not name it."""

    asns: frozenset[int]
    name: str | None


def read(path: Path) -> list[Group]:
    """Read a file of groups, gzipped or not.

    Raise InputError if it cannot be opened, if it has another format (with the line), or if an AS is in two
    groups.
    """
    groups: list[Group] = []
    known: set[int] = set()
    for number, value in _values(path):
        group = _group(value, f"{path}: line {number}")
        if twice := sorted(group.asns & known):
            raise InputError(f"{path}: line {number}: AS{twice[0]} is in two groups: join them or remove one")
        known |= group.asns
        groups.append(group)
    if not groups:
        raise InputError(f"{path} names no AS: expected JSON arrays of AS numbers, as in as2org+'s output")
    return groups


def merged(organisations: Mapping[int, Organisation], groups: list[Group]) -> dict[int, Organisation]:
    """Return the organisations with each group's ASes under one organisation, sorted by AS number.

    A group without a name gets the organisation that most of its ASes have; if several have as many, the one
    with the smallest AS number. Without any, each AS keeps what it has. An AS keeps its name and registry.
    """
    found = dict(organisations)
    for group in groups:
        holder = _holder(organisations, group)
        if holder is None:
            continue
        for asn in group.asns:
            before = organisations.get(asn)
            found[asn] = holder._replace(
                as_name=None if before is None else before.as_name,
                registry=None if before is None else before.registry,
            )
    return dict(sorted(found.items()))


def _holder(organisations: Mapping[int, Organisation], group: Group) -> Organisation | None:
    known = [organisations[asn] for asn in sorted(group.asns) if asn in organisations]
    if group.name is not None:
        return Organisation(None, None, group.name, None, None)
    counts = Counter(entry.org_id or entry.organisation for entry in known)
    del counts[None]
    if not counts:
        return None
    # Of equal counts, Counter returns the first one that was added.
    ((most, _),) = counts.most_common(1)
    return next(entry for entry in known if (entry.org_id or entry.organisation) == most)


def _group(value: Any, where: str) -> Group:
    name = None
    if isinstance(value, dict):
        name = value.get("organisation")
        value = value.get("asns")
    if not isinstance(value, list) or not value or not (name is None or (isinstance(name, str) and name)):
        raise InputError(
            f'{where}: expected an array of AS numbers, or {{"asns": [...], "organisation": "NAME"}}'
        )
    for asn in value:
        if not isinstance(asn, int) or isinstance(asn, bool) or not 0 < asn < 2**32:
            raise InputError(f"{where}: {quoted(str(asn))} is not an AS number")
    return Group(frozenset(value), name)


def _values(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (line, group) for each group; all groups of an array in one line have the same line."""
    for number, line in enumerate(text_lines(path), start=1):
        if not line:
            continue
        try:
            value = from_outside.json_value(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: line {number} is not JSON ({error}): is the file complete?") from error
        if isinstance(value, list) and value and isinstance(value[0], list):
            yield from ((number, group) for group in value)
        else:
            yield number, value
