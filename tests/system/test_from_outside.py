"""Parsing of untrusted text."""

from __future__ import annotations

import pytest

from firstflight.system import from_outside


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0", 0),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        ("9" * 5000, None),
        ("", None),
        ("-1", None),
        ("+1", None),
        (" 1", None),
        ("1_0", None),
        ("\u0661", None),
        ("5, 5", None),
    ],
)
def test_a_content_length(text: str, length: int | None) -> None:
    assert from_outside.content_length(text) == length


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"a\ud800": ["\udcff", 1, null, 2.5, true]}', {"a?": ["?", 1, None, 2.5, True]}),
        (r'"\ud83d\ude00"', "\U0001f600"),
        (b"7", 7),
    ],
)
def test_texts_of_json_fit_into_every_file(text: str | bytes, value: object) -> None:
    assert from_outside.json_value(text) == value


def test_invalid_json_is_refused() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        from_outside.json_value("{")
