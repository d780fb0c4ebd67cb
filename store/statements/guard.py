"""Decides from the parsed text whether a statement is allowed.

This is the third line of defence, after grants (`access`) and, in a confined process, the kernel (`confine`).
It gives a reason in a sentence. It also refuses statements that grants and kernel cannot refuse: the scalar
function `file`, statements that stop merges or kill queries of others, tables on user-defined disks. It has
lists of allowed statements, functions and settings, and refuses everything else.
"""

from __future__ import annotations

from collections.abc import Iterator

from firstflight.errors import UsageError
from store.engine.access import ENGINES
from store.engine.session import EngineError, EngineSession
from store.statements import calls, dictionaries, vocabulary
from store.statements.parsed import Parsed
from store.statements.tokens import TokenKind

_READING = ("SELECT", "WITH", "SHOW", "DESCRIBE", "EXPLAIN", "EXISTS", "CHECK TABLE")
_ROLES = ("USE ROLE", "SET ROLE", "SET DEFAULT ROLE", "SET TRANSACTION")
_MADE = ("DATABASE", "TABLE", "VIEW", "MATERIALIZED VIEW", "DICTIONARY", "FUNCTION")
_MAKING = tuple(
    f"{verb} {what}"
    for verb in ("CREATE", "REPLACE", "CREATE OR REPLACE")
    for what in (*_MADE, "TEMPORARY TABLE", "TEMPORARY VIEW")
)
_CHANGING = (
    "INSERT INTO", "DELETE FROM", "UPDATE", "TRUNCATE", "OPTIMIZE TABLE", "RENAME", "EXCHANGE",
    "SYSTEM SYNC REPLICA", "ALTER TABLE", *_MAKING,
    *(f"DROP {what}" for what in (*_MADE, "TEMPORARY TABLE", "TEMPORARY VIEW")),
)  # fmt: skip
# Clauses that reach outside the store, use other rights, or run in the background.
_CLAUSES = (
    "FROM INFILE", "PARALLEL WITH", "SQL SECURITY", "DEFINER", "TO DISK", "TO VOLUME", "ON CLUSTER",
    "CLONE AS", "ATTACH", "EXECUTE AS", "NAMED COLLECTION", "REFRESH EVERY", "REFRESH AFTER",
)  # fmt: skip
_ALTERS = frozenset({
    "ADD", "DROP", "MODIFY", "RENAME", "CLEAR", "COMMENT", "MATERIALIZE", "RESET", "REMOVE", "DELETE",
    "UPDATE",
})  # fmt: skip
_NOT_IN_NAMES = frozenset("'`\\\n\r\0")
_UNREADABLE = "this statement cannot be parsed with certainty"


def check_reading(engine: EngineSession, sql: str) -> str:
    """Refuse a user's query that would read or write outside the store; return its parsed text.

    UsageError gives the reason; EngineError if the engine cannot parse the query.
    """
    text = engine.formatted(sql)
    parsed = _parsed(text)
    if parsed is None:
        raise UsageError(_UNREADABLE)
    if any(parsed.where("INTO OUTFILE")):
        raise UsageError("INTO OUTFILE writes a file, but sql only reads: redirect standard output instead")
    reaching = calls.refused_function(engine, parsed)
    if reaching:
        raise UsageError(f"{reaching}() reads data outside the store, but sql reads only the store")
    if not _reads(parsed):
        raise UsageError("the store is open for reading only: use SELECT, SHOW, DESCRIBE or EXPLAIN")
    reason = _names(parsed) or _parts(engine, parsed)
    if reason:
        raise UsageError(f"{reason}: sql only reads")
    return text


def refused_to_clients(
    engine: EngineSession, text: str, *, asking: bool = False, stored: bool = False
) -> str | None:
    """Return why a parsed statement from a client of `store serve` is refused, or `None`.

    `asking`: the statement is part of another statement and may only read. `stored`: the engine printed the
    statement, with expressions as names of columns. The engine decides whether a client may write.
    """
    parsed = _parsed(text)
    if parsed is None:
        return _UNREADABLE
    if any(parsed.where("INTO OUTFILE")):
        return "files are read and written at the client, not by this server"
    if not (_reads(parsed) or (not asking and any(map(parsed.stands, _CHANGING)))):
        return f"{parsed.words(0)} is not for clients of this server"
    reaching = calls.refused_function(engine, parsed)
    if reaching:
        return f"{reaching} would reach outside the store of this server"
    return (None if stored else _names(parsed)) or _parts(engine, parsed)


def refused_to_loaders(text: str) -> str | None:
    """Return why a statement that clients may run is refused to a user who only loads, or `None`.

    Such a user may read, add rows, and delete rows to replace them, but not create, change or drop tables.
    """
    parsed = _parsed(text)
    if parsed is None:
        return _UNREADABLE
    if _reads(parsed) or parsed.stands("INSERT INTO") or _only_deletes(parsed):
        return None
    return f"this user loads rows and may not run {parsed.words(0)}: use the user of the centre"


