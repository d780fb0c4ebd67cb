"""robots.txt by RFC 9309: what an answer to its request means, and what its rules permit."""

from __future__ import annotations

import re

from protego import Protego

PRODUCT = "firstflight"
"""Our product token, which a User-agent line may name (RFC 9309 2.2.1)."""

# Protego matches the beginning of our name too; by the RFC a group is for a whole product token.
_USER_AGENT = re.compile(r"^[ \t]*user-agent[ \t]*:[ \t]*(\*|[a-z_-]*)[^\r\n]*", re.IGNORECASE | re.MULTILINE)
_OTHER = "somebody-else"


class Rules:
    """What one host's robots.txt permits; `state` says where that comes from.

    `rules`: it was read; `none`: there is none, so all is allowed; `unreachable`: it cannot be had, so all is
    forbidden (RFC 9309 2.3.1.4); `elsewhere`: it is at a host that is not contacted, so all is forbidden.
    """

    def __init__(self, state: str, parsed: Protego | None = None) -> None:
        self.state = state
        self._parsed = parsed

    def allows(self, url: str) -> bool:
        """Return whether our crawler may ask for `url`."""
        if self._parsed is None:
            return self.state == "none"
        return bool(self._parsed.can_fetch(url, PRODUCT))


NONE, UNREACHABLE, ELSEWHERE = Rules("none"), Rules("unreachable"), Rules("elsewhere")


def of_answer(status: int, body: bytes | None, *, is_whole: bool) -> Rules:
    """Return the rules of a robots.txt that was answered with `status`, no redirect (RFC 9309 2.3.1).

    `is_whole` False: the body was cut at the limit, and its last line may be half a rule, which is dropped.
    `body` None: it has a content coding that was not asked for, and cannot be read, so it is unreachable.
    429 counts as unreachable: it asks to come later, not to go on.
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
    return Protego.parse(_USER_AGENT.sub(_only_ours, text))


def _only_ours(line: re.Match[str]) -> str:
    name = line[1].lower()
    return f"User-agent: {name if name in ('*', PRODUCT) else _OTHER}"
