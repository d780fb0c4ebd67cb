"""One client's session with the engine: settings, questions, inserts."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

from store import access
from store.engine import Engine, EngineError
from store.protocol.blocks import Block, each_native
from store.protocol.packets import Query, Setting
from store.protocol.refusal import NOT_IMPLEMENTED, Refusal
from store.sql import field, identifier, literal
from store.statements import statement, vocabulary
from store.statements.guard import refused_to_clients

UNKNOWN_SETTING = 115
SETTING_NOT_ALLOWED = 452
NOT_ENOUGH_SPACE = 243

# What an insert may hold in memory before its rows go to the disk.
_MEMORY_BYTES = 16 << 20
_ALWAYS: dict[str, object] = {
    # JSON is passed on as text, which clients understand and whose length is known.
    "output_format_native_write_json_as_string": 1,
    "print_pretty_type_names": 0,
}
_CODE = re.compile(r"Code: (\d+)\. DB::(?:Errno)?Exception: ")
_OWN_WORDS = re.compile(
    r"^Streaming query failed: |(: |\. )In scope SELECT formatQuery\(.*?(?= \([A-Z_]+\)\s*$|$)"
    r"| ?\(version [^)]*\)\s*$", re.DOTALL,
)  # fmt: skip


class Spool:
    """Blocks on their way into the engine, in a file without a name: in memory, or beside the store."""

    def __init__(self, folder: Path) -> None:
        """`folder` is where a large one goes."""
        self._folder = folder
        self._in_memory = True
        self._file: IO[bytes] = open(os.memfd_create("firstflight-insert"), "w+b")  # noqa: PTH123, SIM115
        self.rows = 0

    def add(self, block: Block) -> None:
        """Keep one more block; Refusal if the disk is full."""
        with _kept():
            if self._in_memory and self._file.tell() > _MEMORY_BYTES:
                self._move()
            self._file.write(block.native())
        self.rows += block.rows

    def add_text(self, rows: str) -> None:
        """Keep rows that stood in a statement."""
        with _kept():
            self._file.write(rows.encode())

    def close(self) -> None:
        """Forget the blocks."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _move(self) -> None:
        beside = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._file.seek(0)
        shutil.copyfileobj(self._file, beside)
        self._file.close()
        self._file, self._in_memory = beside, False

    @property
    def path(self) -> str:
        """The name by which this process can open the file, with all blocks in it."""
        with _kept():
            self._file.flush()
        return f"/proc/self/fd/{self._file.fileno()}"


@contextmanager
def _kept() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refusal(NOT_ENOUGH_SPACE, f"cannot keep the rows of an insert: {error.strerror}") from error


def refusal(error: EngineError) -> Refusal:
    """The engine's error as clients expect it: its code, and its words without the engine's own wrapping."""
    found = _CODE.search(str(error))
    message = str(error)[found.end() :] if found else str(error)
    return Refusal(int(found[1]) if found else 1001, _OWN_WORDS.sub("", message).strip())


