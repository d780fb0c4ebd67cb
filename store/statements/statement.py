"""Classifies a client's statement from its parsed text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from store.protocol.refusal import NOT_IMPLEMENTED, Refusal
from store.sql import identifier
from store.statements.parsed import Parsed
from store.statements.tokens import TokenKind, tokens

_FORMAT_LINE = re.compile(r"^FORMAT \w+\n?", re.MULTILINE)
_SELECT = re.compile(r"\(*(SELECT|WITH)\b")
_OTHER_ROWS = re.compile(r"(SHOW|DESCRIBE|DESC|EXPLAIN|EXISTS|CHECK)\b")
_TOTALS = re.compile(r"^\s*WITH TOTALS$", re.MULTILINE)
# Rows start on the next line, if any, and may be empty lines.
_BEFORE_ROWS = re.compile(r"[ \t\f]*\r?\n?")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0", "a": "\a", "v": "\v"}
_SETTING = re.compile(r"\w+")


@dataclass(frozen=True)
class Insert:
    """An insert of rows: table, columns and settings as the statement has them, and the rows' format.

    `rows` is the text after the statement; empty if the client sends rows in blocks.
    """

    table: str
    columns: str
    settings: str
    format: str
    rows: str = ""


@dataclass(frozen=True)
class Statement:
    """A statement as sent (`given`) and as parsed; `parameters` are escaped for the engine."""

    given: str
    parsed: str
    parameters: Mapping[str, str]

    @property
    def text(self) -> str:
        """The statement to run, without FORMAT: the server sends blocks, and the client formats them."""
        without = _FORMAT_LINE.sub("", self.parsed)
        return self.given if without == self.parsed or self.parsed.startswith("INSERT") else without

    @property
    def is_select(self) -> bool:
        """Whether DESCRIBE can return its columns without running it."""
        return _SELECT.match(self.parsed) is not None

    @property
    def gives_rows(self) -> bool:
        """Whether the answer is a table of zero or more rows."""
        return self.is_select or _OTHER_ROWS.match(self.parsed) is not None

    @property
    def changes_database(self) -> bool:
        """Whether it may change the session's database."""
        return self.parsed.startswith("USE ")

    @property
    def has_totals(self) -> bool:
        """Whether the answer has totals in addition to its rows."""
        return self.is_select and _TOTALS.search(self.parsed) is not None

    @property
    def insert(self) -> Insert | None:
        """The insert, if the client sends its rows in blocks; else `None`."""
        return self._insert if self._insert and not self._insert.rows else None

    @property
    def insert_of_text(self) -> Insert | None:
        """The insert, if its rows are in the statement's text; else `None`."""
        return self._insert if self._insert and self._insert.rows else None

    @cached_property
    def _insert(self) -> Insert | None:
        return _insert(Parsed(self.parsed), self.given) if self.parsed.startswith("INSERT ") else None


def _insert(parsed: Parsed, given: str) -> Insert | None:
    """Return the insert of rows; `None` if the statement inserts a SELECT's result.

    The text in `given` after the parsed part is rows, and the engine receives it only as rows. Refusal if the
    start of the rows is uncertain.
    """
    last = len(parsed) - 2
    at = 3
    while parsed.sign(at) == "." and parsed.at(at + 1).is_name:
        at += 2
    table = ".".join(identifier(parsed.at(part).text) for part in range(2, at, 2))
    columns = ""
    if parsed.sign(at) == "(":
        end = parsed.closing(at)
        columns = parsed.text[parsed.at(at).end : parsed.at(end).begin]
        at = end + 1
    if not parsed.stands("FORMAT", last):
        if not any(parsed.where("SELECT")):
            raise Refusal(NOT_IMPLEMENTED, "an INSERT must have a table and either rows or a SELECT")
        return None
    settings = parsed.text[parsed.at(at).begin : parsed.at(last).begin].strip() if at < last else ""
    whole = at == last or (parsed.stands("SETTINGS", at) and not any(parsed.where("SELECT")))
    if not whole or not parsed.at(2).is_name:
        raise Refusal(
            NOT_IMPLEMENTED, "an INSERT of rows must name a table, and one of a SELECT has no FORMAT"
        )
    format_name = parsed.at(last + 1).text
    try:
        rows = _rows(given)
    except ValueError as error:
        raise Refusal(
            NOT_IMPLEMENTED, f"it is not certain where the rows of this INSERT begin: {error}"
        ) from error
    if format_name == "Values" and _has_more_text(rows):
        raise Refusal(NOT_IMPLEMENTED, "one statement at a time: nothing can follow the rows of an INSERT")
    return Insert(table, columns, settings, format_name, "" if rows.strip() in ("", ";") else rows)


def _rows(given: str) -> str:
    """Return the text after VALUES or FORMAT of an insert."""
    before, depth, names = "", 0, False
    for token in tokens(given):
        word = token.text.upper() if token.kind is TokenKind.WORD else ""
        if names and token.is_name:
            begin = _BEFORE_ROWS.match(given, token.end)
            return given[begin.end() if begin else token.end :]
        if token.kind is TokenKind.COMMENT:
            continue
        if token.kind is TokenKind.OTHER:
            depth += (token.text == "(") - (token.text == ")")
        if not depth and before not in ("INTO", "TABLE", "."):
            if word == "VALUES":
                return given[token.end :]
            names = word == "FORMAT"
        before = word or token.text
    return ""


def _has_more_text(rows: str) -> bool:
    """Return whether anything but comments follows the end of a statement."""
    ended = False
    try:
        for token in tokens(rows):
            if ended and token.kind is not TokenKind.COMMENT and token.text != ";":
                return True
            ended = ended or (token.kind is TokenKind.OTHER and token.text == ";")
    except ValueError:
        return ended
    return False


def setting_name(name: str) -> str:
    """Return `name` if it is a valid name for a setting, else a name that no setting has."""
    return name if _SETTING.fullmatch(name) else "unknown_setting"


def unquoted(quoted: str) -> str:
    """Return the text of a quoted literal, the form of parameters in a packet; resolve each escape once."""
    inner = quoted[1:-1] if len(quoted) > 1 and quoted[0] == quoted[-1] == "'" else quoted
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), inner, flags=re.DOTALL)


def tsv_fields(line: str) -> list[str]:
    """Return the fields of a line of TSV."""
    return [unquoted(cell) for cell in line.split("\t")] if line else []


def json_answer(answer: bytes) -> dict[str, Any]:
    """Parse an answer in the format JSONCompact."""
    read = json.loads(answer or b"{}")
    assert isinstance(read, dict)
    return read


def json_rows(answer: bytes) -> list[list[Any]]:
    """Parse an answer in the format JSONCompactEachRow."""
    return [json.loads(line) for line in answer.splitlines() if line]


def json_lines(rows: Sequence[Any]) -> str:
    """Encode rows in the format JSONCompactEachRow."""
    return "\n".join(json.dumps(row) for row in rows)
