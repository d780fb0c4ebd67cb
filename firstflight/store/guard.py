"""What a question may not do, though the engine's own read-only mode would let it.

The engine inside a process trusts whoever asks: `readonly` keeps tables as they are, but a scalar
`file('...')` reads any file of the user, INTO OUTFILE writes one, and a table function reaches other hosts. A
server's own rules (users, grants, user_files_path) do not exist there. So statements are judged by their text
as the engine's parser gives it back, in which only names, literals and operators are left.
"""

from __future__ import annotations

import re

from firstflight.errors import UsageError
from firstflight.store.engine import Engine

# Table functions that only compute, or read what is in the store.
_HARMLESS = frozenset({"format", "loop", "dictionary", "zeros", "zeros_mt", "viewexplain"})
# Functions that reach out and are not among the table functions; `eval` would hide any of them.
_OTHERS = frozenset({"file", "eval", "catboostevaluate"})

_LITERAL = re.compile(r"'(?:[^'\\]|\\.|'')*'", re.DOTALL)
_NAME = re.compile(r"`(?P<quoted>(?:[^`\\]|\\.)*)`|(?P<plain>[A-Za-z_]\w*)")
_PARAMETER = re.compile(r"\{\w+:")
_OUTFILE = re.compile(r"^\s*INTO OUTFILE ", re.MULTILINE)
_INFILE = re.compile(r"^INSERT INTO .*?\bFROM INFILE ", re.DOTALL)
# Statements that name files, programs or hosts by other means than a function.
_ENGINE = re.compile(r"\bENGINE = (\w+)")
_ENGINES = re.compile(
    r"\w*MergeTree|Atomic|Memory|Null|Log|TinyLog|StripeLog|Set|Join|Merge|Buffer|MaterializedView|View"
    r"|Dictionary"
)
_SOURCE = re.compile(r"\bSOURCE\((\w+)")
_SOURCES = frozenset({"CLICKHOUSE", "NULL"})
_OWN_HOST = re.compile(r"\bHOST\b")
_STATEMENT = re.compile(r"(BACKUP|RESTORE|ATTACH|SYSTEM (SHUTDOWN|KILL)|CREATE NAMED COLLECTION)\b")


def check_reading(engine: Engine, sql: str) -> str:
    """Refuse a person's question that would read or write beside the store; else its text as parsed.

    UsageError says what it may not do; EngineError if it cannot be parsed.
    """
    parsed = engine.formatted(sql)
    bare = without_literals(parsed)
    if _OUTFILE.search(bare):
        raise UsageError("INTO OUTFILE writes a file, and sql only reads: redirect standard output instead")
    reaching = _reaching(engine, bare)
    if reaching:
        raise UsageError(f"{reaching}() reads what is not in the store, and sql reads nothing else")
    return parsed


def refused_to_clients(engine: Engine, parsed: str) -> str | None:
    """Why a parsed statement of a client of `store serve` is refused; None if it is not."""
    bare = without_literals(parsed)
    if _OUTFILE.search(bare) or _INFILE.match(bare):
        return "files are read and written at the client, not by this server"
    reaching = _reaching(engine, bare)
    if reaching:
        return f"{reaching} would reach beside the store that this server holds"
    statement = _STATEMENT.match(bare)
    if statement:
        return f"{statement[0]} is not for clients of this server"
    engines = [name for name in _ENGINE.findall(bare) if not _ENGINES.fullmatch(name)]
    sources = [name for name in _SOURCE.findall(bare) if name.upper() not in _SOURCES]
    if engines or sources:
        return f"{(engines + sources)[0]} would reach beside the store that this server holds"
    if _SOURCE.search(bare) and _OWN_HOST.search(bare):
        return "a dictionary's source is in the store that this server holds, and names no host"
    return None


def without_literals(parsed: str) -> str:
    """A parsed statement with each string literal emptied."""
    return _LITERAL.sub("''", parsed)


def _reaching(engine: Engine, bare: str) -> str | None:
    """The first function in a statement that reaches beside the store."""
    known = engine.run("SELECT lower(name) FROM system.table_functions WHERE NOT allow_readonly")
    names = (frozenset(known.decode().split()) - _HARMLESS) | _OTHERS
    bare = _PARAMETER.sub("{:", bare)  # what parameters are called is the asker's affair
    for found in _NAME.finditer(bare):
        name = found["plain"] or found["quoted"] or ""
        lower = name.lower()
        if lower not in names and not (lower.startswith("ai") and _called(bare, found.end())):
            continue
        # A name may be handed on without a call, as in `arrayMap(file, ...)` or `* APPLY file`.
        if _called(bare, found.end()) or (lower in _OTHERS and not _is_alias(bare, found.start())):
            return name
    return None


def _called(text: str, at: int) -> bool:
    return text[at:].lstrip().startswith("(")


def _is_alias(text: str, at: int) -> bool:
    """Whether the name at `at` is given to something (`AS name`), or is part of another (`x.name`)."""
    before = text[:at].rstrip()
    return before.endswith(".") or re.search(r"\bAS$", before) is not None
