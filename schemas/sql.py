"""The SQL of the store: numbered migrations that go forward only, and views that hold no data.

`migrations/NNNN_name.sql` creates and alters tables; a released file is never changed. `views/NAME.sql` holds
one SELECT, and `views/NAME.yaml` says what its columns mean; a view is made anew whenever its text changes.
`derived/NAME.sql` fills tables from others (store/load/derived.py); `${derived_NAME}` in a view is it.
`fragments/NAME.sql` is what several of `queries/` and `views/` share; `${NAME}` in them is it.
All are templates: `${database}`, `${on_cluster}` and `${replicated}` make one text serve the embedded store,
a single server and a replicated cluster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from string import Template

import yaml

from schemas import records

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Dialect:
    """Where the statements will run. `cluster` is None for the embedded store and for a single server."""

    database: str
    cluster: str | None = None

    def render(self, text: str) -> str:
        """Fill the templates in `text`; KeyError for one that is not known."""
        return Template(text).substitute(
            database=self.database,
            on_cluster=f"ON CLUSTER '{self.cluster}'" if self.cluster else "",
            replicated="Replicated" if self.cluster else "",
        )


@dataclass(frozen=True)
class Migration:
    """One step of the tables' history; `version` counts from 1 without a gap."""

    version: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the template, by which a change after the release is noticed."""
        return sha256(self.text.encode()).hexdigest()

    def statements(self, dialect: Dialect) -> list[str]:
        """The statements in order, rendered."""
        return _statements(self.text, dialect)


@dataclass(frozen=True)
class View:
    """A view: its SELECT and what its columns mean (`columns`: name -> comment, in the SELECT's order)."""

    name: str
    meaning: str
    columns: dict[str, str]
    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of all that the view is made of."""
        return sha256(repr((self.text, self.meaning, self.columns)).encode()).hexdigest()

    def statement(self, dialect: Dialect) -> str:
        """The statement that makes the view, or makes it anew."""
        select = self.text.rstrip(";")
        return dialect.render(
            f"CREATE OR REPLACE VIEW ${{database}}.{self.name} ${{on_cluster}} AS\n{select}"
        )


def bootstrap(dialect: Dialect) -> list[str]:
    """The statements that stand before the first migration; they can be repeated."""
    return _statements((HERE / "bootstrap.sql").read_text(encoding="utf-8"), dialect)


def migrations() -> list[Migration]:
    """All migrations, in order; ValueError if a number is missing or used twice."""
    found = []
    for place, path in enumerate(sorted((HERE / "migrations").glob("*.sql")), start=1):
        number, _, name = path.stem.partition("_")
        if int(number) != place:
            raise ValueError(f"{path.name}: expected number {place:04d}")
        found.append(Migration(place, name, path.read_text(encoding="utf-8")))
    return found


def views() -> list[View]:
    """All views, each after the views that it reads."""
    found: dict[str, View] = {}
    for path in sorted((HERE / "views").glob("*.sql")):
        described = yaml.safe_load(path.with_suffix(".yaml").read_text(encoding="utf-8"))
        if "columns_of" in described:
            kind = records.load(described["columns_of"])
            columns = {column.name: column.comment for column in kind.columns}
        else:
            columns = {str(k): str(v) for k, v in described["columns"].items()}
        meaning = str(described["meaning"]).strip()
        text = with_fragments(path.read_text(encoding="utf-8"))
        for name in re.findall(r"\$\{derived_(\w+)\}", text):
            text = text.replace(f"${{derived_{name}}}", _derivation(name))
        found[path.stem] = View(path.stem, meaning, columns, text)
    ordered: list[View] = []

    def place(view: View, above: tuple[str, ...]) -> None:
        if view.name in above:
            raise ValueError(f"view {view.name} reads itself")
        for name in re.findall(r"\$\{database\}\.(\w+)", view.text):
            if name in found:
                place(found[name], (*above, view.name))
        if view not in ordered:
            ordered.append(view)

    for view in found.values():
        place(view, ())
    return ordered


def query(name: str, dialect: Dialect) -> str:
    """The named query of `queries/NAME.sql`, rendered."""
    return query_text((HERE / "queries" / f"{name}.sql").read_text(encoding="utf-8"), dialect)


def query_text(text: str, dialect: Dialect) -> str:
    """The text of a query's file, rendered, without comments and final semicolon."""
    return dialect.render(with_fragments(text)).rstrip(";")


def with_fragments(text: str) -> str:
    """Give the text of a query or view without comments, with fragments (which may hold others) in place."""
    fragments = {path.stem: path for path in (HERE / "fragments").glob("*.sql")}

    def of(place: re.Match[str]) -> str:
        path = fragments.get(place[1])
        return with_fragments(path.read_text(encoding="utf-8")) if path else place[0]

    return re.sub(r"\$\{(\w+)\}", of, _without_comments(text).strip())


def derived(name: str, dialect: Dialect, *, units: str = "") -> list[str]:
    """The statements of `derived/NAME.sql`, rendered; `units`: the condition of the units to derive from."""
    text = (HERE / "derived" / f"{name}.sql").read_text(encoding="utf-8")
    return [text.replace("{units}", units) for text in _statements(text, dialect)]


def _derivation(name: str) -> str:
    """The SELECT by which `derived/NAME.sql` fills its table, over the units that are not there yet."""
    text = _without_comments((HERE / "derived" / f"{name}.sql").read_text(encoding="utf-8"))
    select = text[text.index("\nSELECT") :].strip().rstrip(";")
    units = "SELECT run, vantage, repetition FROM ${database}.unit_not_rolled_up"
    return select.replace("{units}", f"(run, vantage, repetition) IN ({units})")


def _statements(text: str, dialect: Dialect) -> list[str]:
    """Split at the semicolons that end a line, which is how the files are written."""
    parts = re.split(r";[ \t]*(?:\n|$)", dialect.render(_without_comments(text)))
    return [part.strip() for part in parts if part.strip()]


def _without_comments(text: str) -> str:
    """`text` without its lines of comment, which may hold semicolons and templates."""
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("--"))
