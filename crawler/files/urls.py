"""URLs in pages and redirects: which may be asked for at all, in one form.

Pages are written by others, so a link may be anything: other schemes, ports, passwords, addresses, megabytes.
"""

from __future__ import annotations

import codecs
import re
import string
from urllib.parse import quote, urljoin, urlsplit

from w3lib.url import safe_url_string

from firstflight.host_names import NotAName, normalise

_PORTS = {"https": 443, "http": 80}
# Of no URL; a browser removes some of them, which we leave to browsers.
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
# What a query keeps as it is here; `#` would begin a fragment.
_ASCII = (string.ascii_letters + string.digits + string.punctuation).replace("#", "")


class Unusable(ValueError):
    """A link that is not asked for whatever its host: the message says why."""


def start_of(domain: str) -> str:
    """Return the URL of a name's start page."""
    return f"https://{domain}/"


def host_of(url: str) -> str:
    """Return the host of a URL that `absolute` returned."""
    return urlsplit(url).hostname or ""


def of_header(field: bytes) -> str:
    """Return the reference of a Location field: UTF-8, or else percent-encoded byte by byte."""
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError:
        return quote(field, safe=string.printable)


def absolute(base: str, reference: str, most_characters: int, encoding: str = "utf-8") -> str:
    """Return the https URL that `reference` in the resource at `base` means, without fragment.

    `encoding`: of the resource, in which the URL's query is written (WHATWG URL Standard, query state).
    A link to http is one to https at the same host. Raises Unusable for other schemes, ports, user names,
    hosts that are addresses or no names, control characters, and more than `most_characters` characters.
    """
    reference = reference.strip()
    if len(reference) > most_characters:
        raise Unusable("it is too long")
    if _CONTROL.search(reference.replace(" ", "")):
        raise Unusable("it has control characters")
    try:
        parts = urlsplit(urljoin(base, reference))
        port = parts.port
    except ValueError as error:
        raise Unusable("it is no URL") from error
    if parts.scheme not in _PORTS:
        raise Unusable("it is not of the web")
    if port not in (None, _PORTS[parts.scheme]) or "@" in parts.netloc:
        raise Unusable("it has a port or a user name")
    try:
        host = normalise(parts.hostname or "")
    except NotAName as error:
        raise Unusable("its host is no name") from error
    try:
        query = _encoded(parts.query, encoding)
        url = safe_url_string(parts._replace(scheme="https", netloc=host, query=query, fragment="").geturl())
    except ValueError as error:
        raise Unusable("it is no URL") from error
    if len(url) > most_characters:
        raise Unusable("it is too long")
    return (
        url if urlsplit(url).path else f"{url.partition('?')[0]}/{url[url.find('?') :] if '?' in url else ''}"
    )


def _encoded(query: str, encoding: str) -> str:
    """Return a query in ASCII; characters that the encoding lacks are character references."""
    return query if query.isascii() else quote(query.encode(encoding, _LACKED), safe=_ASCII)


def _as_reference(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacked = error.object[error.start : error.end]
    return "".join(f"%26%23{ord(character)}%3B" for character in lacked), error.end


_LACKED = "firstflight.query"
codecs.register_error(_LACKED, _as_reference)
