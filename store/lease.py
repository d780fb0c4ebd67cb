"""One program at a time on a server: leases, which end by themselves when their holder is gone.

A server has no locks for its clients. But it drops an insert whose token it has seen, which is as good as
comparing and setting: whoever wants a subject inserts the version after the newest one, with a token made of
subject and version, and then reads who stands there; of two at once, one was dropped. A lease runs `LEASE_S`
and is renewed in the same way while work goes on, so that who lost it notices.
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

from store.base import Store
from store.errors import StoreHeld, StoreUnreachable

TABLE = "lease"
LEASE_S = 120
WAIT_S = 30.0
_POLL_S = 0.3


class Lease:
    """A subject that this program holds. Nothing happens in a store that only one program can open."""

    def __init__(self, store: Store, subject: str) -> None:
        """`subject`: what is held, for example the unit that is loaded."""
        self._store = store
        self._table = f"{store.dialect.database}.{TABLE}"
        self._subject = subject
        # Two leases of one program are two holders, too.
        self._holder = json.dumps(_ourselves() | {"lease": uuid.uuid4().hex})
        self._version = 0
        self._renewed = 0.0

    def take(self, wait_s: float = WAIT_S) -> None:
        """Wait until nobody else holds it; StoreHeld if that takes longer than `wait_s`."""
        until = time.monotonic() + wait_s
        while True:
            newest = self._newest()
            if newest is None or newest["ended"] or _is_dead(newest["holder"]):
                if self._put(int(newest["version"]) + 1 if newest else 1, LEASE_S):
                    return
            elif time.monotonic() >= until:
                raise StoreHeld(
                    f"{self._subject} in {self._store.place} has been held for more than {wait_s:g} s by "
                    f"{_shown(newest['holder'])}; nothing was done to it, try again when that has ended"
                )
            else:
                time.sleep(_POLL_S)

    def keep(self) -> None:
        """Renew it if that is due; StoreHeld if another program has taken it meanwhile."""
        if self._version and time.monotonic() - self._renewed > LEASE_S / 3:
            self._renew()

    def confirm(self) -> None:
        """Make sure that it is still held, whatever the clock says; StoreHeld if it is not."""
        if self._version:
            self._renew()

    def release(self) -> None:
        """Let others have it."""
        if self._version:
            self._put(self._version + 1, 0)
            self._version = 0

    def _renew(self) -> None:
        if not self._put(self._version + 1, LEASE_S):
            raise StoreHeld(
                f"{self._subject} in {self._store.place} was taken over while this program could not go on: "
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
        """Insert a version; whether it is the newest one now and ours."""
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
def held(store: Store, subjects: list[str], wait_s: float = WAIT_S) -> Iterator[list[Lease]]:
    """Hold all `subjects` during the block, in an order that is the same for all programs."""
    taken: list[Lease] = []
    try:
        for subject in sorted(subjects) if store.shared else []:
            lease = Lease(store, subject)
            lease.take(wait_s)
            taken.append(lease)
        yield taken
    except StoreUnreachable:
        taken.clear()  # nobody is there to tell; they end by themselves
        raise
    finally:
        for lease in taken:
            lease.release()


@cache
def _ourselves() -> dict[str, Any]:
    """Who holds it: what people want to know, and what tells a program of this machine whether it lives."""
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
    """Whether the holder was a process of this machine and runs no more; False when that cannot be told."""
    try:
        told = json.loads(holder)
        return bool(told["machine"] == _machine() and _began(int(told["pid"])) != told["began"])
    except (ValueError, KeyError, TypeError):
        return False


def _machine() -> str:
    """This boot of this machine, and the namespace in which process ids count."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"


def _began(pid: int) -> int | None:
    """When a process began, in clock ticks since the boot; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _shown(holder: str) -> str:
    try:
        told = json.loads(holder)
        return f"process {told['pid']} on {told['host']} ({told['command']}, since {told['since']})"
    except (ValueError, KeyError, TypeError):
        return "another program"
