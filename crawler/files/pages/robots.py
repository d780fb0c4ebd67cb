"""robots.txt (RFC 9309): interprets the answer to its request, and applies the rules."""

from __future__ import annotations

import re

from protego import Protego

PRODUCT = "firstflight"
"""Our product token, as used in a User-agent line (RFC 9309 2.2.1)."""

# Protego also matches prefixes of our name, but in the RFC a group applies to a whole product token.
_USER_AGENT = re.compile(r"^[ \t]*user-agent[ \t]*:[ \t]*(\*|[a-z_-]*)[^\r\n]*", re.IGNORECASE | re.MULTILINE)
_OTHER = "somebody-else"


class Rules:
    """A host's rules. `state` is their source.

    `rules`: a robots.txt. `none`: the host has no robots.txt, so everything is allowed. `unreachable`:
    robots.txt could not be fetched, so everything is forbidden (RFC 9309 2.3.1.4). `elsewhere`: robots.txt is
    on a host that is not contacted, so everything is forbidden.
    """

    def __init__(self, state: str, parsed: Protego | None = None) -> None:
        self.state = state
        self._parsed = parsed

    def allows(self, url: str) -> bool:
        """Return whether our crawler may request `url`."""
        if self._parsed is None:
            return self.state == "none"
        return bool(self._parsed.can_fetch(url, PRODUCT))


NONE, UNREACHABLE, ELSEWHERE = Rules("none"), Rules("unreachable"), Rules("elsewhere")


def of_answer(status: int, body: bytes | None, *, is_whole: bool) -> Rules:
    """Return the rules for an answer that is not a redirect (RFC 9309 2.3.1).

    `is_whole` false: the body was truncated at the limit. The last line may be incomplete and is dropped.
    `body` `None`: the content coding cannot be decoded, so robots.txt is unreachable. 429 also counts as
    unreachable, because it means to try again later.
    """
    if 200 <= status < 300:
        if body is None:
            return UNREACHABLE
        if not is_whole:
            body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
        return Rules("rules", _parse(body))
    if 400 <= status < 500 and status != 429:
        return NONE
    return UNREACHABLE


def _parse(body: bytes) -> Protego:
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    return Protego.parse(_USER_AGENT.sub(_rename_group, text))


def _rename_group(line: re.Match[str]) -> str:
    name = line[1].lower()
    return f"User-agent: {name if name in ('*', PRODUCT) else _OTHER}"
