"""The SQL of the store: numbered, forward-only migrations, and views.

`migrations/NNNN_name.sql` creates and alters tables; a released file never changes. `views/NAME.sql` has one
SELECT, and `views/NAME.yaml` describes its columns; a view is recreated whenever its text changes.
`derived/NAME.sql` fills tables from others (store/load/derived.py); `${derived_NAME}` in a view includes it.
`fragments/NAME.sql` has SQL that several `queries/` and `views/` share; `${NAME}` in them includes it.
`${NAME WORD, ...}` also replaces `${arguments}` in the fragment by these words as quoted strings. A line with
`${each KIND.COLUMN}` is repeated for each value of this column, with `{value}` and its `{number}`. All are
templates: with `${database}`, `${on_cluster}` and `${replicated}`, the same text works for the embedded
store, a single server, and a cluster with any number of shards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import Any

from schemas import records, sharding, yaml_text

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Dialect:
    """Database and cluster of the statements. `cluster` is `None` for an embedded store or a single server.

    `sharded`: the cluster has several shards (schemas/sharding.py).
    """

    database: str
    cluster: str | None = None
    sharded: bool = False

    def render(self, text: str) -> str:
        """Fill the templates in `text`; KeyError for an unknown one."""
        return Template(text).substitute(
            database=self.database,
            on_cluster=f"ON CLUSTER '{self.cluster}'" if self.cluster else "",
            replicated="Replicated" if self.cluster else "",
        )

    def each(self, statement: str) -> list[str]:
        """Return the statements for a rendered one; with shards, a change to a table may need two."""
        if self.cluster and self.sharded:
            return sharding.spread(statement, self.database, self.cluster)
        return [statement]

    @property
    def settings(self) -> dict[str, object]:
        """The settings that make all shards answer as a single store; empty if the store is not sharded."""
        return dict(sharding.SETTINGS) if self.sharded else {}

    def stored(self, table: str) -> str:
        """Return the name of the table that has the rows of `table` on this server."""
        return sharding.local(table) if self.sharded else table

    def table_of(self, stored: str) -> str:
        """Return the table with the rows of `stored`: the inverse of the method `stored`."""
        table = stored.removesuffix(sharding.LOCAL)
        return table if self.stored(table) == stored else stored

    def rows_of(self, table: str) -> str:
        """Return the target of an ALTER that deletes rows of `table`; if it is sharded, on the cluster."""
        stored = self.stored(table)
        return f"{self.database}.{stored}" + (f" ON CLUSTER '{self.cluster}'" if stored != table else "")

    def caught_up(self, table: str) -> str:
        """Return the statement that waits for the connected replica; of a sharded table, for all replicas."""
        stored = self.stored(table)
        cluster_sql = f"ON CLUSTER '{self.cluster}' " if stored != table else ""
        return f"SYSTEM SYNC REPLICA {cluster_sql}{self.database}.{stored}"


@dataclass(frozen=True)
class Migration:
    """A migration of the tables; `version` counts from 1 without gaps."""

    version: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the template, to detect a change after the release."""
        return sha256(self.text.encode()).hexdigest()

    def statements(self, dialect: Dialect) -> list[str]:
        """Return the rendered statements, in order."""
        return _statements(self.text, dialect)


@dataclass(frozen=True)
class View:
    """A view: its SELECT and its comments (`columns`: name -> comment, in the SELECT's order)."""

    name: str
    meaning: str
    columns: dict[str, str]
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the view's SELECT and comments."""
        return sha256(repr((self.text, self.meaning, self.columns)).encode()).hexdigest()

    def statement(self, dialect: Dialect) -> str:
        """Return the statement that creates or replaces the view."""
        select = self.text.rstrip(";")
        return dialect.render(
            f"CREATE OR REPLACE VIEW ${{database}}.{self.name} ${{on_cluster}} AS\n{select}"
        )


def bootstrap(dialect: Dialect) -> list[str]:
    """Return the statements that precede the first migration; they can be repeated."""
    return _statements((HERE / "bootstrap.sql").read_text(encoding="utf-8"), dialect)


def migrations() -> list[Migration]:
    """Return all migrations, in order; ValueError if a number is missing or used twice."""
    found = []
    for version, path in enumerate(sorted((HERE / "migrations").glob("*.sql")), start=1):
        number, _, name = path.stem.partition("_")
        if int(number) != version:
            raise ValueError(f"{path.name}: expected number {version:04d}")
        found.append(Migration(version, name, path.read_text(encoding="utf-8")))
    return found


