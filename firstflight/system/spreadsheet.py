"""CSV that a spreadsheet shows as text: no text from outside becomes a formula.

A spreadsheet calculates a field that begins with one of a few characters, quoted or not, and a formula can
send data elsewhere (`=HYPERLINK(...)`). Such a text gets an apostrophe in front, as OWASP's "CSV injection"
advises. Numbers stay numbers. JSON, TSV and Parquet stay exact.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.ASCII)
# ClickHouse quotes texts and nothing else.
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def field(value: T) -> T | str:
    """Return the value of a field: a text that could be a formula has an apostrophe in front."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def table(names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header and line feeds; a field that a row does not have is empty."""
    out = io.StringIO()
    columns = list(names)
    # A writer quotes the characters of its own line ends: a bare carriage return would begin another row.
    writer = csv.writer(out, lineterminator="\r\n")
    lines = []
    for row in [dict(zip(columns, columns, strict=True)), *rows]:
        out.seek(0)
        out.truncate()
        writer.writerow([field(row.get(name, "")) for name in columns])
        lines.append(out.getvalue().removesuffix("\r\n") + "\n")
    return "".join(lines)


def is_csv(output_format: str) -> bool:
    """Return whether a format of ClickHouse is CSV."""
    return output_format.lower().startswith("csv")


def answer(content: bytes) -> bytes:
    """Return an answer of ClickHouse in CSV, with an apostrophe in front of texts that could be formulas."""
    text = content.decode(errors="surrogateescape")
    return _QUOTED.sub(lambda found: f'"{field(found[1])}"', text).encode(errors="surrogateescape")
