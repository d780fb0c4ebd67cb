"""CSV that a spreadsheet shows as text: untrusted text never becomes a formula.

A spreadsheet evaluates a field that starts with certain characters, quoted or not, and a formula can send
data elsewhere (`=HYPERLINK(...)`). Such a text gets a leading apostrophe, as OWASP's "CSV injection" advises.
Numbers stay numbers. JSON, TSV and Parquet stay exact.
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
# ClickHouse quotes only text.
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def field(value: T) -> T | str:
    """Return a field's value. Text that could be a formula gets a leading apostrophe."""
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def table(names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header and line feeds. A missing field in a row is empty."""
    out = io.StringIO()
    columns = list(names)
    # A writer quotes the characters of the line terminator. An unquoted carriage return would start another
    # row.
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
    """Return a CSV answer from ClickHouse, with a leading apostrophe in text that could be a formula."""
    text = content.decode(errors="surrogateescape")
    return _QUOTED.sub(lambda match: f'"{field(match[1])}"', text).encode(errors="surrogateescape")
