"""What a statement may be, told from its text as the engine's parser gives it back.

This is the third line: grants (`access`) and, where a process is confined, the kernel (`confine`) stand
before it. It says in a sentence what is not done here, and stops what those two let pass: the scalar function
`file`, statements that stop merges or end others' queries, tables on disks of one's own. It allows kinds of
statements, functions and settings, and refuses what is not among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstflight.errors import UsageError
from firstflight.store import vocabulary
from firstflight.store.access import ENGINES
from firstflight.store.engine import Engine, EngineError

_READING = re.compile(r"\(*(SELECT|WITH|SHOW|DESCRIBE|EXPLAIN|EXISTS|CHECK TABLE)\b")
_SESSION = re.compile(r"(USE (?!ROLE)|SET (?!ROLE|DEFAULT ROLE|TRANSACTION))")
_CHANGING = re.compile(
    r"(INSERT INTO|DELETE FROM|UPDATE|TRUNCATE|OPTIMIZE TABLE|RENAME|EXCHANGE|SYSTEM SYNC REPLICA"
    r"|(CREATE|REPLACE|CREATE OR REPLACE) (TEMPORARY )?(DATABASE|TABLE|VIEW|MATERIALIZED VIEW|DICTIONARY"
    r"|FUNCTION)"
    r"|DROP (TEMPORARY )?(DATABASE|TABLE|VIEW|DICTIONARY|FUNCTION)|ALTER TABLE)\b"
)
_LITERAL = re.compile(r"'((?:[^'\\]|\\.|'')*)'", re.DOTALL)
_NAME = re.compile(r"`(?P<quoted>(?:[^`\\]|\\.)*)`|(?P<plain>[A-Za-z_]\w*)")
_PARAMETER = re.compile(r"\{\w+:")
_OUTFILE = re.compile(r"^\s*INTO OUTFILE\b", re.MULTILINE)
# Clauses that lead elsewhere, or lend other rights, and the kinds of ALTER that do.
_CLAUSE = re.compile(
    r"\b(FROM INFILE|PARALLEL WITH|SQL SECURITY|DEFINER|TO DISK|TO VOLUME|ON CLUSTER|CLONE AS|ATTACH"
    r"|EXECUTE AS|NAMED COLLECTION|SETTINGS(?=\())"
)
_ALTER = re.compile(
    r"^    \((?!ADD|DROP|MODIFY|RENAME|CLEAR|COMMENT|MATERIALIZE|RESET|REMOVE|DELETE|UPDATE)", re.M
)
_ENGINE = re.compile(r"\bENGINE = (\w+)")
_SOURCE = re.compile(r"\bSOURCE\((?P<kind>\w+)(?:\((?P<inside>.*?)\)\))?", re.DOTALL)
_SOURCE_WORDS = re.compile(r"\s*(?:(?:QUERY|INVALIDATE_QUERY|TABLE|DB) '(?:[^'\\]|\\.|'')*'\s*)*")
_SOURCE_QUERY = re.compile(r"QUERY '((?:[^'\\]|\\.|'')*)'", re.DOTALL)
_SETTINGS = re.compile(r"(?<!`)\b(?:SETTINGS?|RESET SETTING)\s+|^SET ", re.MULTILINE)
_PAIR = re.compile(r"`?(\w+)`?(?: = )?")
_INSERT_FORMAT = re.compile(r"^INSERT INTO .*\bFORMAT (\w+)\s*$", re.DOTALL)


def check_reading(engine: Engine, sql: str) -> str:
    """Refuse a person's question that would read or write beside the store; else its text as parsed.

    UsageError says what it may not do; EngineError if it cannot be parsed.
    """
    parsed = engine.formatted(sql)
    bare = without_literals(parsed)
    if _OUTFILE.search(bare):
        raise UsageError("INTO OUTFILE writes a file, and sql only reads: redirect standard output instead")
    reaching = _refused_function(engine, bare)
    if reaching:
        raise UsageError(f"{reaching}() reads what is not in the store, and sql reads nothing else")
    if not (_READING.match(bare) or _SESSION.match(bare)):
        raise UsageError("the store is open for reading only: use SELECT, SHOW, DESCRIBE or EXPLAIN")
    reason = _clauses(bare) or _settings(bare)
    if reason:
        raise UsageError(f"{reason}: sql only reads")
    return parsed


def refused_to_clients(engine: Engine, parsed: str, *, asking: bool = False) -> str | None:
    """Why a parsed statement of a client of `store serve` is refused; None if it is not.

    `asking`: it is part of another and may only read. Whether a client may write is the engine's to say.
    """
    bare = without_literals(parsed)
    if _OUTFILE.search(bare):
        return "files are read and written at the client, not by this server"
    if not (_READING.match(bare) or _SESSION.match(bare) or (not asking and _CHANGING.match(bare))):
        words = " ".join(re.findall(r"[A-Za-z]+", bare)[:2])
        return f"{words} is not for clients of this server"
    reaching = _refused_function(engine, bare)
    if reaching:
        return f"{reaching} would reach beside the store that this server holds"
    return _clauses(bare) or _settings(bare) or _engines(bare) or _sources(engine, parsed) or _inline(bare)


def without_literals(parsed: str) -> str:
    """A parsed statement with each string literal emptied."""
    return _LITERAL.sub("''", parsed)


def _clauses(bare: str) -> str | None:
    found = _CLAUSE.search(bare) or (_ALTER.search(bare) if bare.startswith("ALTER") else None)
    if not found:
        return None
    words = " ".join(re.findall(r"[A-Za-z]+", bare[found.start() :])[:2])
    return f"{words} is not done here: it leads out of the store, or to other rights"


def _settings(bare: str) -> str | None:
    for name in _named_settings(bare):
        if not vocabulary.is_allowed_setting(name):
            return f"the setting {name} is not among those that statements may change here"
    return None


def _named_settings(bare: str) -> Iterator[str]:
    """The names that each SETTINGS clause, SET and MODIFY SETTING gives a value."""
    for clause in _SETTINGS.finditer(bare):
        at = clause.end()
        while pair := _PAIR.match(bare, at):
            yield pair[1]
            at = _after_value(bare, pair.end())
            if not bare.startswith(", ", at):
                break
            at += 2


def _after_value(text: str, at: int) -> int:
    """Where the value of a setting that begins at `at` ends: at a comma, bracket or line of its own level."""
    depth = 0
    while at < len(text):
        character = text[at]
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if depth < 0 or (not depth and character in ",\n"):
            break
        at += 1
    return at


def _engines(bare: str) -> str | None:
    for name in _ENGINE.findall(bare):
        if name.removeprefix("Replicated") not in ENGINES:
            return f"{name} would reach beside the store that this server holds"
    return None


def _sources(engine: Engine, parsed: str) -> str | None:
    """Dictionaries read tables of this store, by queries that are statements, too."""
    if not re.match(r"(CREATE|REPLACE|CREATE OR REPLACE) DICTIONARY", parsed):
        return None
    for source in _SOURCE.finditer(parsed):
        kind, inside = source["kind"].upper(), source["inside"] or ""
        if kind == "NULL":
            continue
        if kind != "CLICKHOUSE":
            return f"{kind} would reach beside the store that this server holds"
        if not _SOURCE_WORDS.fullmatch(inside):
            return "a dictionary's source is in the store that this server holds: QUERY, TABLE and DB name it"
        for quoted in _SOURCE_QUERY.findall(inside):
            try:
                query = engine.formatted(_plain(quoted))
            except EngineError:
                return "the query of a dictionary's source cannot be read"
            reason = refused_to_clients(engine, query, asking=True)
            if reason:
                return reason
    return None


def _inline(bare: str) -> str | None:
    found = _INSERT_FORMAT.match(bare)
    if found and not vocabulary.INSERT_FORMATS.fullmatch(found[1]):
        return f"rows of an INSERT in the format {found[1]} are not taken from its text"
    return None


def _plain(quoted: str) -> str:
    """The text of a literal as the parser writes it."""
    return re.sub(
        r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), quoted, flags=re.DOTALL
    )


def _refused_function(engine: Engine, bare: str) -> str | None:
    """The first function in a statement that is not among those allowed."""
    names = vocabulary.refused_functions(engine)
    bare = _PARAMETER.sub("{:", bare)  # what parameters are called is the asker's affair
    for found in _NAME.finditer(bare):
        name = found["plain"] or found["quoted"] or ""
        lower = name.lower()
        if lower not in names:
            continue
        # A name may be handed on without a call, as in `arrayMap(file, ...)` or `* APPLY file`.
        handed_on = vocabulary.LEFT_OUT.fullmatch(lower) and not _is_alias(bare, found.start())
        if _called(bare, found.end()) or handed_on:
            return name
    return None


def _called(text: str, at: int) -> bool:
    return text[at:].lstrip().startswith("(")


def _is_alias(text: str, at: int) -> bool:
    """Whether the name at `at` is given to something (`AS name`), or is part of another (`x.name`)."""
    before = text[:at].rstrip()
    return before.endswith(".") or re.search(r"\bAS$", before) is not None
