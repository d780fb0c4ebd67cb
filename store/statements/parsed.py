"""A statement as the engine's parser gives it back: keywords in capitals, and no comments."""

from __future__ import annotations

from collections.abc import Iterator

from store.statements.tokens import Kind, Token, tokens

_OPEN, _CLOSE = "([{", ")]}"
_NOTHING = Token(Kind.OTHER, "", 0, 0)


class Parsed:
    """Its tokens by number. `depth[n]` is in how many brackets token n is; a bracket is outside its own."""

    def __init__(self, text: str) -> None:
        """ValueError for what is no text of the parser's."""
        self.text = text
        self.tokens = list(tokens(text))
        self.depth: list[int] = []
        self._places: dict[str, list[int]] = {}
        depth = 0
        for number, token in enumerate(self.tokens):
            if token.kind is Kind.COMMENT:
                raise ValueError("a comment")
            if token.kind is Kind.WORD:
                self._places.setdefault(token.text, []).append(number)
            bracket = token.text if token.kind is Kind.OTHER else ""
            depth -= bracket in _CLOSE if bracket else 0
            self.depth.append(depth)
            depth += bracket in _OPEN if bracket else 0
        if depth or min(self.depth, default=0) < 0:
            raise ValueError("brackets without a partner")

    def __len__(self) -> int:
        return len(self.tokens)

    def at(self, number: int) -> Token:
        """Token `number`; an empty one before the first and after the last."""
        return self.tokens[number] if 0 <= number < len(self.tokens) else _NOTHING

    def word(self, number: int) -> str:
        """The text of a word that is not quoted, which may be a keyword; else nothing."""
        token = self.at(number)
        return token.text if token.kind is Kind.WORD else ""

    def sign(self, number: int) -> str:
        """The character of a token that is no name, literal or number; else nothing."""
        token = self.at(number)
        return token.text if token.kind is Kind.OTHER else ""

    def stands(self, phrase: str, number: int = 0) -> bool:
        """Whether the words of `phrase` stand at `number`."""
        return all(self.word(number + place) == word for place, word in enumerate(phrase.split()))

    def where(self, phrase: str) -> Iterator[int]:
        """Each place where the words of `phrase` stand."""
        places = self._places.get(phrase.split()[0], ())
        return (number for number in places if self.stands(phrase, number))

    def closing(self, number: int) -> int:
        """The bracket that closes the one at `number`."""
        depth = self.depth[number]
        return next(n for n in range(number + 1, len(self)) if self.depth[n] == depth)

    def arguments(self, number: int) -> list[range]:
        """What stands between the commas in the brackets at `number`."""
        end, inside = self.closing(number), self.depth[number] + 1
        commas = [n for n in range(number + 1, end) if self.depth[n] == inside and self.sign(n) == ","]
        begins = [number + 1, *(comma + 1 for comma in commas)]
        return [
            range(begin, stop) for begin, stop in zip(begins, [*commas, end], strict=True) if stop > begin
        ]

    def words(self, number: int, count: int = 2) -> str:
        """The first words at `number`, to be shown."""
        found = [self.word(n) for n in range(number, len(self)) if self.word(n)]
        return " ".join(found[:count])
