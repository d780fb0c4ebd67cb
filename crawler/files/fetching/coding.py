"""Decodes content codings of answers (RFC 9110 8.4.1). Some servers send one although we accept none."""

from __future__ import annotations

import zlib

# zlib's window bits: with a gzip header; with a zlib header; raw, as some servers send `deflate`.
_WINDOWS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}


def name_of(field: str) -> str:
    """Return the coding in a Content-Encoding field, in lower case; empty if there is no coding."""
    names = [name.strip().lower() for name in field.split(",")]
    return ", ".join(name for name in names if name not in ("", "identity"))


def is_read(field: str) -> bool:
    """Return whether a body with this Content-Encoding can be decoded."""
    return name_of(field) in ("", *_WINDOWS)


def decoded(body: bytes, field: str, max_bytes: int) -> bytes | None:
    """Return up to `max_bytes` of the decoded body; `None` if it is damaged or the coding is unknown.

    A truncated body is decoded up to the end. Only the first gzip member is decoded, as in browsers.
    """
    name = name_of(field)
    if not name:
        return body[:max_bytes]
    for window in _WINDOWS.get(name, ()):
        try:
            return zlib.decompressobj(window).decompress(body, max_bytes)
        except zlib.error:
            continue
    return None
