"""The AS -> CDN map in force: Table 5 of the paper (cdn_as.toml) or the user's map, plus additions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from firstflight.as_map import merge_cdn_map, read_cdn_map

TABLE_5 = Path(__file__).with_name("cdn_as.toml")


def load(base: Path | None, extra: Iterable[Path]) -> dict[int, str]:
    """Join `base` (`None`: Table 5 of the paper) and the `extra` files to {AS number: CDN}.

    Raise UsageError if a file has a wrong structure or two CDNs claim the same AS.
    """
    cdn_of = read_cdn_map(base or TABLE_5)
    for path in extra:
        merge_cdn_map(cdn_of, read_cdn_map(path).items(), path)
    return cdn_of


def render(cdn_of: dict[int, str], sources: Iterable[Path]) -> str:
    """Return the map as sorted TOML text. Equal maps have equal text after the first line."""
    numbers_of: dict[str, list[int]] = {}
    for asn, name in cdn_of.items():
        numbers_of.setdefault(name, []).append(asn)
    lines = [f"# In force for this run; from {', '.join(path.name for path in sources)}", "", "[cdn]"]
    # A JSON string is also a TOML basic string.
    lines += [f"{json.dumps(name)} = {sorted(numbers_of[name])}" for name in sorted(numbers_of)]
    return "\n".join(lines) + "\n"
