"""Content codings of answers (RFC 9110 8.4.1): we ask for none, but some servers use one all the same."""

from __future__ import annotations

import zlib

# Bits of zlib's window: with a header of gzip; of zlib; none, as some servers send `deflate`.
_WINDOWS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}


def name_of(field: str) -> str:
    """Return the coding that a Content-Encoding names, in lower case; empty if there is none."""
    names = [name.strip().lower() for name in field.split(",")]
    return ", ".join(name for name in names if name not in ("", "identity"))


def is_read(field: str) -> bool:
    """Return whether a body with this Content-Encoding can be read."""
    return name_of(field) in ("", *_WINDOWS)


def decoded(body: bytes, field: str, most: int) -> bytes | None:
    """Return the first `most` bytes of a body without its coding; None if it is damaged or cannot be read.

    A body that was cut gives what is in it. Of gzip the first member counts, as in browsers.
    """
    name = name_of(field)
    if not name:
        return body[:most]
    for window in _WINDOWS.get(name, ()):
        try:
            return zlib.decompressobj(window).decompress(body, most)
        except zlib.error:
            continue
    return None
