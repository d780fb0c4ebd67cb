"""What a statement may be, told from its text as the engine's parser gives it back.

This is the third line: grants (`access`) and, where a process is confined, the kernel (`confine`) stand
before it. It says in a sentence what is not done here, and stops what those two let pass: the scalar function
`file`, statements that stop merges or end others' queries, tables on disks of one's own. It allows kinds of
statements, functions and settings, and refuses what is not among them.
"""

from __future__ import annotations

from collections.abc import Iterator

from firstflight.errors import UsageError
from store.access import ENGINES
from store.engine import Engine, EngineError
from store.statements import calls, dictionaries, vocabulary
from store.statements.parsed import Parsed
from store.statements.tokens import Kind

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
# Clauses that lead elsewhere, or lend other rights, or go on when nobody asks.
_CLAUSES = (
    "FROM INFILE", "PARALLEL WITH", "SQL SECURITY", "DEFINER", "TO DISK", "TO VOLUME", "ON CLUSTER",
    "CLONE AS", "ATTACH", "EXECUTE AS", "NAMED COLLECTION", "REFRESH EVERY", "REFRESH AFTER",
)  # fmt: skip
_ALTERS = frozenset({
    "ADD", "DROP", "MODIFY", "RENAME", "CLEAR", "COMMENT", "MATERIALIZE", "RESET", "REMOVE", "DELETE",
    "UPDATE",
})  # fmt: skip
_NOT_IN_NAMES = frozenset("'`\\\n\r\0")
_UNREADABLE = "this statement cannot be told apart with certainty"


def check_reading(engine: Engine, sql: str) -> str:
    """Refuse a person's question that would read or write beside the store; else its text as parsed.

    UsageError says what it may not do; EngineError if it cannot be parsed.
    """
    text = engine.formatted(sql)
    parsed = _parsed(text)
    if parsed is None:
        raise UsageError(_UNREADABLE)
    if any(parsed.where("INTO OUTFILE")):
        raise UsageError("INTO OUTFILE writes a file, and sql only reads: redirect standard output instead")
    reaching = calls.refused_function(engine, parsed)
    if reaching:
        raise UsageError(f"{reaching}() reads what is not in the store, and sql reads nothing else")
    if not _reads(parsed):
        raise UsageError("the store is open for reading only: use SELECT, SHOW, DESCRIBE or EXPLAIN")
    reason = _names(parsed) or _parts(engine, parsed)
    if reason:
        raise UsageError(f"{reason}: sql only reads")
    return text


def refused_to_clients(
    engine: Engine, text: str, *, asking: bool = False, stored: bool = False
) -> str | None:
    """Why a parsed statement of a client of `store serve` is refused; None if it is not.

    `asking`: it is part of another and may only read. `stored`: the engine printed it, and named columns by
    their expressions. Whether a client may write is the engine's to say.
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
        return f"{reaching} would reach beside the store that this server holds"
    return (None if stored else _names(parsed)) or _parts(engine, parsed)


def check_stored(engine: Engine, statement: str) -> None:
    """Refuse what a store holds by `statement` if no client could make it today.

    `statement` is a CREATE as the engine prints it (system.tables.create_table_query,
    system.functions.create_query). Who opens a store without walls evaluates its expressions with all rights
    of the user.
    UsageError says what is not allowed, without the name of the table.
    """
    try:
        reason = refused_to_clients(engine, engine.formatted(statement), stored=True)
    except EngineError:
        reason = _UNREADABLE
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
        if token.kind is Kind.QUOTED and _NOT_IN_NAMES.intersection(token.text):
            return f"the name {token.text!r} holds a quote, backslash or line end, which names here do not"
    return None


def _parts(engine: Engine, parsed: Parsed) -> str | None:
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
    places = [number for phrase in _CLAUSES for number in parsed.where(phrase)]
    places += [number for number in parsed.where("SETTINGS") if parsed.sign(number + 1) == "("]
    # No grant holds tables of `system`. This one shows the process's insides, and interrupts its threads.
    places += [n for n, token in enumerate(parsed.tokens) if token.is_name and token.text == "stack_trace"]
    # The parser stops where the rows of an insert begin: within another statement, nobody looks behind them.
    places += [number for number in parsed.where("INSERT INTO") if number]
    if parsed.stands("ALTER"):
        places += [
            number + 1
            for number in range(len(parsed))
            if not parsed.depth[number]
            and parsed.sign(number) == "("
            and parsed.word(number + 1) not in _ALTERS
        ]
    for number in places:
        what = parsed.words(number) or parsed.at(number).text
        return f"{what} is not done here: it leads out of the store, to other rights, or goes on by itself"
    return None


def _settings(parsed: Parsed) -> str | None:
    for name in _named_settings(parsed):
        if not vocabulary.is_allowed_setting(name):
            return f"the setting {name} is not among those that statements may change here"
    return None


def _named_settings(parsed: Parsed) -> Iterator[str]:
    """The names that each SETTINGS clause, SET, MODIFY SETTING and RESET SETTING gives a value."""
    begins = [*parsed.where("SETTINGS"), *parsed.where("SETTING"), *([0] if parsed.stands("SET") else [])]
    for number in begins:
        at = number + 1
        while parsed.at(at).is_name:
            name = parsed.at(at).text
            while parsed.sign(at + 1) == ".":
                name, at = f"{name}.{parsed.at(at + 2).text}", at + 2
            given = parsed.sign(at + 1) == "="
            if name.isupper() and not given:
                break  # a column called SETTINGS stood before a keyword
            yield name
            at = _after_value(parsed, at + 2) if given else at + 1
            if parsed.sign(at) != ",":
                break
            at += 1


def _after_value(parsed: Parsed, at: int) -> int:
    """Where the value of a setting that begins at `at` ends."""
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
                return f"{name} would reach beside the store that this server holds"
    return None


def _rows_in_text(parsed: Parsed) -> str | None:
    last = len(parsed) - 2
    if parsed.stands("INSERT") and parsed.stands("FORMAT", last):
        name = parsed.at(last + 1).text
        if not vocabulary.INSERT_FORMATS.fullmatch(name):
            return f"rows of an INSERT in the format {name} are not taken from its text"
    return None
