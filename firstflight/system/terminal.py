"""Makes untrusted text safe for terminals: control characters are shown, not interpreted.

A close reason, an operator's name or a line in a list may contain escape sequences that move the cursor, set
the title or inject input (ECMA-48). It may contain marks that change the writing direction, so that one name
looks like another (UAX 9; CVE-2021-42574). This module filters every table, trace, page, message and log
line. Output for programs keeps its values: JSON has escapes for such characters.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import nullcontext, suppress
from typing import Any

# Control characters (C0, DEL, C1), line and paragraph separators, direction marks and overrides, and
# surrogates, which stand for bytes that are not UTF-8.
_CONTROL_CHARACTERS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
# Styles in the engine's tables on a terminal: bold headings, underlined thousands, grey numbers.
_ENGINE_STYLES = re.compile("\x1b\\[(?:0|1|4|90)m")
_FOR_PEOPLE = ("pretty", "vertical", "markdown")


def visible(text: str, keep: str = "") -> str:
    r"""Return `text` with characters that a terminal interprets escaped (`\x1b`, `\u202e`), except `keep`."""
    return _CONTROL_CHARACTERS.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def lines(text: str) -> str:
    """Return `text` like `visible`, but keep line feeds and tabs."""
    return visible(text, keep="\n\t")


def as_json(value: Any, indent: int | None = None) -> str:
    """Return `value` as JSON that is exact for programs and safe on a terminal."""
    return _json_escaped(json.dumps(value, ensure_ascii=False, indent=indent))


def echo(text: object, *, err: bool = False, end: str = "\n") -> None:
    """Print text, made safe for terminals, on standard output or (`err`) standard error.

    Ignores errors of standard error, for example a log on a full disk. Raise OSError for standard output.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is None:  # standard error was closed
        return
    with suppress(OSError) if err else nullcontext():
        stream.write(lines(str(text)) + end)
        stream.flush()


def answer(content: bytes, output_format: str, *, terminal: bool) -> bytes:
    """Return a result in `output_format` for printing: exact for programs, safe for terminals.

    Tables (Pretty, Vertical, Markdown) are always made safe; other formats only when printed to a `terminal`.
    """
    name = output_format.lower()
    if not terminal and not name.startswith(_FOR_PEOPLE):
        return content
    text = content.decode(errors="surrogateescape")
    if name.startswith("json"):
        return _json_escaped(text).encode(errors="backslashreplace")
    return lines(_ENGINE_STYLES.sub("", text) if terminal else text).encode()


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _json_escaped(text: str) -> str:
    """Escape such characters in JSON, where they occur only in strings. Keeps line feeds and tabs."""
    return _CONTROL_CHARACTERS.sub(lambda f: f[0] if f[0] in "\n\t" else f"\\u{ord(f[0]):04x}", text)
