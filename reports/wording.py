"""Numbers and foreign text as a page shows them. A dash is for what was not observed; zero is a number."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

ABSENT = "–"
_LONGEST = 160


def count(number: int | None) -> str:
    """With commas between thousands."""
    return ABSENT if number is None else f"{number:,}"


def percent(share: float | None) -> str:
    """A share from 0 to 1 in percent, one decimal."""
    return ABSENT if share is None else f"{share * 100:.1f}"


def share(part: int, whole: int) -> str:
    """`part` of `whole` in percent; a dash if there is no whole."""
    return percent(part / whole) if whole else ABSENT


def interval(bounds: tuple[float, float] | None) -> str:
    """Bounds of a share, in percent."""
    return ABSENT if bounds is None else f"[{bounds[0] * 100:.1f}, {bounds[1] * 100:.1f}]"


def ms(us: float | None) -> str:
    """Microseconds in milliseconds, three significant digits and no more than two decimals."""
    if us is None:
        return ABSENT
    value = us / 1000
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:,.{digits}f}".replace("-", "−")


def median(quartiles_us: Sequence[float]) -> str:
    """The middle one of three quartiles, in milliseconds; a dash if there are none."""
    return ms(quartiles_us[1]) if quartiles_us else ABSENT


def middle_half(quartiles_us: Sequence[float]) -> str:
    """The outer two of three quartiles, in milliseconds."""
    return f"{ms(quartiles_us[0])} to {ms(quartiles_us[2])}" if quartiles_us else ABSENT


def plain(text: object) -> str:
    """Text from outside, harmless to read: no control, direction or private characters, not too long.

    Escaping for HTML is left to the template.
    """
    if text is None:
        return ABSENT
    shown = plain_long(text)
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"


def plain_long(text: object) -> str:
    """As `plain`, at any length."""
    return "".join(
        character if unicodedata.category(character)[0] != "C" else f"\\u{{{ord(character):x}}}"
        for character in str(text)
    )


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    names = [plain(name) for name in names]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""
