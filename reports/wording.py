"""Formats numbers and external text for a page. A dash means not observed; zero is a number."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

ABSENT = "–"
_LONGEST = 160


def count(number: int | None) -> str:
    """Format a count with commas between thousands."""
    return ABSENT if number is None else f"{number:,}"


def percent(share: float | None) -> str:
    """Format a share from 0 to 1 in percent, with one decimal."""
    return ABSENT if share is None else f"{share * 100:.1f}"


def ratio(value: float | None) -> str:
    """Format a ratio with two decimals."""
    return ABSENT if value is None else f"{value:.2f}"


def share(part: int, whole: int) -> str:
    """Format `part` of `whole` in percent; a dash if `whole` is 0."""
    return percent(part / whole) if whole else ABSENT


def interval(bounds: tuple[float, float] | None) -> str:
    """Format a share's bounds, in percent."""
    return ABSENT if bounds is None else f"[{bounds[0] * 100:.1f}, {bounds[1] * 100:.1f}]"


def ms(us: float | None) -> str:
    """Format microseconds as milliseconds, with three significant digits and at most two decimals."""
    if us is None:
        return ABSENT
    value = us / 1000
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:,.{digits}f}".replace("-", "−")


def median(quartiles_us: Sequence[float]) -> str:
    """Format the median of three quartiles, in milliseconds; a dash for an empty sequence."""
    return ms(quartiles_us[1]) if quartiles_us else ABSENT


def middle_half(quartiles_us: Sequence[float]) -> str:
    """Format the first and third of three quartiles, in milliseconds."""
    return f"{ms(quartiles_us[0])} to {ms(quartiles_us[2])}" if quartiles_us else ABSENT


def plain(text: object) -> str:
    """Make external text safe to display: escape control, direction and private characters, limit the length.

    The template escapes HTML.
    """
    if text is None:
        return ABSENT
    shown = plain_long(text)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"


def plain_long(text: object) -> str:
    """Like `plain`, without the limit on the length."""
    return "".join(
        character if unicodedata.category(character)[0] != "C" else f"\\u{{{ord(character):x}}}"
        for character in str(text)
    )


def plain_lines(text: object) -> str:
    """Like `plain_long`, of a text with several lines, as one line."""
    return plain_long(" ".join(str(text).split()))


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    names = [plain(name) for name in names]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
