"""Suggests names that a user may have meant: `did you mean iack_share?`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST = 3
# Minimum of difflib's ratio. Two names of eight letters with two typing errors have 0.75.
_ALIKE = 0.6


def closest(word: str, known: Iterable[str]) -> list[str]:
    """Return at most three names of `known` that resemble `word`, the closest first. Ignores case."""
    of_lower: dict[str, str] = {}
    for name in known:
        of_lower.setdefault(name.lower(), name)
    lower = word.lower()
    similar = difflib.get_close_matches(lower, of_lower, n=_MOST, cutoff=_ALIKE)
    # A prefix of a name is an abbreviation, not a typing error.
    completions = sorted(name for name in of_lower if lower and name.startswith(lower))
    return [of_lower[name] for name in dict.fromkeys([*similar, *completions])][:_MOST]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean NAME?` to append to a message about an unknown `word`; empty without a match."""
    suggestions = closest(word, known)
    return f"; did you mean {' or '.join(suggestions)}?" if suggestions else ""
