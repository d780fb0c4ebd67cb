"""The lists that a running ZMap has in force. ZMap reads its block list only when it starts.

So this process follows the lists, and ZMap must be stopped when an entry concerns the scanned networks, or
when a followed list is no longer confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from firstflight.egress.current import LOOK_S, Trust
from firstflight.egress.permitted import Permitted, Span, addresses_in
from firstflight.errors import FirstflightError


class ListsChanged(FirstflightError):
    """ZMap was stopped, because the lists that it started with are no longer in force."""


class ListsInForce:
    """The permitted parts of IPv4 ranges at the start of ZMap.

    Waits until all lists are complete and a followed list is confirmed. Calls `look` meanwhile and in each
    `check`; errors that it raises pass through.
    """

    def __init__(self, permitted: Permitted, spans: Sequence[Span], look: Callable[[], None]) -> None:
        self._permitted, self._spans, self._look = permitted, spans, look
        look()
        while permitted.look_until_complete() < Trust.ALL:
            time.sleep(LOOK_S)
            look()
        self._at_start, self._entries = permitted.permitted_ipv4(spans), permitted.entries
        self._next_s = 0.0

    @property
    def addresses(self) -> int:
        """The number of permitted addresses at the start of ZMap."""
        return addresses_in(self._at_start)

    def check(self) -> None:
        """Raise ListsChanged if ZMap must not send another packet. Looks at most a few times a second."""
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + LOOK_S
        self._look()
        if self._permitted.look() < Trust.ALL:
            raise ListsChanged(
                "ZMap was stopped, because the opt-out list is no longer confirmed: run the scan again "
                "when the centre can be reached"
            )
        if self._permitted.entries == self._entries:
            return
        self._entries = self._permitted.entries
        if self._permitted.permitted_ipv4(self._spans) != self._at_start:
            raise ListsChanged(
                "ZMap was stopped, because a network that it scans was added to a list: run the scan again"
            )
