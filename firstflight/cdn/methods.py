"""Applies the rules: identifies the CDN of a chain of names, of response fields or of a certificate.

Each function returns a CDN, or OTHERS if no rule matches. The arguments come from servers and are untrusted:
only the start of a text is read, and a rule needs at most one pass over it per piece of the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from firstflight.as_map import OTHERS
from firstflight.cdn.rules import Rule, load

# Maximum length of a DNS name as text; number of characters to inspect in a value.
MAX_NAME, MAX_VALUE = 253, 4096
BLANKS = " \t"
"""What may surround a value (RFC 9110 5.6.3). Other spaces belong to it, because libraries differ in them."""

_ESCAPED = re.compile(r"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


class Methods:
    """A list of rules, prepared for matching."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._names = _suffixes(rules, "cname")
        self._sans = _suffixes(rules, "san")
        self._subjects = _attributes(rules, "subject")
        self._issuers = _attributes(rules, "issuer")
        self._fields: dict[str, list[tuple[int, tuple[WildcardPattern, ...], str]]] = {}
        for order, rule in enumerate(rules):
            if rule.kind == "header":
                patterns = tuple(map(WildcardPattern, rule.values))
                self._fields.setdefault(rule.name, []).append((order, patterns, rule.cdn))

    @classmethod
    def read(cls, path: Path) -> Methods:
        """Return the rules of one file. Raise UsageError if the file is invalid."""
        return cls(load(path))

    def by_names(self, names: Sequence[str]) -> str:
        """Return the CDN for a name and its aliases, given in the order of the chain.

        The last name that matches a rule decides, because it is closest to the address. For a name, the
        longest matching suffix decides.
        """
        for name in reversed(names):
            match = _longest(self._names, name)
            if match is not None:
                return match[1]
        return OTHERS

    def by_headers(self, fields: Iterable[tuple[str, str]]) -> str:
        """Return the CDN from a response's fields (name, value). The first matching rule decides."""
        best: tuple[int, str] | None = None
        for name, value in fields:
            for order, patterns, cdn in self._fields.get(name.lower(), ()):
                if best is not None and best[0] < order:
                    break
                if not patterns or any(pattern.fits(value) for pattern in patterns):
                    best = (order, cdn)
                    break
        return OTHERS if best is None else best[1]

    def by_certificate(self, subject: str, issuer: str, sans: Iterable[str]) -> str:
        """Return the CDN from a server's certificate: by its names, else by the subject, else by the issuer.

        `subject` and `issuer` are RFC 4514 strings. The longest matching suffix of all names decides.
        """
        matches = [
            match for san in sans if (match := _longest(self._sans, san.removeprefix("*."))) is not None
        ]
        if matches:
            return max(matches, key=lambda match: match[0])[1]
        for text, rules in ((subject, self._subjects), (issuer, self._issuers)):
            present = list(attributes(text))
            for kind, pattern, cdn in rules:
                if any(kind == name.upper() and pattern.fits(value) for name, value in present):
                    return cdn
        return OTHERS


class WildcardPattern:
    """A pattern in which `*` matches any text. Ignores case."""

    def __init__(self, text: str) -> None:
        self._first, *rest = text.lower().split("*")
        self._last = rest.pop() if rest else None
        self._between = rest

    def fits(self, given: str) -> bool:
        """Return whether the pattern matches `given`. Inspects only the first MAX_VALUE characters."""
        text = given[:MAX_VALUE].strip(BLANKS).lower()
        if self._last is None:
            return text == self._first
        begin, end = len(self._first), len(text) - len(self._last)
        if begin > end or not text.startswith(self._first) or not text.endswith(self._last):
            return False
        for piece in self._between:
            begin = text.find(piece, begin, end)
            if begin < 0:
                return False
            begin += len(piece)
        return True


def attributes(name: str) -> Iterator[tuple[str, str]]:
    """Yield the (type, value) pairs in a distinguished name (RFC 4514), with escapes resolved.

    Skips text that is not an attribute. Reads only the first MAX_VALUE characters.
    """
    begin, escaped = 0, False
    text = name[:MAX_VALUE]
    for position, character in enumerate(text + ","):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",+":
            kind, equals, value = text[begin:position].partition("=")
            begin = position + 1
            if equals:
                yield kind.strip(BLANKS), _ESCAPED.sub(_unescaped, value.strip(BLANKS))


def _unescaped(match: re.Match[str]) -> str:
    text = match[1]
    return chr(int(text, 16)) if len(text) == 2 else text


def _suffixes(rules: Sequence[Rule], kind: str) -> dict[str, str]:
    return {suffix: rule.cdn for rule in rules if rule.kind == kind for suffix in rule.values}


def _attributes(rules: Sequence[Rule], kind: str) -> list[tuple[str, WildcardPattern, str]]:
    patterns = []
    for rule in rules:
        if rule.kind == kind:
            for value in rule.values:
                type_, _, pattern = value.partition("=")
                patterns.append((type_.upper(), WildcardPattern(pattern), rule.cdn))
    return patterns


def _longest(suffixes: dict[str, str], name: str) -> tuple[int, str] | None:
    """Return (length, CDN) of the longest suffix of `name` in whole labels; `None` without a match."""
    rest = name.lower().removesuffix(".")
    if len(rest) > MAX_NAME:
        return None
    while rest:
        cdn = suffixes.get(rest)
        if cdn is not None:
            return len(rest), cdn
        rest = rest.partition(".")[2]
    return None
