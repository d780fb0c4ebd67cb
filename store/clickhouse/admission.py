"""Connections whose client has not said who it is: how many, for how long, and what a wrong password costs.

They have places of their own, so that strangers who say nothing, or say it slowly, take none of those who
are in. A client that knows its password needs a place for milliseconds, and has it for a second whoever else
comes; then the one that has waited longest gives way. Who finds no place waits in the port's queue, in order,
so that those who guess delay a login and do not shut it out.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from dataclasses import dataclass

MAX_WAITING = 64
WRONG_PASSWORD_S = 1.0
OWN_S = 1.0
"""For how long a new connection's place is its own."""
_LINE_EVERY_S = 1.0

_log = logging.getLogger(__name__)


@dataclass
class _Guest:
    sock: socket.socket
    came: float
    held: bool = False


class Admission:
    """All connections before their login; `seconds` is what each has for it in total."""

    def __init__(
        self,
        seconds: float,
        places: int = MAX_WAITING,
        delay_s: float = WRONG_PASSWORD_S,
        own_s: float = OWN_S,
    ) -> None:
        self._seconds, self._places, self._delay_s, self._own_s = seconds, places, delay_s, own_s
        self._guests: dict[int, _Guest] = {}
        self._changing = threading.Condition()
        self._unsaid = 0
        self._said_at = -_LINE_EVERY_S

    def enter(self, number: int, sock: socket.socket) -> None:
        """Give a new connection a place, as soon as there is one; nobody else is taken in meanwhile.

        The socket is cut when time is over or its place is needed; `leave` ends that.
        """
        with self._changing:
            while len(self._guests) >= self._places:
                now = time.monotonic()
                oldest = next((one for one, guest in self._guests.items() if not guest.held), None)
                if oldest is None:
                    self._changing.wait()  # each wrong password has its end
                elif (left := self._guests[oldest].came + self._own_s - now) > 0:
                    self._changing.wait(left)
                else:
                    self._cut(self._guests.pop(oldest))
            # A copy: TLS takes the connection out of the socket that it is given.
            self._guests[number] = _Guest(sock.dup(), time.monotonic())

    def leave(self, number: int) -> None:
        """The connection has logged in, or ended."""
        with self._changing:
            guest = self._guests.pop(number, None)
            self._changing.notify_all()
        if guest is not None:
            guest.sock.close()

    def wrong_password(self, number: int, user: str) -> None:
        """Log it and wait. The place stays taken meanwhile, though the client goes, so that all together
        guess no faster than there are places.
        """
        with self._changing:
            guest = self._guests.get(number)
            if guest is not None:
                guest.held = True
                with contextlib.suppress(OSError):
                    self._tell(user, guest.sock.getpeername())
        time.sleep(self._delay_s)

    def expire(self) -> None:
        """Cut those whose time is over."""
        before = time.monotonic() - self._seconds
        with self._changing:
            over = [one for one, guest in self._guests.items() if guest.came < before and not guest.held]
            for one in over:
                self._cut(self._guests.pop(one))
            self._changing.notify_all()

    def _tell(self, user: str, peer: tuple[object, ...]) -> None:
        """One line a second at most, so that nobody fills a disk with them."""
        self._unsaid += 1
        if time.monotonic() - self._said_at >= _LINE_EVERY_S:
            more = f" ({self._unsaid} since the last such line)" if self._unsaid > 1 else ""
            _log.warning("firstflight: wrong user or password from %s, user %r%s", peer[0], user[:64], more)
            self._said_at, self._unsaid = time.monotonic(), 0

    @staticmethod
    def _cut(guest: _Guest) -> None:
        with contextlib.suppress(OSError):
            guest.sock.shutdown(socket.SHUT_RDWR)
        guest.sock.close()
