"""Finds refused functions in a statement, and columns that it declares in strings."""

from __future__ import annotations

import re

from store.engine.session import EngineError, EngineSession
from store.statements import vocabulary
from store.statements.parsed import Parsed
from store.statements.tokens import TokenKind

# Table functions with an argument that declares columns in SQL: the index, and the minimum number of
# arguments.
_STRUCTURES = {"format": (1, 3), "values": (0, 1), "generaterandom": (0, 1), "null": (0, 1)}
_EXPRESSIONS = ("DEFAULT", "MATERIALIZED", "ALIAS", "EPHEMERAL", "TTL", "CONSTRAINT", "INDEX", "PROJECTION")
_MAY_EXPRESS = re.compile("|".join(_EXPRESSIONS), re.IGNORECASE)


def refused_function(engine: EngineSession, parsed: Parsed) -> str | None:
    """Return the first function in a statement that is not allowed, or `None`."""
    names = vocabulary.refused_functions(engine)
    for number, token in enumerate(parsed.tokens):
        if not token.is_name or token.text.lower() not in names:
            continue
        if parsed.sign(number + 1) == "(" or _passed_as_argument(parsed, number):
            return token.text
    return None


def _passed_as_argument(parsed: Parsed, number: int) -> bool:
    """Return whether a name may refer to a function without a call: `* APPLY file`, `arrayMap(file, paths)`.

    In a call, only the first of several arguments can be such a name.
    """
    if not vocabulary.LEFT_OUT.fullmatch(parsed.at(number).text.lower()):
        return False
    before, after = number - 1, number + 1
    while parsed.sign(before) == "(" and parsed.at(before - 1).end != parsed.at(before).begin:
        before -= 1
    while parsed.sign(before) == "(" and parsed.sign(before - 1) == "(":
        before -= 1
    while parsed.sign(after) == ")" and parsed.depth[after] > parsed.depth[max(before, 0)]:
        after += 1
    if parsed.word(before) == "APPLY":
        return True
    called = (
        parsed.sign(before) == "("
        and parsed.at(before - 1).is_name
        and parsed.at(before - 1).end == parsed.at(before).begin
    )
    return called and (parsed.sign(after) == "," or parsed.word(after) == "AS")


def refused_structure(engine: EngineSession, parsed: Parsed) -> str | None:
    """Return why columns declared in a string are refused, or `None`. No other check covers this."""
    for number, token in enumerate(parsed.tokens):
        which = _STRUCTURES.get(token.text.lower()) if token.is_name else None
        if not which or parsed.sign(number + 1) != "(":
            continue
        arguments = parsed.arguments(number + 1)
        index, least = which
        if len(arguments) < max(least, index + 1) or _is_scalar_format(parsed, arguments[0]):
            continue
        given = arguments[index]
        token_of = parsed.at(given.start)
        if len(given) == 1 and token_of.kind is TokenKind.LITERAL:
            if _expresses(engine, token_of.text):
                return f"the columns of {token.text} have names and types only: no DEFAULT, ALIAS or the like"
        elif token.text.lower() != "values" and not (len(given) == 1 and token_of.kind is TokenKind.NUMBER):
            return f"the columns of {token.text} must be a string literal"
    return None


def _is_scalar_format(parsed: Parsed, first: range) -> bool:
    """Return whether this is the scalar function `format`: its first argument is a template."""
    token = parsed.at(first.start)
    called = parsed.at(first.start - 2).text.lower()
    return called == "format" and token.kind is TokenKind.LITERAL and not re.fullmatch(r"\w+", token.text)


def _expresses(engine: EngineSession, columns: str) -> bool:
    if not _MAY_EXPRESS.search(columns):
        return False
    try:
        declared = Parsed(engine.formatted(f"CREATE TABLE declared ({columns}) ENGINE = Null"))
    except (EngineError, ValueError):
        return True
    return any(parsed_word in _EXPRESSIONS for parsed_word in map(declared.word, range(len(declared))))
