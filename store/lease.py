"""Leases for exclusive access on a server. A lease expires if its holder disappears.

A server has no locks for clients. But it drops an insert if it has seen the insert's token before, which
works as a compare-and-set operation. To take a lease, a program inserts the version after the newest one,
with a token made of subject and version, and then reads the holder. Of two concurrent inserts, the server
drops one. A lease lasts `LEASE_S` and is renewed in the same way during work, so a program notices if it has
lost a lease.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from firstflight.system import terminal
from store.base import Store
from store.errors import StoreHeld, StoreUnreachable

TABLE = "lease"
LEASE_S = 120
WAIT_S = 30.0
_POLL_S = 0.3
# A program that waits longer prints the holder.
_TELL_S = 1.0


class Lease:
    """A lease on a subject. In a store that only one program can open, `hold_all` takes no leases."""

    def __init__(self, store: Store, subject: str) -> None:
        """Prepare a lease on `subject`, for example the unit to load."""
        self._store = store
        self._table = f"{store.dialect.database}.{TABLE}"
        self._subject = subject
        # Two leases of the same program have different holders.
        self._holder = json.dumps(_this_process() | {"lease": uuid.uuid4().hex})
        self._version = 0
        self._renewed = 0.0

    def take(self, wait_s: float = WAIT_S) -> None:
        """Wait until the subject is free and take it; StoreHeld after `wait_s` seconds."""
        began = time.monotonic()
        until, told = began + wait_s, wait_s <= _TELL_S
        while True:
            newest = self._newest()
            if newest is None or newest["ended"] or _is_dead(newest["holder"]):
                if self._put(int(newest["version"]) + 1 if newest else 1, LEASE_S):
                    return
            elif time.monotonic() >= until:
                raise StoreHeld(
                    f"{self._subject} in {self._store.location} has been held for more than {wait_s:g} s by "
                    f"{_holder_text(newest['holder'])}; nothing was changed; try again when it has finished"
                )
            else:
                if not told and time.monotonic() - began >= _TELL_S:
                    told = True
                    holder = _holder_text(newest["holder"])
                    terminal.echo(
                        f"waiting at most {wait_s:g} s for {self._subject}, held by {holder}", err=True
                    )
                time.sleep(_POLL_S)

    def keep(self) -> None:
        """Renew the lease if that is due; StoreHeld if another program has taken it over."""
        if self._version and time.monotonic() - self._renewed > LEASE_S / 3:
            self._renew()

    def confirm(self) -> None:
        """Renew the lease now, even if that is not due; StoreHeld if another program has taken it over."""
        if self._version:
            self._renew()

    def release(self) -> None:
        """Release the lease."""
        if self._version:
            self._put(self._version + 1, 0)
            self._version = 0

    def _renew(self) -> None:
        if not self._put(self._version + 1, LEASE_S):
            raise StoreHeld(
                f"{self._subject} in {self._store.location} was taken over while this program was stopped: "
                "load it again"
            )

    def _newest(self) -> dict[str, Any] | None:
        self._store.catch_up(TABLE)
        rows = self._store.rows(
            f"SELECT version, holder, ends_at <= now64(9) AS ended FROM {self._table} "
            "WHERE subject = {subject:String} ORDER BY version DESC LIMIT 1",
            {"subject": self._subject},
        )
        return rows[0] if rows else None

    def _put(self, version: int, seconds: int) -> bool:
        """Insert a version; return whether it is now the newest one and belongs to this lease."""
        import pyarrow as pa

        began = time.monotonic()
        (now,) = self._store.rows("SELECT toUnixTimestamp64Nano(now64(9)) AS ns")
        ends_at = pa.array([int(now["ns"]) + seconds * 10**9]).cast(pa.timestamp("ns", "UTC"))
        row = {"subject": [self._subject], "version": [version], "holder": [self._holder], "ends_at": ends_at}
        self._store.insert(TABLE, pa.table(row), token=f"{TABLE} {version} {self._subject}")
        newest = self._newest()
        if newest is None or (int(newest["version"]), newest["holder"]) != (version, self._holder):
            return False
        self._version, self._renewed = version, began
        return True


@contextmanager
def hold_all(store: Store, subjects: list[str], wait_s: float = WAIT_S) -> Iterator[list[Lease]]:
    """Hold leases on all `subjects` during the block. All programs take them in the same order."""
    taken: list[Lease] = []
    try:
        for subject in sorted(subjects) if store.shared else []:
            lease = Lease(store, subject)
            lease.take(wait_s)
            taken.append(lease)
        yield taken
    except StoreUnreachable:
        taken.clear()  # they cannot be released without a connection; they expire
        raise
    finally:
        for lease in taken:
            lease.release()


@cache
def _this_process() -> dict[str, Any]:
    """Describe this process as a holder: for messages, and to check on this machine whether it still runs."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
    return {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "command": command,
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "began": _began(os.getpid()),
        "machine": _machine(),
    }


def _is_dead(holder: str) -> bool:
    """Return whether the holder was a process of this machine and has exited; False if that is unknown."""
    try:
        process = json.loads(holder)
        return bool(process["machine"] == _machine() and _began(int(process["pid"])) != process["began"])
    except (ValueError, KeyError, TypeError):
        return False


def _machine() -> str:
    """Return an identifier of this machine's boot and of the namespace of process ids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"


def _began(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; `None` if it does not run."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _holder_text(holder: str) -> str:
    try:
        process = json.loads(holder)
        command = f"{process['command']}, since {process['since']}"
        return f"process {process['pid']} on {process['host']} ({command})"
    except (ValueError, KeyError, TypeError):
        return "another program"
