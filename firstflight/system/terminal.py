"""Makes untrusted text safe for terminals: control characters are shown, not interpreted.

A close reason, an operator's name or a line of a list may contain escape sequences that move the cursor, set
the title or inject input (ECMA-48), and marks that change the direction of writing, so that one name looks
like another (UAX 9; CVE-2021-42574). Every table, trace, page, message and log line is filtered here. Output
for programs keeps its values: JSON writes such characters as escapes.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import nullcontext, suppress
from typing import Any

# Control characters (C0, DEL, C1), separators of lines and paragraphs, marks and overrides of direction, and
# surrogates, which stand for bytes that are not UTF-8.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Colours in the engine's tables on a terminal: bold heads, underlined thousands, grey numbers.
_ENGINE_STYLES = re.compile("\x1b\\[(?:0|1|4|90)m")
_FOR_PEOPLE = ("pretty", "vertical", "markdown")


def visible(text: str, keep: str = "") -> str:
    r"""Return `text` with characters that a terminal interprets escaped (`\x1b`, `\u202e`), except `keep`."""
    return _OBEYED.sub(lambda found: found[0] if found[0] in keep else _written(found[0]), text)


def lines(text: str) -> str:
    """Return `text` like `visible`, keeping line feeds and tabs."""
    return visible(text, keep="\n\t")


def as_json(value: Any, indent: int | None = None) -> str:
    """Return `value` as JSON that is exact for programs and safe on a terminal."""
    return _json_escaped(json.dumps(value, ensure_ascii=False, indent=indent))


def echo(text: object, *, err: bool = False, end: str = "\n") -> None:
    """Print text, made safe for terminals, on standard output or (`err`) standard error.

    Errors of standard error are ignored, for example a log on a full disk; OSError for
    standard output.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is None:  # standard error was closed
        return
    with suppress(OSError) if err else nullcontext():
        stream.write(lines(str(text)) + end)
        stream.flush()


def answer(content: bytes, output_format: str, *, terminal: bool) -> bytes:
    """Return a result in `output_format` as it is printed: exact for programs, safe for terminals.

    Tables (Pretty, Vertical, Markdown) are always made safe; other formats only if printed to a `terminal`.
    """
    name = output_format.lower()
    if not terminal and not name.startswith(_FOR_PEOPLE):
        return content
    text = content.decode(errors="surrogateescape")
    if name.startswith("json"):
        return _json_escaped(text).encode(errors="backslashreplace")
    return lines(_ENGINE_STYLES.sub("", text) if terminal else text).encode()


def _written(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _json_escaped(text: str) -> str:
    """Escape such characters in JSON, where they occur only in strings; keep line feeds and tabs."""
    return _OBEYED.sub(lambda f: f[0] if f[0] in "\n\t" else f"\\u{ord(f[0]):04x}", text)
