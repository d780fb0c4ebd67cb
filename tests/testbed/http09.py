"""A check that a client downloads 10 kB from a server by HTTP/0.9, over loopback."""

from __future__ import annotations

from pathlib import Path

from testbed import stacks
from tests.testbed import loopback

BODY_BYTES = 10_000


def downloads(folder: Path, client: str, server: str) -> None:
    """Check that it completes, and that the answer has no status: HTTP/0.9 has none."""
    given = loopback.configuration(folder, server, BODY_BYTES, alpn="hq-interop")
    answer = loopback.answer(folder, client, server, given)
    assert (answer["end"], answer.get("detail"), answer.get("status")) == ("complete", None, None), answer
    assert answer["body_bytes"] == BODY_BYTES


def pairs() -> list[tuple[str, str]]:
    """Return the pairs of client and server that support HTTP/0.9."""
    known = stacks.load()
    return [
        (client, server)
        for client, definition in known.items()
        if definition.client is not None and "hq-interop" in definition.alpn
        for server, other in known.items()
        if other.server_speaks("hq-interop")
    ]
