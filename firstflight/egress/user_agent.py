"""The User-Agent of HTTP requests."""

from __future__ import annotations

from importlib.metadata import version


def user_agent(contact: str) -> str:
    """Return the User-Agent: product, version and contact."""
    # A header field has no line breaks, and only ASCII is portable (RFC 9110 5.5).
    printable_contact = " ".join(contact.split()).encode("ascii", "replace").decode("ascii")
    return f"firstflight/{version('firstflight')}" + (f" ({printable_contact})" if printable_contact else "")
