"""What kind of statement a client sent, told from its text as the engine's parser gives it back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_FORMAT_LINE = re.compile(r"^FORMAT \w+\n?", re.MULTILINE)
_SELECT = re.compile(r"\(*(SELECT|WITH)\b")
_OTHER_ROWS = re.compile(r"(SHOW|DESCRIBE|DESC|EXPLAIN|EXISTS|CHECK)\b")
_TOTALS = re.compile(r"^\s*WITH TOTALS$", re.MULTILINE)
_NAME = r"(?:`(?:[^`\\]|\\.)*`|\w+)"
_INSERT = re.compile(
    rf"INSERT INTO (?:TABLE )?(?P<table>{_NAME}(?:\.{_NAME})?)\s*"
    r"(?:\((?P<columns>.*)\))?\s*(?P<settings>SETTINGS [^\n]*)?\s*FORMAT \w+\s*",
    re.DOTALL,
)
_DATA_FOLLOWS = re.compile(r"\b(VALUES|FORMAT\s+\w+)\s*;?\s*$", re.IGNORECASE)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0", "a": "\a", "v": "\v"}
_SETTING = re.compile(r"\w+")


@dataclass(frozen=True)
class Insert:
    """An insert whose rows the client sends: table, columns and settings as the statement has them."""

    table: str
    columns: str
    settings: str


@dataclass(frozen=True)
class Statement:
    """A statement as it came (`given`) and as parsed; `parameters` as the engine takes them."""

    given: str
    parsed: str
    parameters: Mapping[str, str]

    @property
    def text(self) -> str:
        """The statement to run. A FORMAT clause is the client's affair: blocks are sent whatever it says."""
        without = _FORMAT_LINE.sub("", self.parsed)
        return self.given if without == self.parsed or self.parsed.startswith("INSERT") else without

    @property
    def is_select(self) -> bool:
        """Whether its columns can be asked for without running it."""
        return _SELECT.match(self.parsed) is not None

    @property
    def gives_rows(self) -> bool:
        """Whether it answers with rows, be it none."""
        return self.is_select or _OTHER_ROWS.match(self.parsed) is not None

    @property
    def changes_database(self) -> bool:
        """Whether the session's database may be another one afterwards."""
        return self.parsed.startswith("USE ")

    @property
    def has_totals(self) -> bool:
        """Whether the answer has totals beside its rows."""
        return self.is_select and _TOTALS.search(self.parsed) is not None

    @property
    def insert(self) -> Insert | None:
        """The insert that it is, if its rows are to come in blocks."""
        found = _INSERT.fullmatch(self.parsed)
        if not found or not _DATA_FOLLOWS.search(self.given):
            return None
        return Insert(found["table"], found["columns"] or "", found["settings"] or "")


def quoted_name(name: str) -> str:
    """`name` as an identifier of SQL, whatever it holds."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def setting_name(name: str) -> str:
    """`name` if it can be one of a setting, else a name that none has."""
    return name if _SETTING.fullmatch(name) else "unknown_setting"


def unquoted(quoted: str) -> str:
    """The text of a quoted literal, by which parameters are sent, each escape resolved once."""
    inner = quoted[1:-1] if len(quoted) > 1 and quoted[0] == quoted[-1] == "'" else quoted
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), inner, flags=re.DOTALL)


def tsv_fields(line: str) -> list[str]:
    """The fields of a line of TSV."""
    return [unquoted(cell) for cell in line.split("\t")] if line else []


def json_answer(answer: bytes) -> dict[str, Any]:
    """An answer in the format JSONCompact."""
    read = json.loads(answer or b"{}")
    assert isinstance(read, dict)
    return read


def json_rows(answer: bytes) -> list[list[Any]]:
    """An answer in the format JSONCompactEachRow."""
    return [json.loads(line) for line in answer.splitlines() if line]


def json_lines(rows: Sequence[Any]) -> str:
    """Rows in the format JSONCompactEachRow."""
    return "\n".join(json.dumps(row) for row in rows)
