"""Reads the rules that identify a CDN by names, headers and certificates (cdn_rules.toml, or the user's own).

A file is a list of tables [[rule]], each with `cdn`, `source` (where that is documented) and one of:

- `cname`: list of suffixes of names, whole labels; the longest that fits decides;
- `header`: name of a field of the response; with `values` one of them fits its value, else it is there;
- `san`: list of suffixes of names in the certificate's subjectAltName, as of `cname`;
- `subject`, `issuer`: list of TYPE=VALUE, an attribute of the certificate's subject or issuer (RFC 4514).

In values `*` stands for any text, and letters count the same in upper and lower case.
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
# Its name in RUN/as_data.
RULES_FILE = "cdn_rules.toml"
KINDS = ("cname", "header", "san", "subject", "issuer")
MAX_BYTES, MAX_RULES, MAX_VALUES, MAX_CHARACTERS, MAX_STARS = 1 << 20, 10_000, 1_000, 255, 8

_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
# At least two labels: one alone would claim a whole top-level domain.
_SUFFIX = re.compile(rf"{_LABEL}(\.{_LABEL})+")
_FIELD = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110 5.1, lower case as in HTTP/3
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9-]*=.+|[0-9]+(\.[0-9]+)+=.+")


@dataclass(frozen=True)
class Rule:
    """One rule. `name` is the field of a `header` rule; `values` is empty if the rule has none."""

    cdn: str
    source: str
    kind: str
    values: tuple[str, ...]
    name: str = ""


def load(base: Path | None, extra: Iterable[Path] = ()) -> list[Rule]:
    """Join the rules of `extra`, in order, followed by the rules of `base` (None = firstflight's own).

    UsageError in one sentence if a file is wrong, or if two CDNs claim the same suffix, value or field.
    """
    found: list[Rule] = []
    claimed: dict[tuple[str, str, str], str] = {}
    for path in (*extra, base or DEFAULT):
        for rule in _read(path):
            for value in rule.values or ("",):
                first = claimed.setdefault((rule.kind, rule.name, value.lower()), rule.cdn)
                if first != rule.cdn:
                    what = " ".join(filter(None, (rule.kind, rule.name, value)))
                    raise UsageError(
                        f"{path}: {what} is claimed by {rule.cdn} and by {first}: remove it from one of them"
                    )
            found.append(rule)
    return found


def in_force(as_data: Path) -> Path:
    """Return the rules of a run whose AS data are in `as_data`; firstflight's own if it has none yet."""
    own = as_data / RULES_FILE
    return own if own.is_file() else DEFAULT


def render(rules: Sequence[Rule], sources: Iterable[Path]) -> str:
    """Return the rules as the text of a file, in their order."""
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
    """Return the rules as the handshake engine reads them (`--cdn-rules`)."""
    return json.dumps(
        [{"cdn": rule.cdn, "kind": rule.kind, "name": rule.name, "values": rule.values} for rule in rules]
    )


def _read(path: Path) -> list[Rule]:
    """Return the rules of a file in its order; UsageError in one sentence."""
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
    found = []
    for number, table in enumerate(tables, start=1):
        try:
            found.append(_rule(table))
        except ValueError as error:
            raise UsageError(f"{path}, rule {number}: {error}") from error
    return found


def _rule(table: Any) -> Rule:
    """Return a checked rule; ValueError says what is wrong with it."""
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


def _one_line(given: Any, what: str) -> str:
    if not isinstance(given, str) or not given.strip() or len(given) > MAX_CHARACTERS:
        raise ValueError(f"{what} must be a text of 1 to {MAX_CHARACTERS} characters")
    if not given.isprintable():
        raise ValueError(f"{what} has a character that cannot be printed")
    return given


def _list(table: dict[str, Any], key: str) -> tuple[str, ...]:
    given = table[key]
    if not isinstance(given, list) or not 0 < len(given) <= MAX_VALUES:
        raise ValueError(f"{key} must be a list of 1 to {MAX_VALUES} texts")
    return tuple(_one_line(one, f"each text of {key}") for one in given)


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
    # A JSON string without escapes of surrogates is a TOML basic string as well.
    return json.dumps(value, ensure_ascii=False)
