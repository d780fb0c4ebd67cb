"""The User-Agent of HTTP requests."""

from __future__ import annotations

from importlib.metadata import version


def user_agent(contact: str) -> str:
    """Return the User-Agent: product, version and contact."""
    # A header field holds no line ends, and only ASCII is portable (RFC 9110 5.5).
    who = " ".join(contact.split()).encode("ascii", "replace").decode("ascii")
    return f"firstflight/{version('firstflight')}" + (f" ({who})" if who else "")
