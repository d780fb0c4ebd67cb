"""The prober's standard input while it runs: probes at set times, networks held back
(scanner/native/first_answer/README.md)."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import IO

# Numbers from here on are slots of the feed, never lines of a list.
FIRST_SLOT = 1 << 31


class Feed:
    """Commands for a running prober. Never waits: what the pipe does not take is sent by the next `flush`."""

    def __init__(self) -> None:
        self._pipe: IO[bytes] | None = None
        self._unsent = bytearray()

    def attach(self, pipe: IO[bytes]) -> None:
        """Write to this pipe from now on."""
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe

    def slot(
        self,
        number: int,
        at_ns: int,
        *,
        grace_ms: int,
        owned: bool,
        asn: int | None,
        ip: str,
        port: int,
        domain: str,
    ) -> None:
        """Probe `ip` for `domain` at `at_ns` (UTC), at most `grace_ms` later. `number` from FIRST_SLOT on."""
        self._say(f"slot {number} {at_ns} {grace_ms} {int(owned)} {asn or 0} {ip} {port} {domain}")

    def hold(self, asn: int) -> None:
        """Send nothing new to that AS until it is freed."""
        self._say(f"hold {asn}")

    def free(self, asn: int) -> None:
        """That AS may be probed again."""
        self._say(f"free {asn}")

    def refuse(self, asn: int) -> None:
        """Do not probe that AS any more; its targets become rows with outcome `blocked`."""
        self._say(f"refuse {asn}")

    def end(self) -> None:
        """No more slots will come."""
        self._say("end")

    def flush(self) -> None:
        """Send what the pipe takes now."""
        if self._pipe is None or not self._unsent:
            return
        # A prober that has ended says by its exit status why.
        with suppress(BlockingIOError, BrokenPipeError):
            while self._unsent:
                taken = os.write(self._pipe.fileno(), self._unsent)
                del self._unsent[:taken]

    def close(self) -> None:
        """Close the pipe: without an `end` before, the prober ends in order."""
        if self._pipe is not None:
            # Unbuffered, so nothing is written here.
            with suppress(OSError):
                self._pipe.close()
            self._pipe = None

    def _say(self, line: str) -> None:
        self._unsent += line.encode() + b"\n"
        self.flush()
