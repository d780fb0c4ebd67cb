"""The page of settings, from the Pydantic models and the comments above their fields."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from typing import Any, get_args

from pydantic.fields import FieldInfo

from firstflight.settings import sections, whole

HEAD = """\
# Settings

A campaign's settings file is TOML with these tables. Copy `examples/own-list.toml` to start. `--set
SECTION.KEY=VALUE` overrides one setting. An unknown key, or a value outside the bounds, is an error, and
nothing is sent. `--dry-run` checks a file.
"""
# Types of firstflight/settings, in a reader's words.
TYPES = {
    "bool": "true or false",
    "int": "integer",
    "float": "number",
    "str": "text",
    "FileSetting": "existing file",
    "PathSetting": "path",
    "DateSetting": "date",
    "Rate": "number",
    "Limit": "number (0: no limit)",
    "Command": "list of words",
    "Port": "port",
    "PortRange": "ports FIRST-LAST",
    "VantageName": "name (a-z, 0-9, _)",
    "HostName": "host name",
    "LabNetwork": "network of a laboratory",
    "ScanNetwork": "IPv4 network of /8 or smaller",
    "WeightedResolver": "IP[:PORT][,weight=N]",
    "StoreUrl": "chdb:PATH or clickhouse://...",
    "InitialSize": "UDP payload in bytes",
    "Address": "IP address",
    "Interface": "network interface",
    "Contact": "text",
    "ProtocolName": "name of an ALPN protocol",
}
# Bounds that Pydantic keeps with a field, and how they are written.
BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "pattern": "matches"}


def markdown() -> str:
    """Return the page: a section for each table of the file."""
    parts = [HEAD]
    for name, field in whole.Settings.model_fields.items():
        section = field.annotation
        repeated = False
        if arguments := get_args(section):
            section, repeated = arguments[0], True
        assert isinstance(section, type) and issubclass(section, sections.Section)
        table = f"[[{name}]]" if repeated else f"[{name}]"
        parts.append(f"## {name}\n\n`{table}`. {_description(section)}\n")
        parts += [*rows(section), ""]
    return "\n".join(parts)


def _description(section: type) -> str:
    return " ".join((inspect.getdoc(section) or "").split("\n\n")[0].split())


def rows(section: type[sections.Section]) -> Iterator[str]:
    """Yield the lines of the table of a section's settings."""
    yield "| setting | values | default | meaning |\n| --- | --- | --- | --- |"
    fields = _written(section)
    for name, field in section.model_fields.items():
        annotation, comment = fields[name]
        values = "; ".join([_type(annotation), *bounds(field)])
        yield row(f"`{name}`", values, default(field), comment)


def row(*cells: str) -> str:
    """Return a table row."""
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(annotation: ast.expr) -> str:
    """Return an annotation's values in words."""
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr()):  # `X | None`: the default shows that it may be missing
            return _type(left)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=given):
            options = given.elts if isinstance(given, ast.Tuple) else [given]
            return ", ".join(f"`{json.dumps(ast.literal_eval(option))}`" for option in options)
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[entry, *_])):
            return f"list of: {_type(entry)}"
        case ast.Name(id=name):
            return TYPES[name]
    raise ValueError(f"deploy/docs/settings.py has no words for the type {ast.unparse(annotation)}")


def bounds(field: FieldInfo) -> Iterator[str]:
    """Yield a field's bounds in words."""
    for limit in field.metadata:
        for name, words in BOUNDS.items():
            if (value := getattr(limit, name, None)) is not None:
                yield f"{words} `{value}`" if name == "pattern" else f"{words} {value}"


def default(field: FieldInfo) -> str:
    """Return a field's default in words."""
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value in (None, (), "", {}):
        return "none"
    return f"`{json.dumps(list(value) if isinstance(value, tuple) else value, default=str)}`"


def _written(section: type) -> dict[str, tuple[ast.expr, str]]:
    """Return each field's annotation and the comment above it, as the source has them; base classes too."""
    found: dict[str, tuple[ast.expr, str]] = {}
    for base in reversed(section.__mro__):
        if not issubclass(base, sections.Section) or base is sections.Section:
            continue
        source = textwrap.dedent(inspect.getsource(base))
        lines = source.splitlines()
        (tree,) = ast.parse(source).body
        assert isinstance(tree, ast.ClassDef)
        for node in tree.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = (node.annotation, _comment_above(lines, node.lineno - 1))
    return found


def _comment_above(lines: list[str], index: int) -> str:
    """Return the comment that ends right above line `index`."""
    first = index
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(line.lstrip("# ").strip() for line in lines[first:index])
