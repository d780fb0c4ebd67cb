"""Decides which addresses the crawl may contact, by lists and networks. Requires a contact for others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from firstflight.egress import rtnetlink
from firstflight.egress.current import Trust
from firstflight.egress.permitted import Permitted
from firstflight.errors import UsageError


class Policy:
    """Raise InputError for an invalid list, and UsageError if there is neither a contact nor a network."""

    def __init__(
        self, blocklists: Sequence[Path], optouts: Sequence[Path], allow: Sequence[str], contact: str
    ) -> None:
        self._permitted = Permitted(blocklists, optouts, allow)
        self._has_contact = bool(contact.strip())
        if not self._has_contact and not allow:
            raise UsageError(
                "--contact is needed, so that operators know whom to ask (or --allow-net for private "
                "networks); nothing was sent"
            )

    def why_not(self, address: str, name: str = "") -> str | None:
        """Return why an address may not be contacted for a name; `None` if it may. Raise like `lab.check`."""
        why = self._permitted.why_not(address, name)
        if why is not None:
            return why
        if not self._permitted.address_needs_contact(address):
            return None  # in a network that is allowed
        if rtnetlink.goes_by_loopback(address):
            return "its address is this machine's"
        return None if self._has_contact else "there is no contact for it"

    def is_confirmed(self) -> bool:
        """Return whether requests may be sent: any opt-out list that needs confirmation is confirmed."""
        return self._permitted.look() == Trust.ALL

    def check_resolver(self, address: str) -> None:
        """Raise UsageError if the resolver is on a list. It may be in a private network."""
        if self._permitted.is_listed(address):
            raise UsageError(f"the resolver {address} is on a list: name another one; nothing was sent")