def _only_deletes(parsed: Parsed) -> bool:
    """Return whether the statement is an ALTER TABLE with DELETE as its only action."""
    actions = [n + 1 for n in range(len(parsed)) if not parsed.depth[n] and parsed.sign(n) == "("]
    return parsed.stands("ALTER TABLE") and bool(actions) and all(parsed.word(n) == "DELETE" for n in actions)


def check_stored(engine: EngineSession, parsed: str | None) -> None:
    """Refuse a stored definition if no client could create it today.

    `parsed` is a CREATE in the form that the engine's parser prints (formatQuery of
    system.tables.create_table_query or system.functions.create_query); `None` if it cannot be parsed. A
    process that opens a store without confinement evaluates the store's expressions with all rights that the
    user has. UsageError gives the reason, without the table's name.
    """
    reason = _UNREADABLE if parsed is None else refused_to_clients(engine, parsed, stored=True)
    if reason:
        raise UsageError(reason)


def _parsed(text: str) -> Parsed | None:
    try:
        return Parsed(text)
    except ValueError:
        return None


def _reads(parsed: Parsed) -> bool:
    begin = next((n for n in range(len(parsed)) if parsed.sign(n) != "("), 0)
    if any(parsed.stands(phrase, begin) for phrase in _READING):
        return True
    return parsed.word(0) in ("USE", "SET") and not any(map(parsed.stands, _ROLES))


def _names(parsed: Parsed) -> str | None:
    for token in parsed.tokens:
        if token.kind is TokenKind.QUOTED and _NOT_IN_NAMES.intersection(token.text):
            return f"the name {token.text!r} contains a quote, backslash or line end"
    return None


def _parts(engine: EngineSession, parsed: Parsed) -> str | None:
    def refused_query(query: str) -> str | None:
        try:
            return refused_to_clients(engine, engine.formatted(query), asking=True)
        except EngineError:
            return "the query of a dictionary's source cannot be read"

    return (
        _clauses(parsed)
        or _settings(parsed)
        or _engines(parsed)
        or dictionaries.refused(parsed, refused_query)
        or calls.refused_structure(engine, parsed)
        or _rows_in_text(parsed)
    )


def _clauses(parsed: Parsed) -> str | None:
    positions = [number for phrase in _CLAUSES for number in parsed.where(phrase)]
    positions += [number for number in parsed.where("SETTINGS") if parsed.sign(number + 1) == "("]
    # Grants do not cover tables of `system`. This one exposes the process's state and interrupts its threads.
    positions += [n for n, token in enumerate(parsed.tokens) if token.is_name and token.text == "stack_trace"]
    # The parser stops at an insert's rows, so the text after a nested insert would be unchecked.
    positions += [number for number in parsed.where("INSERT INTO") if number]
    if parsed.stands("ALTER"):
        positions += [
            number + 1
            for number in range(len(parsed))
            if not parsed.depth[number]
            and parsed.sign(number) == "("
            and parsed.word(number + 1) not in _ALTERS
        ]
    for number in positions:
        clause = parsed.words(number) or parsed.at(number).text
        return f"{clause} is not allowed: it reaches outside the store, uses other rights, or runs by itself"
    return None


def _settings(parsed: Parsed) -> str | None:
    for name in _named_settings(parsed):
        if not vocabulary.is_allowed_setting(name):
            return f"the setting {name} is not one that statements may change"
    return None


def _named_settings(parsed: Parsed) -> Iterator[str]:
    """Yield the names of settings in SETTINGS clauses, SET, MODIFY SETTING and RESET SETTING."""
    begins = [*parsed.where("SETTINGS"), *parsed.where("SETTING"), *([0] if parsed.stands("SET") else [])]
    for number in begins:
        at = number + 1
        while parsed.at(at).is_name:
            name = parsed.at(at).text
            while parsed.sign(at + 1) == ".":
                name, at = f"{name}.{parsed.at(at + 2).text}", at + 2
            given = parsed.sign(at + 1) == "="
            if name.isupper() and not given:
                break  # a column named SETTINGS before a keyword
            yield name
            at = _after_value(parsed, at + 2) if given else at + 1
            if parsed.sign(at) != ",":
                break
            at += 1


def _after_value(parsed: Parsed, at: int) -> int:
    """Return the number of the token after a setting's value; the value starts at token `at`."""
    if parsed.sign(at) in ("-", "+"):
        at += 1
    if parsed.at(at).is_name and parsed.sign(at + 1) == "(":
        at += 1
    return (parsed.closing(at) if parsed.sign(at) in ("(", "[", "{") else at) + 1


def _engines(parsed: Parsed) -> str | None:
    for number in parsed.where("ENGINE"):
        if parsed.sign(number + 1) == "=":
            name = parsed.at(number + 2).text
            if name.removeprefix("Replicated") not in ENGINES:
                return f"{name} would reach outside the store of this server"
    return None


def _rows_in_text(parsed: Parsed) -> str | None:
    last = len(parsed) - 2
    if parsed.stands("INSERT") and parsed.stands("FORMAT", last):
        name = parsed.at(last + 1).text
        if not vocabulary.INSERT_FORMATS.fullmatch(name):
            return f"an INSERT cannot have rows in the format {name} in its text"
    return None