def views() -> list[View]:
    """Return all views, each after the views that it reads."""
    found: dict[str, View] = {}
    for path in sorted((HERE / "views").glob("*.sql")):
        described = yaml_text.read(path.with_suffix(".yaml").read_text(encoding="utf-8"))
        if "columns_of" in described:
            kind = records.load(described["columns_of"])
            columns = {column.name: column.comment for column in kind.columns}
        else:
            columns = _view_columns(described["columns"])
        meaning = str(described["meaning"]).strip()
        text = with_fragments(path.read_text(encoding="utf-8"))
        for name in re.findall(r"\$\{derived_(\w+)\}", text):
            text = text.replace(f"${{derived_{name}}}", _derivation(name))
        found[path.stem] = View(path.stem, meaning, columns, text)
    ordered: list[View] = []

    def add(view: View, above: tuple[str, ...]) -> None:
        if view.name in above:
            raise ValueError(f"view {view.name} reads itself")
        for name in re.findall(r"\$\{database\}\.(\w+)", view.text):
            if name in found:
                add(found[name], (*above, view.name))
        if view not in ordered:
            ordered.append(view)

    for view in found.values():
        add(view, ())
    return ordered


def query(name: str, dialect: Dialect) -> str:
    """Return the named query of `queries/NAME.sql`, rendered."""
    return query_text((HERE / "queries" / f"{name}.sql").read_text(encoding="utf-8"), dialect)


def query_text(text: str, dialect: Dialect) -> str:
    """Return the text in a query's file, rendered, without comments and final semicolon."""
    return dialect.render(with_fragments(text)).rstrip(";")


def with_fragments(text: str) -> str:
    """Return the text of a query or view without comments, with fragments (which may be nested) included."""
    fragments = {path.stem: path for path in (HERE / "fragments").glob("*.sql")}

    def of(match: re.Match[str]) -> str:
        path, words = fragments.get(match[1]), re.findall(r"\w+", match[2] or "")
        if path is None:
            return match[0]
        arguments = ", ".join(f"'{word}'" for word in words)
        return with_fragments(path.read_text(encoding="utf-8").replace("${arguments}", arguments))

    included = re.sub(r"\$\{(\w+)((?: \w+,?)*)\}", of, _without_comments(text).strip())
    return re.sub(r"^( *)\$\{each ([\w.]+)\} (.*)$", _repeated, included, flags=re.MULTILINE)


def _values(column: str) -> tuple[str, ...]:
    """Return the values of a column KIND.COLUMN."""
    kind, _, name = column.partition(".")
    return records.load(kind).column(name).values


def _repeated(match: re.Match[str]) -> str:
    """Return a line with `${each KIND.COLUMN}` once for each value of the column."""
    indent, column, line = match.groups()
    lines = [
        indent + line.replace("{value}", value).replace("{number}", str(number))
        for number, value in enumerate(_values(column), start=1)
    ]
    return ",\n".join(lines)


def _view_columns(described: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a view with their comments; `each KIND.COLUMN` has columns for each value."""
    columns: dict[str, str] = {}
    for name, comment in described.items():
        if str(name).startswith("each "):
            for value in _values(name.removeprefix("each ")):
                columns |= {k.format(value=value): v.format(value=value) for k, v in comment.items()}
        else:
            columns[str(name)] = str(comment)
    return columns


def derived(name: str, dialect: Dialect, *, units: str = "") -> list[str]:
    """Return the rendered statements of `derived/NAME.sql`; `units`: the condition of the units."""
    text = (HERE / "derived" / f"{name}.sql").read_text(encoding="utf-8")
    return [text.replace("{units}", units) for text in _statements(text, dialect)]


def _derivation(name: str) -> str:
    """Return the SELECT with which `derived/NAME.sql` fills its table, for units that are not rolled up."""
    text = _without_comments((HERE / "derived" / f"{name}.sql").read_text(encoding="utf-8"))
    select = text[text.index("\nSELECT") :].strip().rstrip(";")
    units = "SELECT run, vantage, repetition FROM ${database}.unit_not_rolled_up"
    return select.replace("{units}", f"(run, vantage, repetition) IN ({units})")


def _statements(text: str, dialect: Dialect) -> list[str]:
    """Split at semicolons at the end of a line, the convention of these files."""
    parts = re.split(r";[ \t]*(?:\n|$)", dialect.render(_without_comments(text)))
    return [statement for part in parts if part.strip() for statement in dialect.each(part.strip())]


def _without_comments(text: str) -> str:
    """Return `text` without comment lines, which may contain semicolons and templates."""
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("--"))
