"""SQL tokens, compared with the engine's lexer."""

from __future__ import annotations

import pytest

from store.engine.session import EngineSession
from store.statements.parsed import Parsed
from store.statements.tokens import TokenKind, tokens

W, Q, L, N, C, O = (  # noqa: E741
    TokenKind.WORD,
    TokenKind.QUOTED,
    TokenKind.LITERAL,
    TokenKind.NUMBER,
    TokenKind.COMMENT,
    TokenKind.OTHER,
)

TEXTS = [
    ("SELECT a1, _b", [(W, "SELECT"), (W, "a1"), (O, ","), (W, "_b")]),
    (r"'a''b' 'a\'b' '\\' '\n'", [(L, "a'b"), (L, "a'b"), (L, "\\"), (L, "\n")]),
    (r"'a`\"b' '--' '/*'", [(L, 'a`"b'), (L, "--"), (L, "/*")]),
    ("`a'b` `c``d` `e\\`f` `g\"h`", [(Q, "a'b"), (Q, "c`d"), (Q, "e`f"), (Q, 'g"h')]),
    ('"a\'b" "c""d" "e`f"', [(Q, "a'b"), (Q, 'c"d'), (Q, "e`f")]),
    ("'\"' file '\"'", [(L, '"'), (W, "file"), (L, '"')]),
    ("$$it's$$ $a$ $$ ` $a$", [(L, "it's"), (L, " $$ ` ")]),
    ("$a b$ x", [(W, "$a"), (W, "b$"), (W, "x")]),
    ("a -- ' b\nc # '\n#! '\nd", [(W, "a"), (C, "-- ' b"), (W, "c"), (C, "# '"), (C, "#! '"), (W, "d")]),
    ("a /* ' /* */ ` */ b", [(W, "a"), (C, "/* ' /* */ ` */"), (W, "b")]),
    (
        "1 1.5 .5 1e-5 0x1F 0b11 1_000 2.",
        [(N, "1"), (N, "1.5"), (N, ".5"), (N, "1e-5"), (N, "0x1F"), (N, "0b11"), (N, "1_000"), (N, "2.")],
    ),
    ("t.1 1.file(2)", [(W, "t"), (N, ".1"), (W, "1"), (O, "."), (W, "file"), (O, "("), (N, "2"), (O, ")")]),
    ("1file 'x'", [(W, "1file"), (L, "x")]),
    ("a->b - -1", [(W, "a"), (O, "-"), (O, ">"), (W, "b"), (O, "-"), (O, "-"), (N, "1")]),
    ("é ‘'’'", [(O, "é"), (O, "‘"), (L, "’")]),
    (r"'\x41' '\q'", [(L, "A"), (L, "q")]),
    ("'two\nlines' x", [(L, "two\nlines"), (W, "x")]),
    ("", []),
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_tokens_have_their_kind_and_text(text: str, expected: list[tuple[TokenKind, str]]) -> None:
    assert [(token.kind, token.text) for token in tokens(text)] == expected


@pytest.mark.parametrize("text", ["'a", r"'a\'", "`a", '"a', "`a``", "/* a", "/* /* */", "a 'b"])
def test_unterminated_tokens_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match="is not terminated"):
        list(tokens(text))


@pytest.mark.parametrize(
    ("text", "why"), [("SELECT 1 -- x", "comment"), ("a)(b", "brackets"), ("(a", "brackets")]
)
def test_statements_with_comments_or_wrong_brackets_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Parsed(text)


@pytest.mark.parametrize(
    "name",
    ["a'b", "a`b", 'a"b', "a\\b", "a\nb", "a\\'b", "--", "/*", "$$", "x y", "\\", "'", "``", "a\tb", "é"],
)
def test_names_are_parsed_as_the_engine_does(name: str) -> None:
    """The tokens of the engine's formatted text contain any name unchanged, and the other tokens too."""
    engine = EngineSession()
    try:
        quoted = name.replace("\\", "\\\\").replace("`", "\\`")
        parsed = Parsed(engine.formatted(f"SELECT 1 AS `{quoted}`, 'x' AS after"))
    finally:
        engine.close()
    assert [token.text for token in parsed.tokens] == ["SELECT", "1", "AS", name, ",", "x", "AS", "after"]


def test_arguments_are_distinguished() -> None:
    parsed = Parsed("f(a, g(b, [c, d]), 'e, f') + h()")
    shown = [[parsed.at(n).text for n in argument] for argument in parsed.arguments(1)]
    assert shown == [["a"], ["g", "(", "b", ",", "[", "c", ",", "d", "]", ")"], ["e, f"]]
    assert parsed.arguments(len(parsed) - 2) == []
