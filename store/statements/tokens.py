"""Splits SQL into tokens by the rules of the engine's lexer: names, literals, comments.

Reference: src/Parsers/Lexer.cpp of ClickHouse. Ambiguous text is an error, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple


class TokenKind(Enum):
    """A token's kind."""

    WORD = auto()  # a keyword or a plain name
    QUOTED = auto()  # a name in backquotes or double quotes
    LITERAL = auto()  # a string, also as heredoc
    NUMBER = auto()
    COMMENT = auto()
    OTHER = auto()  # one character


class Token(NamedTuple):
    """A token. `text` is the unquoted name or string, or the source text; `begin` and `end` are offsets."""

    kind: TokenKind
    text: str
    begin: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether the token can be a name."""
        return self.kind is TokenKind.WORD or self.kind is TokenKind.QUOTED


_SPACE = re.compile(r"[\s\0]+")
_LINE_COMMENT = re.compile(r"(?:--|#[ !])[^\n]*")
_BRACKET = re.compile(r"/\*|\*/")
_HEREDOC = re.compile(r"\$\w*\$", re.ASCII)
_NUMBER = re.compile(
    r"0[xX][0-9a-fA-F_]+|0[bB][01_]+|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?", re.ASCII
)
_WORD = re.compile(r"[\w$]+", re.ASCII)
_QUOTED = {quote: re.compile(rf"(?:[^{quote}\\]|\\.|{quote}{quote})*{quote}", re.DOTALL) for quote in "'`\""}
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\(.)|(['`\"])\3", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "0": "\0", "a": "\a", "v": "\v"}


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of `text`, without whitespace; ValueError for a token that is not terminated."""
    at = _after_space(text, 0)
    while at < len(text):
        token = _token(text, at)
        yield token
        at = _after_space(text, token.end)


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _token(text: str, at: int) -> Token:
    first = text[at]
    # Most tokens match one of these two patterns, and no others do.
    if first in "(),":
        return Token(TokenKind.OTHER, first, at, at + 1)
    if (first.isascii() and first.isalpha()) or first == "_":
        word = _WORD.match(text, at)
        assert word is not None
        return Token(TokenKind.WORD, word[0], at, word.end())
    if first in _QUOTED:
        return _quoted(text, at)
    if first == "$":
        mark = _HEREDOC.match(text, at)
        end = text.find(mark[0], mark.end()) if mark else -1
        if mark and end >= 0:
            return Token(TokenKind.LITERAL, text[mark.end() : end], at, end + len(mark[0]))
    if text.startswith("/*", at):
        end = _comment_end(text, at)
        return Token(TokenKind.COMMENT, text[at:end], at, end)
    if comment := _LINE_COMMENT.match(text, at):
        return Token(TokenKind.COMMENT, comment[0], at, comment.end())
    if number := _NUMBER.match(text, at):
        word = _WORD.match(text, number.end())
        if not word:
            return Token(TokenKind.NUMBER, number[0], at, number.end())
        if first == ".":
            return Token(TokenKind.OTHER, first, at, at + 1)
    if word := _WORD.match(text, at):  # a name may begin with a digit
        return Token(TokenKind.WORD, word[0], at, word.end())
    return Token(TokenKind.OTHER, first, at, at + 1)


def _quoted(text: str, at: int) -> Token:
    quote = text[at]
    match = _QUOTED[quote].match(text, at + 1)
    if not match:
        raise ValueError(f"{quote} at {at} is not terminated")
    kind = TokenKind.LITERAL if quote == "'" else TokenKind.QUOTED
    inside = text[at + 1 : match.end() - 1]
    return Token(kind, _ESCAPE.sub(lambda escape: _plain(escape, quote), inside), at, match.end())


def _plain(escape: re.Match[str], quote: str) -> str:
    if escape[1]:
        return chr(int(escape[1], 16))
    if escape[2]:
        return _ESCAPED.get(escape[2], escape[2])
    return quote if escape[3] == quote else escape[0]


def _comment_end(text: str, at: int) -> int:
    depth = 0
    for bracket in _BRACKET.finditer(text, at):
        depth += 1 if bracket[0] == "/*" else -1
        if not depth:
            return bracket.end()
    raise ValueError(f"/* at {at} is not terminated")