class Session:
    """Statements of one client, one by one. `tag` marks its queries, so that others can end them."""

    def __init__(self, folder: Path, database: str, tag: str, *, read_only: bool) -> None:
        """Open a session on `folder`, a store that this process has open; Refusal if it has no `database`."""
        self._folder = folder
        self._tag = tag
        self._read_only = read_only
        self._applied: dict[str, str] = {}
        self._locked = False
        self.database = database
        self._engine = self._opened()

    def on_progress(self, told: Any) -> None:
        """See `Engine.on_progress`."""
        self._progress = told
        self._engine.on_progress(told)

    def prepare(self, query: Query) -> statement.Statement:
        """Apply a query's settings and look at its text; Refusal or EngineError if it will not be run."""
        self._apply(query.settings)
        parsed = self._engine.formatted(query.text)
        reason = refused_to_clients(self._engine, parsed)
        if reason:
            raise Refusal(NOT_IMPLEMENTED, reason)
        parameters = {name: statement.unquoted(value) for name, value in query.parameters.items()}
        return statement.Statement(query.text, parsed, parameters)

    def answer(self, asked: statement.Statement) -> Iterator[Block]:
        """The blocks of the answer; the first one tells names and types, also when there are no rows."""
        if asked.insert_of_text:
            self._insert_text(asked.insert_of_text)
            return
        header = Block()
        blocks = self._blocks(asked)
        for block in blocks:
            if not header.names:
                header = block
                # In `Native`, the engine leaves away the time zone of a DateTime. It describes nothing while
                # it answers, so the question begins again.
                if asked.is_select and "DateTime" in block.types:
                    blocks.close()
                    header = self._header(asked)
                    for again in self._blocks(asked):
                        again.types = header.types
                        yield again
                    break
            yield block
        if not header.names and asked.gives_rows:
            yield self._header(asked)
        if asked.changes_database:
            self.database = self._engine.run("SELECT currentDatabase()", "RawBLOB").decode()

    def beside(self, asked: statement.Statement, what: str) -> Block | None:
        """The totals, or the extremes (`what`) of an answer; None if it has none.

        The engine gives them in text formats only, so the query is run once more for them.
        """
        answer = statement.json_answer(self._engine.run(asked.text, "JSONCompact", asked.parameters))
        if what not in answer:
            return None
        rows = [answer[what]["min"], answer[what]["max"]] if what == "extremes" else [answer[what]]
        names = [column["name"] for column in answer["meta"]]
        types = [column["type"] for column in answer["meta"]]
        return self._typed(names, types, statement.json_lines(rows))

    def insert_header(self, asked: statement.Insert) -> Block:
        """The columns that an insert expects, as a block without rows."""
        if asked.columns:
            told = self._described(f"(SELECT {asked.columns} FROM {asked.table})", {})
        else:
            told = [row for row in self._described(f"TABLE {asked.table}", {}) if not row[2]]
        return Block([name for name, *_ in told], [type_name for _, type_name, _ in told])

    @contextmanager
    def spool(self) -> Iterator[Spool]:
        """A place for the blocks of an insert."""
        spool = Spool(self._folder)
        try:
            yield spool
        finally:
            spool.close()

    def insert(self, asked: statement.Insert, header: Block, spool: Spool) -> None:
        """Insert all blocks of `spool` as one: wholly or not at all, partition by partition."""
        if not spool.rows:
            return
        rows = spool.rows
        names = ", ".join(identifier(name) for name in header.names)
        structure = ", ".join(
            f"{identifier(name)} {type_name}"
            for name, type_name in zip(header.names, header.types, strict=True)
        )
        # One thread and one block: the rows become one part a partition.
        self._engine.run(
            f"INSERT INTO {asked.table} ({names}) {asked.settings} SELECT {names} "
            f"FROM file({literal(spool.path)}, 'Native', {literal(structure)}) "
            f"SETTINGS max_threads = 1, max_insert_threads = 1, max_insert_block_size = {rows}, "
            f"min_insert_block_size_rows = {rows}, min_insert_block_size_bytes = 0"
        )

    def _insert_text(self, asked: statement.Insert) -> None:
        """Insert rows of a statement's text, as a file: in a text, statements could stand behind them."""
        columns = f"({asked.columns})" if asked.columns else ""
        with self.spool() as spool:
            spool.add_text(asked.rows)
            self._engine.run(
                f"INSERT INTO {asked.table} {columns} FROM INFILE {literal(spool.path)} {asked.settings} "
                f"FORMAT {asked.format}"
            )

    def close(self) -> None:
        """End it, and what is temporary in it."""
        self._engine.close()

    def _opened(self) -> Engine:
        engine = Engine(str(self._folder), access.SERVER)
        try:
            engine.set(_ALWAYS | {"log_comment": self._tag})
            engine.run(f"USE {identifier(self.database)}")
        except EngineError as error:
            engine.close()
            raise refusal(error) from error
        return engine

    def _apply(self, settings: Mapping[str, Setting]) -> None:
        """Bring the session to the settings that came with a query, which hold for it alone."""
        wanted = {name: setting.value for name, setting in settings.items()}
        if wanted == self._applied and (self._locked or not self._read_only):
            return
        if self._locked:  # nothing can be set in a read-only session, so it needs another one
            fresh = self._opened()
            self._engine.close()
            self._engine = fresh
            self._engine.on_progress(self._progress)
            self._applied, self._locked = {}, False
        for name in self._applied.keys() - wanted.keys():
            if name == "log_comment":
                self._set(name, "", important=True)
            else:
                self._engine.run(f"SET {statement.setting_name(name)} = DEFAULT")
        self._applied = {}
        only_reads = wanted.pop("readonly", "0")
        if self._read_only:
            only_reads = "1"
        for name, value in wanted.items():
            self._set(name, value, important=settings[name].important)
            self._applied[name] = value
        if only_reads != "0":
            self._set("readonly", only_reads, important=True)
            self._locked = True
        if "readonly" in settings:
            self._applied["readonly"] = settings["readonly"].value

    def _set(self, name: str, value: str, *, important: bool) -> None:
        if name == "log_comment":  # the tag must stay, so it is for a packet to set, and for no statement
            value = f"{self._tag} {value}".strip()
        elif not vocabulary.is_allowed_setting(name) and self._knows(name):
            raise Refusal(SETTING_NOT_ALLOWED, f"the setting {name} is not for clients of this server")
        try:
            self._engine.set({statement.setting_name(name): value})
        except EngineError as error:
            if refusal(error).code != UNKNOWN_SETTING or important:
                raise

    def _knows(self, name: str) -> bool:
        """Whether the engine has a setting of that name; for others it has words of its own."""
        given = {"name": field(name)}
        return (
            self._engine.run("SELECT 1 FROM system.settings WHERE name = {name:String}", "TSV", given) != b""
        )

    def _blocks(self, asked: statement.Statement) -> Generator[Block, None, None]:
        with closing(self._engine.stream(asked.text, "Native", asked.parameters)) as pieces:
            for piece in pieces:
                yield from each_native(piece)

    def _header(self, asked: statement.Statement) -> Block:
        if asked.is_select:
            told = self._described(f"({asked.text})", asked.parameters)
        else:
            answer = self._engine.run(asked.text, "TSVWithNamesAndTypes", asked.parameters).decode()
            names, types = (statement.tsv_fields(line) for line in answer.split("\n")[:2])
            told = [(name, type_name, "") for name, type_name in zip(names, types, strict=True)]
        return Block([name for name, *_ in told], [type_name for _, type_name, _ in told])

    def _described(self, what: str, parameters: Mapping[str, str]) -> list[tuple[str, str, str]]:
        """Name, type and kind of default (empty if it can be inserted) of each column."""
        described = self._engine.run(f"DESCRIBE {what}", "JSONCompactEachRow", parameters)
        found = []
        for row in statement.json_rows(described):
            kind = str(row[2]) if row[2] in ("ALIAS", "MATERIALIZED", "EPHEMERAL") else ""
            found.append((str(row[0]), str(row[1]), kind))
        return found

    def _typed(self, names: list[str], types: list[str], lines: str) -> Block | None:
        """A block from lines of JSON lists."""
        structure = ", ".join(
            f"{identifier(name)} {type_name}" for name, type_name in zip(names, types, strict=True)
        )
        made = self._engine.run(
            "SELECT * FROM format(JSONCompactEachRow, {structure:String}, {lines:String})",
            "Native",
            {"structure": field(structure), "lines": field(lines)},
        )
        return next(each_native(made), None)
