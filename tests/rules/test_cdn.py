"""The CDN rules in Python and the engine's find alike, on random responses and certificates.

tests/cdn/methods.json and tests/cdn/edges.json have the cases by hand.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from firstflight.as_map import OTHERS
from firstflight.cdn import edge, rules
from firstflight.cdn.methods import Methods
from tests import drawn
from tests.rules import engine

RULES = rules.load(rules.DEFAULT)
FIELDS = sorted({rule.name for rule in RULES if rule.kind == "header"} | set(edge.FIELDS))
SUFFIXES = sorted(value for rule in RULES if rule.kind == "san" for value in rule.values)
ATTRIBUTES = sorted(value for rule in RULES if rule.kind in ("subject", "issuer") for value in rule.values)
PATTERNS = sorted({value for rule in RULES if rule.kind == "header" for value in rule.values})
# Pieces of values of edges' fields, and characters that libraries treat differently: spaces, digits, cases.
PIECES = (
    *("FRA", "HAM50-P2", "-", ",", "cache-", "cache-fra-1-FRA", "fra1::", "::", "BunnyCDN-DE1-1047", "1"),
    *(
        " ",
        "\t",
        "\xa0",
        "\u2003",
        "\x1c",
        "\x85",
        "ß",
        "İ",
        "\u212a",
        "ä",
        "５",
        "Σ",
        "\U0001f600",
        "=",
        "*",
    ),
    *("é-FRA", "x", "defr"),
)
NAME_PIECES = (*PIECES, "\\", "\\,", "\\2C", "\\C3", "+", ",", "CN=a", "O=", "o=", "1.2.3=#0c01")


def cased(numbers: random.Random, text: str) -> str:
    return text.upper() if numbers.randrange(4) == 0 else text


def value(numbers: random.Random) -> str:
    """Return the value of a field: of a rule, of an edge, or other text."""
    filled = "".join(numbers.choices(PIECES, k=numbers.choice((0, 1, 1, 2, 4))))
    if numbers.randrange(2):
        return filled
    return cased(numbers, numbers.choice(PATTERNS).replace("*", filled)) + numbers.choice(
        ("", " ", "x", "\x1c")
    )


def fields(numbers: random.Random) -> list[tuple[str, str]]:
    """Return fields in a response, many of them with an edge's location."""
    names = (*edge.FIELDS, "x-other") if numbers.randrange(2) else FIELDS
    return [(numbers.choice(names), value(numbers)) for _ in range(numbers.randint(0, 3))]


def distinguished_name(numbers: random.Random) -> str:
    """Return a name that has an attribute in a rule, or nearly so."""
    filled = "".join(numbers.choices(NAME_PIECES, k=numbers.randint(0, 4)))
    attribute = cased(numbers, numbers.choice(ATTRIBUTES).replace("*", filled))
    if numbers.randrange(2):
        attribute = attribute.replace(",", "\\,")
    parts = numbers.sample((filled, attribute, "CN=a.test"), numbers.randint(0, 3))
    return numbers.choice((",", "+", ", ")).join(parts)


def subject_name(numbers: random.Random) -> str:
    """Return a name in a certificate: a suffix from a rule with other labels and dots around it."""
    before = numbers.choice(("", "*.", "www.", "a.b.", "x", "*.x.", ".", "ä.", "\u212a."))
    return cased(numbers, before + numbers.choice(SUFFIXES) + numbers.choice(("", "", ".", "..", ".test")))


def certificate(numbers: random.Random) -> tuple[str, str, list[str]]:
    names = [subject_name(numbers) for _ in range(numbers.choice((0, 0, 1, 3)))]
    return distinguished_name(numbers), distinguished_name(numbers), names


@pytest.mark.drawn
def test_random_responses_and_certificates_have_the_same_cdn(tmp_path: Path) -> None:
    numbers = drawn.generator("cdn")
    methods = Methods(RULES)
    file = tmp_path / "rules.json"
    file.write_text(rules.as_json(RULES), encoding="utf-8")
    questions: list[dict[str, Any]] = [{"rules": str(file)}]
    expected: list[Any] = [None]
    for _ in range(engine.count() // 2):
        response, described = fields(numbers), certificate(numbers)
        questions += [{"fields": response}, {"certificate": described}]
        expected += [
            [methods.by_headers(response), edge.location(response)],
            methods.by_certificate(*described),
        ]
    for question, answer, python in zip(questions, engine.answers(questions), expected, strict=True):
        assert answer == python, question
    unknown = sum(OTHERS in (python, *(python or ())) for python in expected[1:])
    assert len(expected) / 10 < unknown < len(expected) * 0.9
    assert sum(isinstance(python, list) and python[1] is not None for python in expected) > len(expected) / 50
