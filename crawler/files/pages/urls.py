"""Validates and normalises URLs from pages and redirects.

Pages are untrusted: a link may have another scheme, a port, a password or an address, or be megabytes long.
"""

from __future__ import annotations

import codecs
import re
import string
from urllib.parse import quote, urljoin, urlsplit

from w3lib.url import safe_url_string

from firstflight.host_names import NotAName, normalise

_PORTS = {"https": 443, "http": 80}
# URLs cannot contain these characters. Browsers remove some of them; we reject them.
_CONTROL = re.compile(r"[\x00-\x20\x7f]")
# Characters that stay unencoded in a query. `#` would start a fragment.
_ASCII = (string.ascii_letters + string.digits + string.punctuation).replace("#", "")


class Unusable(ValueError):
    """A link that is never requested, whatever its host. The message is the reason."""


def start_of(domain: str) -> str:
    """Return the URL of a name's start page."""
    return f"https://{domain}/"


def host_of(url: str) -> str:
    """Return the host of a URL that `absolute` returned."""
    return urlsplit(url).hostname or ""


def of_header(field: bytes) -> str:
    """Return the reference in a Location field: UTF-8, or else percent-encoded byte by byte."""
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError:
        return quote(field, safe=string.printable)


def absolute(base: str, reference: str, most_characters: int, encoding: str = "utf-8") -> str:
    """Return the absolute https URL of `reference` in the resource at `base`, without a fragment.

    `encoding`: the resource's encoding, which the URL's query uses (WHATWG URL Standard, query state). An
    http link becomes an https link to the same host. Raise Unusable for another scheme, a port, a user name,
    a host that is an address or not a valid name, control characters, or more than `most_characters`
    characters.
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
        raise Unusable("it is not a URL") from error
    if parts.scheme not in _PORTS:
        raise Unusable("its scheme is not http or https")
    if port not in (None, _PORTS[parts.scheme]) or "@" in parts.netloc:
        raise Unusable("it has a port or a user name")
    try:
        host = normalise(parts.hostname or "")
    except NotAName as error:
        raise Unusable("its host is not a name") from error
    try:
        query = _encoded(parts.query, encoding)
        url = safe_url_string(parts._replace(scheme="https", netloc=host, query=query, fragment="").geturl())
    except ValueError as error:
        raise Unusable("it is not a URL") from error
    if len(url) > most_characters:
        raise Unusable("it is too long")
    return (
        url if urlsplit(url).path else f"{url.partition('?')[0]}/{url[url.find('?') :] if '?' in url else ''}"
    )


def _encoded(query: str, encoding: str) -> str:
    """Return a query in ASCII. Characters that the encoding lacks become character references."""
    return query if query.isascii() else quote(query.encode(encoding, _LACKED), safe=_ASCII)


def _as_reference(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    unencodable = error.object[error.start : error.end]
    return "".join(f"%26%23{ord(character)}%3B" for character in unencodable), error.end


_LACKED = "firstflight.query"
codecs.register_error(_LACKED, _as_reference)
