"""Named queries: a file of SQL with a sentence of what it answers, typed parameters and described columns.

`schemas/queries/NAME.sql` is the SQL, `NAME.yaml` says the rest; parameters that several share stand in
parameters.yaml. A parameter stands in the SQL as `{name:Type}`. Its value is checked by type here and put in
as a literal, so that what is run can be shown, read and pasted into `firstflight sql`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from firstflight.errors import UsageError
from firstflight.system import terminal
from schemas import sql
from store import Store, migrate, open_store
from store.base import Answer
from store.errors import StoreError
from store.sql import literal

FOLDER = sql.HERE / "queries"
_SHARED = "parameters"
_PLACE = re.compile(r"\{(\w+):([A-Za-z0-9]+(?:\([A-Za-z0-9]+\))?)\}")


_HEAD = """\
# Named queries

Made from `schemas/queries/*.yaml` by `python -m reports.query`; do not edit it here.

    firstflight query                                    # this list, a line each
    firstflight query NAME --about                       # what its parameters and columns mean
    firstflight query NAME --param KEY=VALUE --param ... --format JSONEachRow
    firstflight query NAME --param KEY=VALUE --sql       # the SQL, to change and put to `firstflight sql -`

What is counted is what docs/definitions.md says: shares are fractions from 0 to 1, times are microseconds,
null means that there is nothing to tell. Probes with more than one attempt count in shares and not in delays.
Unless `all_addresses` is true, only the first IPv4 address of each name counts. Addresses without origin AS
have no CDN and are in no query by CDN.
"""


@dataclass(frozen=True)
class Parameter:
    """One parameter. `default` is None if a value must be given; both are texts as a person writes them."""

    name: str
    type: str
    meaning: str
    default: str | None = None

    def literal(self, text: str) -> str:
        """`text` as a literal of SQL; UsageError if it is not of the parameter's type."""
        try:
            return _LITERAL_OF[self.type](text)
        except ValueError:
            raise UsageError(f"{self.name}={text}: {_EXPECTED[self.type]} expected") from None


@dataclass(frozen=True)
class NamedQuery:
    """A named query. `answers` is the question in one sentence; `columns`: name -> meaning, in order."""

    name: str
    answers: str
    parameters: tuple[Parameter, ...]
    columns: Mapping[str, str]
    text: str

    def rendered(self, given: Mapping[str, str], dialect: sql.Dialect) -> str:
        """The SQL with all values in it. UsageError for a value of the wrong type, missing or unknown."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise UsageError(
                    f"the query {self.name} has no parameter {name!r}; it has {', '.join(known) or 'none'}"
                )
        literals = {}
        for name, parameter in known.items():
            text = given.get(name, parameter.default)
            if text is None:
                raise UsageError(
                    f"the query {self.name} needs --param {name}=...: {parameter.meaning.rstrip('.')}"
                )
            literals[name] = parameter.literal(text)
        # One pass over the text of the file, so that nothing in a value is taken for a template.
        return _PLACE.sub(lambda place: literals[place[1]], sql.query_text(self.text, dialect))


def names() -> list[str]:
    """The names of all named queries, sorted."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != _SHARED)


@cache
def load(name: str) -> NamedQuery:
    """The query of that name; UsageError if there is none."""
    if name not in names():
        raise UsageError(f"there is no query {name!r}; there are {', '.join(names())}")
    described = _read(FOLDER / f"{name}.yaml")
    shared = _read(FOLDER / f"{_SHARED}.yaml")
    parameters = []
    for entry in described.get("parameters", []):
        one, about = (entry, shared[entry]) if isinstance(entry, str) else next(iter(entry.items()))
        parameters.append(Parameter(one, about["type"], about["meaning"], about.get("default")))
    return NamedQuery(
        name,
        str(described["answers"]),
        tuple(parameters),
        {str(column): str(meaning) for column, meaning in described["columns"].items()},
        sql.with_fragments((FOLDER / f"{name}.sql").read_text(encoding="utf-8")),
    )


def rows(store: Store, name: str, given: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The answer of the query `name` with these parameters, from an open store; one dict per row."""
    return store.rows(load(name).rendered(given or {}, store.dialect))


def formatted(name: str, given: Mapping[str, str], output_format: str, url: str | None = None) -> Answer:
    """The answer in one of ClickHouse's formats. `url` as in `open_store`.

    UsageError for what a person got wrong; StoreError if the store refuses.
    """
    asked = load(name)
    with open_store(url) as store:
        text = asked.rendered(given, store.dialect)
        try:
            return store.formatted(text, output_format)
        except StoreError as error:
            if migrate.pending(store):
                raise UsageError(
                    f"the store in {store.location} lacks tables or views of this version of firstflight: bring "
                    "it up to date with `firstflight db migrate`"
                ) from error
            raise


def markdown() -> str:
    """docs/queries.md: every query, its parameters and its columns."""
    lines = [_HEAD]
    for one in map(load, names()):
        lines += [f"## {one.name}\n", f"{one.answers}\n"]
        lines += ["| parameter | type | default | |", "| --- | --- | --- | --- |"]
        for parameter in one.parameters:
            default = {None: "required", "": "all"}.get(parameter.default, f"`{parameter.default}`")
            lines.append(f"| `{parameter.name}` | {parameter.type} | {default} | {parameter.meaning} |")
        lines += ["", "| column | |", "| --- | --- |"]
        lines += [f"| `{column}` | {meaning} |" for column, meaning in one.columns.items()]
        lines.append("")
    return "\n".join(lines)


def _read(path: Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return read


def _date(text: str) -> str:
    day = date.fromisoformat(text)
    if not date(1970, 1, 1) <= day <= date(2149, 6, 6):  # what ClickHouse's Date holds
        raise ValueError
    return f"toDate('{day}')"


def _whole(text: str) -> str:
    if not (text.isascii() and text.isdigit() and int(text) < 2**32):
        raise ValueError
    return f"toUInt32({int(text)})"


def _number(text: str) -> str:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return f"toFloat64({value!r})"


def _truth(text: str) -> str:
    if text.lower() not in _TRUTH:
        raise ValueError
    return _TRUTH[text.lower()]


def _wholes(text: str) -> str:
    return f"CAST([{', '.join(_whole(part.strip()) for part in text.split(','))}], 'Array(UInt32)')"


_TRUTH = {"true": "true", "yes": "true", "1": "true", "false": "false", "no": "false", "0": "false"}
_LITERAL_OF: Mapping[str, Callable[[str], str]] = {
    "String": literal,
    "Date": _date,
    "UInt32": _whole,
    "Float64": _number,
    "Bool": _truth,
    "Array(UInt32)": _wholes,
}
_EXPECTED = {
    "String": "text",
    "Date": "a date like 2026-11-20",
    "UInt32": "a whole number",
    "Float64": "a number",
    "Bool": "true or false",
    "Array(UInt32)": "whole numbers joined by commas",
}

if __name__ == "__main__":
    terminal.echo(markdown(), end="")
