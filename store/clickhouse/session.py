"""One client's session with the engine: settings, queries, inserts."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from store.clickhouse.insert_buffer import InsertBuffer
from store.engine import access
from store.engine.session import EngineError, EngineSession
from store.errors import ACCESS_DENIED
from store.protocol.blocks import NativeBlock, each_native
from store.protocol.packets import Query, Setting
from store.protocol.refusal import NOT_IMPLEMENTED, Refusal
from store.sql import field, identifier, literal
from store.statements import statement, vocabulary
from store.statements.guard import refused_to_clients, refused_to_loaders

UNKNOWN_SETTING = 115
SETTING_NOT_ALLOWED = 452

_ALWAYS: dict[str, object] = {
    # JSON is sent as text: clients understand it, and the length is known.
    "output_format_native_write_json_as_string": 1,
    "print_pretty_type_names": 0,
}
_CODE = re.compile(r"Code: (\d+)\. DB::(?:Errno)?Exception: ")
_WRAPPING = re.compile(
    r"^Streaming query failed: |(: |\. )In scope SELECT formatQuery\(.*?(?= \([A-Z_]+\)\s*$|$)"
    r"| ?\(version [^)]*\)\s*$"
    # An insert reaches the engine as a file without a name.
    r"|: \(in file/uri /proc/self/fd/\d+\)", re.DOTALL,
)  # fmt: skip


def refusal(error: EngineError, folder: Path) -> Refusal:
    """Return the engine's error as clients expect it: its code, and its message without chDB's wrapping.

    Paths are relative to `folder`, so clients do not see where the store is.
    """
    found = _CODE.search(str(error))
    message = str(error)[found.end() :] if found else str(error)
    for place in (folder, folder.resolve()):
        message = message.replace(f"{place}/", "").replace(str(place), "the store")
    return Refusal(int(found[1]) if found else 1001, _WRAPPING.sub("", message).strip())


class ClientSession:
    """Runs a client's statements, one at a time. `tag` marks its queries, so they can be killed."""

    def __init__(
        self, folder: Path, database: str, tag: str, *, read_only: bool, only_loads: bool = False
    ) -> None:
        """Open a session on `folder`, which this process has open; Refusal if the store has no `database`."""
        self._folder = folder
        self._tag = tag
        self._read_only = read_only
        self._only_loads = only_loads
        self._applied: dict[str, str] = {}
        self._locked = False
        self.database = database
        self._engine = self._opened()

    def on_progress(self, report: Any) -> None:
        """See `Engine.on_progress`."""
        self._progress = report
        self._engine.on_progress(report)

    def refusal(self, error: EngineError) -> Refusal:
        """Return the engine's error as clients expect it."""
        return refusal(error, self._folder)

    def prepare(self, query: Query) -> statement.Statement:
        """Apply a query's settings and check its text; Refusal or EngineError if it is not allowed."""
        self._apply(query.settings)
        parsed = self._engine.formatted(query.text)
        reason = refused_to_clients(self._engine, parsed)
        if reason:
            raise Refusal(NOT_IMPLEMENTED, reason)
        if self._only_loads and (reason := refused_to_loaders(parsed)):
            raise Refusal(ACCESS_DENIED, reason)
        parameters = {name: statement.unquoted(value) for name, value in query.parameters.items()}
        return statement.Statement(query.text, parsed, parameters)

    def answer(self, prepared: statement.Statement) -> Iterator[NativeBlock]:
        """Yield the blocks of the answer; the first one has names and types, even without rows."""
        if prepared.insert_of_text:
            self._insert_text(prepared.insert_of_text)
            return
        header = NativeBlock()
        blocks = self._blocks(prepared)
        for block in blocks:
            if not header.names:
                header = block
                # In `Native`, the engine omits a DateTime's time zone, and it cannot run DESCRIBE during
                # an answer. So get the header first, then run the query again.
                if prepared.is_select and "DateTime" in block.types:
                    blocks.close()
                    header = self._header(prepared)
                    for typed_block in self._blocks(prepared):
                        typed_block.types = header.types
                        yield typed_block
                    break
            yield block
        if not header.names and prepared.gives_rows:
            yield self._header(prepared)
        if prepared.changes_database:
            self.database = self._engine.run("SELECT currentDatabase()", "RawBLOB").decode()

    def totals_or_extremes(self, prepared: statement.Statement, what: str) -> NativeBlock | None:
        """Return the totals or the extremes (`what`) of an answer; `None` if they are missing.

        The engine returns them in text formats only, so this runs the query again.
        """
        answer = statement.json_answer(self._engine.run(prepared.text, "JSONCompact", prepared.parameters))
        if what not in answer:
            return None
        rows = [answer[what]["min"], answer[what]["max"]] if what == "extremes" else [answer[what]]
        names = [column["name"] for column in answer["meta"]]
        types = [column["type"] for column in answer["meta"]]
        return self._typed(names, types, statement.json_lines(rows))

    def insert_header(self, prepared: statement.Insert) -> NativeBlock:
        """Return the columns that an insert expects, as a block without rows."""
        if prepared.columns:
            columns = self._described(f"(SELECT {prepared.columns} FROM {prepared.table})", {})
        else:
            columns = [row for row in self._described(f"TABLE {prepared.table}", {}) if not row[2]]
        return NativeBlock([name for name, *_ in columns], [type_name for _, type_name, _ in columns])

    @contextmanager
    def insert_buffer(self) -> Iterator[InsertBuffer]:
        """Yield a buffer for an insert's blocks."""
        buffer = InsertBuffer(self._folder)
        try:
            yield buffer
        finally:
            buffer.close()

    def insert(self, prepared: statement.Insert, header: NativeBlock, buffer: InsertBuffer) -> None:
        """Insert all blocks of `buffer` as one block, atomically per partition."""
        if not buffer.rows:
            return
        rows = buffer.rows
        names = ", ".join(identifier(name) for name in header.names)
        structure = ", ".join(
            f"{identifier(name)} {type_name}"
            for name, type_name in zip(header.names, header.types, strict=True)
        )
        # One thread and one block: the rows become one part per partition.
        self._engine.run(
            f"INSERT INTO {prepared.table} ({names}) {prepared.settings} SELECT {names} "
            f"FROM file({literal(buffer.path)}, 'Native', {literal(structure)}) "
            f"SETTINGS max_threads = 1, max_insert_threads = 1, max_insert_block_size = {rows}, "
            f"min_insert_block_size_rows = {rows}, min_insert_block_size_bytes = 0"
        )

    def _insert_text(self, prepared: statement.Insert) -> None:
        """Insert rows from a statement's text as a file, because statements could follow rows in a text."""
        columns = f"({prepared.columns})" if prepared.columns else ""
        with self.insert_buffer() as buffer:
            buffer.add_text(prepared.rows)
            self._engine.run(
                f"INSERT INTO {prepared.table} {columns} FROM INFILE {literal(buffer.path)} "
                f"{prepared.settings} FORMAT {prepared.format}"
            )

    def close(self) -> None:
        """End the session and drop its temporary tables."""
        self._engine.close()

    def _opened(self) -> EngineSession:
        engine = EngineSession(str(self._folder), access.SERVER)
        try:
            engine.set(_ALWAYS | {"log_comment": self._tag})
            engine.run(f"USE {identifier(self.database)}")
        except EngineError as error:
            engine.close()
            raise self.refusal(error) from error
        return engine

    def _apply(self, settings: Mapping[str, Setting]) -> None:
        """Set the session to a query's settings, which apply to that query only."""
        values = {name: setting.value for name, setting in settings.items()}
        if values == self._applied and (self._locked or not self._read_only):
            return
        if self._locked:  # a read-only session cannot change settings, so open another one
            fresh = self._opened()
            self._engine.close()
            self._engine = fresh
            self._engine.on_progress(self._progress)
            self._applied, self._locked = {}, False
        for name in self._applied.keys() - values.keys():
            if name == "log_comment":
                self._set(name, "", important=True)
            else:
                self._engine.run(f"SET {statement.setting_name(name)} = DEFAULT")
        self._applied = {}
        only_reads = values.pop("readonly", "0")
        if self._read_only:
            only_reads = "1"
        for name, value in values.items():
            self._set(name, value, important=settings[name].important)
            self._applied[name] = value
        if only_reads != "0":
            self._set("readonly", only_reads, important=True)
            self._locked = True
        if "readonly" in settings:
            self._applied["readonly"] = settings["readonly"].value

    def _set(self, name: str, value: str, *, important: bool) -> None:
        if name == "log_comment":  # only a packet can set it, and the tag stays in front
            value = f"{self._tag} {value}".strip()
        elif not vocabulary.is_allowed_setting(name) and self._knows(name):
            raise Refusal(SETTING_NOT_ALLOWED, f"the setting {name} is not for clients of this server")
        try:
            self._engine.set({statement.setting_name(name): value})
        except EngineError as error:
            if self.refusal(error).code != UNKNOWN_SETTING or important:
                raise

    def _knows(self, name: str) -> bool:
        """Return whether the engine has the setting `name`; it reports unknown ones itself."""
        given = {"name": field(name)}
        return (
            self._engine.run("SELECT 1 FROM system.settings WHERE name = {name:String}", "TSV", given) != b""
        )

    def _blocks(self, prepared: statement.Statement) -> Generator[NativeBlock, None, None]:
        with closing(self._engine.stream(prepared.text, "Native", prepared.parameters)) as pieces:
            for piece in pieces:
                yield from each_native(piece)

    def _header(self, prepared: statement.Statement) -> NativeBlock:
        if prepared.is_select:
            columns = self._described(f"({prepared.text})", prepared.parameters)
        else:
            answer = self._engine.run(prepared.text, "TSVWithNamesAndTypes", prepared.parameters).decode()
            names, types = (statement.tsv_fields(line) for line in answer.split("\n")[:2])
            columns = [(name, type_name, "") for name, type_name in zip(names, types, strict=True)]
        return NativeBlock([name for name, *_ in columns], [type_name for _, type_name, _ in columns])

    def _described(self, what: str, parameters: Mapping[str, str]) -> list[tuple[str, str, str]]:
        """Return name, type and kind of default (empty if the column accepts inserts) of each column."""
        described = self._engine.run(f"DESCRIBE {what}", "JSONCompactEachRow", parameters)
        columns = []
        for row in statement.json_rows(described):
            kind = str(row[2]) if row[2] in ("ALIAS", "MATERIALIZED", "EPHEMERAL") else ""
            columns.append((str(row[0]), str(row[1]), kind))
        return columns

    def _typed(self, names: list[str], types: list[str], lines: str) -> NativeBlock | None:
        """Return a block from lines of JSON lists."""
        structure = ", ".join(
            f"{identifier(name)} {type_name}" for name, type_name in zip(names, types, strict=True)
        )
        made = self._engine.run(
            "SELECT * FROM format(JSONCompactEachRow, {structure:String}, {lines:String})",
            "Native",
            {"structure": field(structure), "lines": field(lines)},
        )
        return next(each_native(made), None)
