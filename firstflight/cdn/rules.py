"""Reads the rules that identify a CDN by names, headers and certificates (cdn_rules.toml, or the user's own).

A file is a list of tables [[rule]]. Each has `cdn`, `source` (its documentation), and exactly one of these
keys:

- `cname`: list of name suffixes in whole labels; the longest matching suffix decides;
- `header`: name of a response field; with `values`, a value must match, else the field's presence is
  sufficient;
- `san`: list of suffixes of names in the certificate's subjectAltName, like `cname`;
- `subject`, `issuer`: list of TYPE=VALUE, an attribute of the certificate's subject or issuer (RFC 4514).

In values, `*` matches any text, and case is ignored.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstflight.as_map import OTHERS
from firstflight.errors import UsageError

DEFAULT = Path(__file__).with_name("cdn_rules.toml")
# The file's name in RUN/as_data.
RULES_FILE = "cdn_rules.toml"
KINDS = ("cname", "header", "san", "subject", "issuer")
MAX_BYTES, MAX_RULES, MAX_VALUES, MAX_CHARACTERS, MAX_STARS = 1 << 20, 10_000, 1_000, 255, 8

_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
# At least two labels, because a single label would claim a whole top-level domain.
_SUFFIX = re.compile(rf"{_LABEL}(\.{_LABEL})+")
_FIELD = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110 5.1, lower case as in HTTP/3
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9-]*=.+|[0-9]+(\.[0-9]+)+=.+")


@dataclass(frozen=True)
class Rule:
    """One rule. `name` is the field in a `header` rule. `values` may be empty."""

    cdn: str
    source: str
    kind: str
    values: tuple[str, ...]
    name: str = ""


def load(base: Path | None, extra: Iterable[Path] = ()) -> list[Rule]:
    """Join the rules of `extra`, in order, and the rules of `base` (`None`: firstflight's own).

    Raise UsageError, one sentence, if a file is invalid, or if two CDNs claim the same suffix, value or
    field.
    """
    rules: list[Rule] = []
    claimed: dict[tuple[str, str, str], str] = {}
    for path in (*extra, base or DEFAULT):
        for rule in _read(path):
            for value in rule.values or ("",):
                first = claimed.setdefault((rule.kind, rule.name, value.lower()), rule.cdn)
                if first != rule.cdn:
                    rule_name = " ".join(filter(None, (rule.kind, rule.name, value)))
                    raise UsageError(
                        f"{path}: {rule_name} is claimed by {rule.cdn} and by {first}: remove one of the two"
                    )
            rules.append(rule)
    return rules


def in_force(as_data: Path) -> Path:
    """Return the rules of the run with the AS data in `as_data`; firstflight's own if it has no rules yet."""
    path = as_data / RULES_FILE
    return path if path.is_file() else DEFAULT


def render(rules: Sequence[Rule], sources: Iterable[Path]) -> str:
    """Return the rules, in order, as a file's text."""
    lines = [f"# In force for this run; from {', '.join(path.name for path in sources)}"]
    for rule in rules:
        lines += ["", "[[rule]]", f"cdn = {_text(rule.cdn)}", f"source = {_text(rule.source)}"]
        values = f"[{', '.join(map(_text, rule.values))}]"
        if rule.kind != "header":
            lines.append(f"{rule.kind} = {values}")
            continue
        lines.append(f"header = {_text(rule.name)}")
        if rule.values:
            lines.append(f"values = {values}")
    return "\n".join(lines) + "\n"


def as_json(rules: Sequence[Rule]) -> str:
    """Return the rules in the format of the handshake engine (`--cdn-rules`)."""
    return json.dumps(
        [{"cdn": rule.cdn, "kind": rule.kind, "name": rule.name, "values": rule.values} for rule in rules]
    )


def _read(path: Path) -> list[Rule]:
    """Return a file's rules in order. Raise UsageError, one sentence, if it is invalid."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise UsageError(f"{path} is larger than {MAX_BYTES} bytes, too large for a file of CDN rules")
        data = tomllib.loads(content.decode())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    tables = data.pop("rule", None)
    if not isinstance(tables, list) or not tables or data:
        raise UsageError(f"{path}: expected tables [[rule]], at least one, and nothing else")
    if len(tables) > MAX_RULES:
        raise UsageError(f"{path} has {len(tables)} rules; {MAX_RULES} is the most")
    rules = []
    for number, table in enumerate(tables, start=1):
        try:
            rules.append(_rule(table))
        except ValueError as error:
            raise UsageError(f"{path}, rule {number}: {error}") from error
    return rules


def _rule(table: Any) -> Rule:
    """Return a validated rule. Raise ValueError with the fault."""
    if not isinstance(table, dict):
        raise ValueError("is no table")
    kinds = [kind for kind in KINDS if kind in table]
    unknown = sorted(table.keys() - {"cdn", "source", "values", *KINDS})
    if unknown:
        raise ValueError(f"{unknown[0][:60]!r} is not a key of a rule")
    if len(kinds) != 1:
        raise ValueError(f"needs one of {', '.join(KINDS)}, and no more than one")
    (kind,) = kinds
    cdn, source = _line(table, "cdn"), _line(table, "source")
    if cdn == OTHERS:
        raise ValueError(f"{OTHERS} cannot be the name of a CDN: it means that no rule fits")
    if kind == "header":
        name = _line(table, "header")
        if not _FIELD.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a field in lower case")
        values = _list(table, "values") if "values" in table else ()
        return Rule(cdn, source, kind, tuple(map(_pattern, values)), name)
    if "values" in table:
        raise ValueError("values go with header only")
    check = _pattern_of_attribute if kind in ("subject", "issuer") else _suffix
    return Rule(cdn, source, kind, tuple(map(check, _list(table, kind))))


def _line(table: dict[str, Any], key: str) -> str:
    return _one_line(table.get(key), key)


def _one_line(value: Any, subject: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_CHARACTERS:
        raise ValueError(f"{subject} must be a text of 1 to {MAX_CHARACTERS} characters")
    if not value.isprintable():
        raise ValueError(f"{subject} has a character that cannot be printed")
    return value


def _list(table: dict[str, Any], key: str) -> tuple[str, ...]:
    texts = table[key]
    if not isinstance(texts, list) or not 0 < len(texts) <= MAX_VALUES:
        raise ValueError(f"{key} must be a list of 1 to {MAX_VALUES} texts")
    return tuple(_one_line(text, f"each text of {key}") for text in texts)


def _suffix(text: str) -> str:
    if not _SUFFIX.fullmatch(text):
        raise ValueError(f"{text!r} is not a suffix like cdn.example.net, lower case, two labels or more")
    return text


def _pattern(text: str) -> str:
    if not text.replace("*", "").strip() or text.count("*") > MAX_STARS:
        raise ValueError(f"{text!r} fits anything, or has more than {MAX_STARS} stars")
    return text


def _pattern_of_attribute(text: str) -> str:
    if not _ATTRIBUTE.fullmatch(text):
        raise ValueError(f"{text!r} is not like O=Example Inc.")
    _pattern(text.partition("=")[2])
    return text


def _text(value: str) -> str:
    # A JSON string without escaped surrogates is also a TOML basic string.
    return json.dumps(value, ensure_ascii=False)
