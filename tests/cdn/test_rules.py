"""Files of CDN rules: their content, their order, and rejected files."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawler.routing import cdn_map
from firstflight.cdn import rules
from firstflight.cdn.methods import Methods
from firstflight.errors import UsageError

GOOD = '[[rule]]\ncdn = "A"\nsource = "its docs"\n'
CNAME = GOOD + 'cname = ["a.example"]\n'


def written(folder: Path, text: str | bytes, name: str = "rules.toml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_our_own_rules_name_every_cdn_of_table_5_by_all_methods() -> None:
    our_rules = rules.load(None)
    kinds_of: dict[str, set[str]] = {}
    for rule in our_rules:
        kinds_of.setdefault(rule.cdn, set()).add(rule.kind)
    for cdn in set(cdn_map.load(None, []).values()):
        assert {"cname", "header", "san"} <= kinds_of[cdn], cdn
    assert all(rule.source for rule in our_rules)


def test_rendered_rules_are_read_back_unchanged(tmp_path: Path) -> None:
    odd = '[[rule]]\ncdn = "Bücher \\"\\\\\\" 🎈"\nsource = "x"\nheader = "via"\nvalues = ["a*\\"b"]\n'
    both = rules.load(None, [written(tmp_path, odd)])
    rendered = written(tmp_path, rules.render(both, [Path("a.toml"), Path("b.toml")]), "again.toml")
    assert rules.load(rendered) == both
    assert rendered.read_text().startswith("# In force for this run; from a.toml, b.toml\n")


def test_additions_come_first_and_a_replacement_has_no_others(tmp_path: Path) -> None:
    added = written(tmp_path, GOOD + 'header = "x-mine"\n')
    seen = [("server", "cloudflare"), ("x-mine", "1")]
    assert Methods(rules.load(None)).by_headers(seen) == "Cloudflare"
    assert Methods(rules.load(None, [added])).by_headers(seen) == "A"
    assert [rule.cdn for rule in rules.load(added)] == ["A"]


def test_rules_of_a_run_are_its_own_once_it_has_some(tmp_path: Path) -> None:
    assert rules.in_force(tmp_path) == rules.DEFAULT
    rules_file = written(tmp_path, CNAME, rules.RULES_FILE)
    assert rules.in_force(tmp_path) == rules_file


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rule]\n", "is not TOML"),
        (b"\xff\xfe", "cannot read"),
        ("", r"expected tables \[\[rule\]\]"),
        ("rule = []\n", r"expected tables \[\[rule\]\]"),
        ("rule = [1]\n", "rule 1: is no table"),
        (CNAME + "[other]\n", r"expected tables \[\[rule\]\]"),
        ('[[rule]]\nsource = "x"\ncname = ["a.b"]\n', "cdn must be a text"),
        ('[[rule]]\ncdn = "A"\ncname = ["a.b"]\n', "source must be a text"),
        ('[[rule]]\ncdn = "Others"\nsource = "x"\ncname = ["a.b"]\n', "Others cannot be the name"),
        ('[[rule]]\ncdn = "A\\u0007"\nsource = "x"\ncname = ["a.b"]\n', "cannot be printed"),
        (GOOD, "needs one of cname, header, san, subject, issuer"),
        (CNAME + 'san = ["a.b"]\n', "no more than one"),
        (CNAME + 'values = ["x"]\n', "values go with header only"),
        (CNAME + "cnames = 1\n", "'cnames' is not a key of a rule"),
        (GOOD + 'cname = "a.example"\n', "cname must be a list"),
        (GOOD + "cname = []\n", "cname must be a list"),
        (GOOD + "cname = [1]\n", "each text of cname"),
        (GOOD + 'cname = ["net"]\n', "two labels or more"),
        (GOOD + 'cname = ["A.example"]\n', "lower case"),
        (GOOD + 'cname = [".a.example"]\n', "is not a suffix"),
        (GOOD + 'cname = ["a.example."]\n', "is not a suffix"),
        (GOOD + 'san = ["*.a.example"]\n', "is not a suffix"),
        (GOOD + f'cname = ["{"a." * 200}example"]\n', "1 to 255 characters"),
        (GOOD + 'header = "X-Mine"\n', "in lower case"),
        (GOOD + 'header = "x y"\n', "is not the name of a field"),
        (GOOD + 'header = "x"\nvalues = ["*"]\n', "fits anything"),
        (GOOD + f'header = "x"\nvalues = ["{"a*" * 9}"]\n', "more than 8 stars"),
        (GOOD + 'subject = ["Example"]\n', "is not like O=Example Inc."),
        (GOOD + 'issuer = ["O=*"]\n', "fits anything"),
        (CNAME + CNAME.replace('"A"', '"B"'), "cname a.example is claimed by B and by A"),
        ("#" * (rules.MAX_BYTES + 1), "is larger than"),
        (CNAME * (rules.MAX_RULES + 1), "10000 is the most"),
        ("rule = " + "[" * 5000 + "]" * 5000, "is not TOML"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(UsageError, match=says) as found:
        rules.load(written(tmp_path, text))
    assert str(tmp_path / "rules.toml") in str(found.value)
    assert "\n" not in str(found.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none.toml: No such file"):
        rules.load(tmp_path / "none.toml")
