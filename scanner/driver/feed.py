"""Sends commands to a running prober on its standard input (scanner/native/first_answer/README.md)."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import IO

# From this target number on, targets are planned probes of the feed. Smaller numbers are lines of the list.
FIRST_SLOT = 1 << 31


class Feed:
    """Commands for a running prober. Never blocks: `flush` later sends data that the pipe did not accept."""

    def __init__(self) -> None:
        self._pipe: IO[bytes] | None = None
        self._unsent = bytearray()

    def attach(self, pipe: IO[bytes]) -> None:
        """Use this pipe from now on."""
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe

    def schedule(
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
        """Probe `ip` for `domain` at `at_ns` (UTC), at most `grace_ms` late. `number` >= FIRST_SLOT."""
        self._send_line(f"slot {number} {at_ns} {grace_ms} {int(owned)} {asn or 0} {ip} {port} {domain}")

    def pause(self, asn: int) -> None:
        """Start no new probes of the AS until `resume`."""
        self._send_line(f"hold {asn}")

    def resume(self, asn: int) -> None:
        """Resume probing the AS."""
        self._send_line(f"free {asn}")

    def refuse(self, asn: int) -> None:
        """Stop probing the AS permanently. Its targets become rows with outcome `blocked`."""
        self._send_line(f"refuse {asn}")

    def end(self) -> None:
        """Announce that no more planned probes follow."""
        self._send_line("end")

    def flush(self) -> None:
        """Send as much as the pipe accepts now."""
        if self._pipe is None or not self._unsent:
            return
        # If the prober has exited, the exit status gives the reason.
        with suppress(BlockingIOError, BrokenPipeError):
            while self._unsent:
                written = os.write(self._pipe.fileno(), self._unsent)
                del self._unsent[:written]

    def close(self) -> None:
        """Close the pipe. Without a preceding `end`, the prober shuts down gracefully."""
        if self._pipe is not None:
            # The pipe is unbuffered, so closing it writes nothing.
            with suppress(OSError):
                self._pipe.close()
            self._pipe = None

    def _send_line(self, line: str) -> None:
        self._unsent += line.encode() + b"\n"
        self.flush()
