"""Limits on connections before login: their number, their time, and the delay after a wrong password.

They have their own limit, so silent or slow strangers take no capacity from logged-in clients. A client that
knows its password needs a slot for milliseconds, and keeps it for at least a second under any load; after
that the oldest connection is cut when a new one needs a slot. Without a free slot, new connections wait in
order in the port's queue, so password guessing delays a login but does not prevent it.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from dataclasses import dataclass

MAX_PENDING = 64
WRONG_PASSWORD_S = 1.0
PROTECTED_S = 1.0
"""How long a new connection cannot be cut in favour of another one."""
_LINE_EVERY_S = 1.0

_log = logging.getLogger(__name__)


@dataclass
class _Pending:
    sock: socket.socket
    accepted: float
    delayed: bool = False


class Admission:
    """All connections before login; `seconds` limits the total time of each."""

    def __init__(
        self,
        seconds: float,
        slots: int = MAX_PENDING,
        delay_s: float = WRONG_PASSWORD_S,
        protected_s: float = PROTECTED_S,
    ) -> None:
        self._seconds, self._slots, self._delay_s, self._protected_s = seconds, slots, delay_s, protected_s
        self._pending: dict[int, _Pending] = {}
        self._changing = threading.Condition()
        self._unlogged = 0
        self._logged_at = -_LINE_EVERY_S

    def enter(self, number: int, sock: socket.socket) -> None:
        """Wait for a free slot and give it to a new connection; no other connection is accepted meanwhile.

        Until `leave` is called, the socket is cut when the time expires or the slot is needed.
        """
        with self._changing:
            while len(self._pending) >= self._slots:
                now = time.monotonic()
                oldest = next(
                    (waiting for waiting, pending in self._pending.items() if not pending.delayed), None
                )
                if oldest is None:
                    self._changing.wait()  # until a delay after a wrong password expires
                elif (remaining_s := self._pending[oldest].accepted + self._protected_s - now) > 0:
                    self._changing.wait(remaining_s)
                else:
                    self._cut(self._pending.pop(oldest))
            # A copy: TLS detaches the connection from the socket that it wraps.
            self._pending[number] = _Pending(sock.dup(), time.monotonic())

    def leave(self, number: int) -> None:
        """Free the slot of a connection that has logged in or ended."""
        with self._changing:
            pending = self._pending.pop(number, None)
            self._changing.notify_all()
        if pending is not None:
            pending.sock.close()

    def wrong_password(self, number: int, user: str) -> None:
        """Log a wrong password and wait. The connection keeps its slot during the delay, even if the client
        disconnects, so the number of slots limits the rate of all guesses.
        """
        with self._changing:
            pending = self._pending.get(number)
            if pending is not None:
                pending.delayed = True
                with contextlib.suppress(OSError):
                    self._log_refusal(user, pending.sock.getpeername())
        time.sleep(self._delay_s)

    def expire(self) -> None:
        """Cut the connections that exceeded their time."""
        before = time.monotonic() - self._seconds
        with self._changing:
            expired = [
                n for n, pending in self._pending.items() if pending.accepted < before and not pending.delayed
            ]
            for number in expired:
                self._cut(self._pending.pop(number))
            self._changing.notify_all()

    def _log_refusal(self, user: str, peer: tuple[object, ...]) -> None:
        """Log at most one line per second, so that guessing cannot fill the disk."""
        self._unlogged += 1
        if time.monotonic() - self._logged_at >= _LINE_EVERY_S:
            more = f" ({self._unlogged} since the last such line)" if self._unlogged > 1 else ""
            _log.warning("firstflight: wrong user or password from %s, user %r%s", peer[0], user[:64], more)
            self._logged_at, self._unlogged = time.monotonic(), 0

    @staticmethod
    def _cut(pending: _Pending) -> None:
        with contextlib.suppress(OSError):
            pending.sock.shutdown(socket.SHUT_RDWR)
        pending.sock.close()
