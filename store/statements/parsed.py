"""A statement as the engine's parser prints it: keywords in capitals, no comments."""

from __future__ import annotations

from collections.abc import Iterator

from store.statements.tokens import Token, TokenKind, tokens

_OPEN, _CLOSE = "([{", ")]}"
_NOTHING = Token(TokenKind.OTHER, "", 0, 0)


class Parsed:
    """A statement's tokens. `depth[n]` counts the brackets around token n, without itself."""

    def __init__(self, text: str) -> None:
        """Split `text` into tokens; ValueError if it is not output of the engine's parser."""
        self.text = text
        self.tokens = list(tokens(text))
        self.depth: list[int] = []
        self._positions: dict[str, list[int]] = {}
        depth = 0
        for number, token in enumerate(self.tokens):
            if token.kind is TokenKind.COMMENT:
                raise ValueError("a comment")
            if token.kind is TokenKind.WORD:
                self._positions.setdefault(token.text, []).append(number)
            bracket = token.text if token.kind is TokenKind.OTHER else ""
            depth -= bracket in _CLOSE if bracket else 0
            self.depth.append(depth)
            depth += bracket in _OPEN if bracket else 0
        if depth or min(self.depth, default=0) < 0:
            raise ValueError("brackets without a partner")

    def __len__(self) -> int:
        return len(self.tokens)

    def at(self, number: int) -> Token:
        """Return token `number`; an empty token before the first and after the last."""
        return self.tokens[number] if 0 <= number < len(self.tokens) else _NOTHING

    def word(self, number: int) -> str:
        """Return the text of an unquoted word, which may be a keyword; else an empty string."""
        token = self.at(number)
        return token.text if token.kind is TokenKind.WORD else ""

    def sign(self, number: int) -> str:
        """Return the character of a token that is not a name, literal or number; else an empty string."""
        token = self.at(number)
        return token.text if token.kind is TokenKind.OTHER else ""

    def stands(self, phrase: str, number: int = 0) -> bool:
        """Return whether the words of `phrase` are at `number`."""
        return all(self.word(number + index) == word for index, word in enumerate(phrase.split()))

    def where(self, phrase: str) -> Iterator[int]:
        """Yield each position of the words of `phrase`."""
        positions = self._positions.get(phrase.split()[0], ())
        return (number for number in positions if self.stands(phrase, number))

    def closing(self, number: int) -> int:
        """Return the number of the bracket that closes the one at `number`."""
        depth = self.depth[number]
        return next(n for n in range(number + 1, len(self)) if self.depth[n] == depth)

    def arguments(self, number: int) -> list[range]:
        """Return the ranges of tokens between the commas in the brackets at `number`."""
        end, inside = self.closing(number), self.depth[number] + 1
        commas = [n for n in range(number + 1, end) if self.depth[n] == inside and self.sign(n) == ","]
        begins = [number + 1, *(comma + 1 for comma in commas)]
        return [
            range(begin, stop) for begin, stop in zip(begins, [*commas, end], strict=True) if stop > begin
        ]

    def words(self, number: int, count: int = 2) -> str:
        """Return the first words from `number` on, for messages."""
        texts = [self.word(n) for n in range(number, len(self)) if self.word(n)]
        return " ".join(texts[:count])
