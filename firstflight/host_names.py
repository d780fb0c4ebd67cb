"""Converts host names in lists, options and settings to the form for DNS and SNI.

`scanner/native/core/src/host_name.rs` accepts the same names for the engines. tests/field/names.json
tests both.
"""

from __future__ import annotations

import ipaddress
import re

# LDH labels (RFC 1123 2.1), plus the underscore: it is not valid in host names, but occurs in names in use.
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?")
# Almost all names in lists already have this form. An address never has a last label that starts with a
# letter.
_NORMAL = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z](?:[a-z0-9_-]{0,61}[a-z0-9_])?")


class NotAName(ValueError):
    """The text is not a domain name. The message is the reason, for use after `line N: `."""


def normalise(text: str) -> str:
    """Return the name in lower case, as A-labels (IDNA 2008 with the mapping of UTS 46), without a final dot.

    Raise NotAName for text that cannot be resolved as a host name: addresses, URLs, wildcards, labels over 63
    bytes, names over 253 bytes (RFC 1035 2.3.4).
    """
    if len(text) <= 253 and _NORMAL.fullmatch(text):
        return text
    name = text.strip()
    if not name:
        raise NotAName("the name is empty")
    if "://" in name or "/" in name:
        raise NotAName(f"{quoted(name)} is a URL or a path, not a name; write only the host's name")
    if _is_address(name):
        raise NotAName(f"{quoted(name)} is an address, not a name")
    if "\ufffd" in name:
        raise NotAName(f"{quoted(name)} is not UTF-8 text")
    if not name.isascii():
        # Imported here, because only few names need its tables.
        import idna

        try:
            name = idna.encode(name, uts46=True).decode("ascii")
        except idna.IDNAError as error:
            raise NotAName(f"{quoted(name)} is not an internationalised name ({error})") from error
    name = name.lower().removesuffix(".")
    if len(name) > 253:
        raise NotAName(f"{quoted(name)} is longer than 253 characters")
    for label in name.split("."):
        if not label:
            raise NotAName(f"{quoted(name)} is not a domain name: it has an empty label")
        if len(label) > 63:
            raise NotAName(f"{quoted(name)} has a label of more than 63 characters")
        if not _LABEL.fullmatch(label):
            raise NotAName(f"{quoted(name)} is not a domain name: label {quoted(label)} is not allowed")
    if name.rpartition(".")[2].isdigit():
        raise NotAName(f"{quoted(name)} is not a domain name: it ends in a number")
    return name


def quoted(text: str, limit: int = 60) -> str:
    """Quote `text` for a message: one line, no control characters, truncated to about `limit` characters."""
    quoted = repr(text[: limit + 1])
    return quoted if len(quoted) <= limit + 2 else quoted[:limit] + "…" + quoted[0]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return False
    return True
