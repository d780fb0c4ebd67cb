"""Answers as tables on a terminal: they fit its width and contain all values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.cells import cell_len

from cli.shared import table


def answer(columns: dict[str, str], *rows: list[Any]) -> bytes:
    return b"".join(
        json.dumps(line).encode() + b"\n" for line in (list(columns), list(columns.values()), *rows)
    )


MANY = answer(
    {
        "vantage": "String",
        "ack_to_sh_us_p50": "Nullable(Float64)",
        "probes": "UInt64",
        "edge": "Nullable(String)",
    },
    ["hamburg", 3200.5, 12, None],
    ["hong_kong", None, 7, ""],
)


def test_names_break_at_underscores_and_columns_without_values_are_left_out() -> None:
    text, hidden = table.table_text(MANY, width=26)
    assert text.splitlines() == [
        "             ack_",
        "           to_sh_",
        "vantage    us_p50  probes",
        "─────────  ──────  ──────",
        "hamburg    3200.5      12",
        "hong_kong               7",
    ]
    assert hidden == ["edge"]


def test_wide_shows_every_column_in_one_line() -> None:
    text, hidden = table.table_text(MANY, wide=True, width=10)
    assert text.splitlines()[0] == "vantage    ack_to_sh_us_p50  probes  edge"
    assert (len(text.splitlines()), hidden) == (4, [])


@pytest.mark.parametrize("width", [20, 40, 60, 120])
def test_no_line_is_longer_than_the_terminal_and_no_character_is_lost(width: int) -> None:
    kinds = {"question": "String", "domain": "String", "n": "UInt64"}
    words = "the quick brown fox jumps over the lazy dog " * 3
    text, _ = table.table_text(answer(kinds, [words, "日本語.example", 12_345], ["b", "c", 2]), width=width)
    assert max(map(cell_len, text.splitlines())) <= width
    for character in set(words + "日本語.example12345"):
        assert character in text


def test_columns_that_cannot_fit_become_blocks() -> None:
    kinds = {f"column_{n}": "UInt64" for n in range(20)}
    text, _ = table.table_text(answer(kinds, list(range(20)), list(range(20))), width=40)
    assert [line for line in text.splitlines() if line.startswith("─── row")] != []
    assert text.count("column_19  19\n") == 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (12080.400000000001, "12080.4"),
        (1e-9, "1e-09"),
        (0.0, "0"),
        (-2.0, "-2"),
        (2**63, "9223372036854775808"),
        (True, "true"),
        (["a", "b"], '["a", "b"]'),
        ("a\x1b[31mb\u202e", "a\\x1b[31mb\\u202e"),
    ],
)
def test_values_are_rounded_like_the_engines_tables_and_safe_to_print(value: Any, shown: str) -> None:
    text, _ = table.table_text(answer({"v": "String"}, [value]), width=80)
    assert text.splitlines()[-1] == shown


def test_an_answer_without_rows_is_no_table() -> None:
    assert table.table_text(answer({"a": "UInt8"})) == ("", [])


@pytest.mark.parametrize("text", ["日本語", "\u0301" * 30 + "marks", "\u0301日本"])
def test_wide_characters_and_marks_fill_the_narrowest_block(text: str) -> None:
    kinds = {"a_long_name": "String", "another_one": "String", "n": "UInt64"}
    shown, _ = table.table_text(answer(kinds, [text, "b", 1]), width=8)
    lines = shown.splitlines()
    value = [line[13:] for line in lines[1 : lines.index("another_one  b")]]
    assert "".join(value) == text
    assert all(cell_len(piece) <= 2 for piece in value)
