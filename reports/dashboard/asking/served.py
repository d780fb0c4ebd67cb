"""The server of the store for the dashboard. `firstflight store serve` serves an embedded store.

If the same user already serves the store, the dashboard uses that server. Otherwise it starts `store serve`
as a child, on loopback, with a password in the file STORE.address (mode 0600), and stops it when it exits. So
the user's other programs can load and query while the dashboard is open, and a question needs no separate
process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from functools import partial

from firstflight.system import children, lock
from reports.dashboard.asking.faults import NoAnswer
from store import find
from store.address.served_address import LOCK
from store.address.url import ServerLocation
from store.location import EmbeddedLocation, no_tables

WAIT_S = 5.0
"""How long a question waits while another process holds the store."""
_START_S = 60.0
"""How long to wait for `store serve` to start, which takes seconds of CPU time."""
_STOP_S = 20.0
_LOOK_S = 0.05


class ServedStore:
    """Finds the server of the store that FIRSTFLIGHT_STORE names, or starts one."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._last_line = ""
        self._starting = asyncio.Lock()
        self._started_at = 0.0

    async def location(self, wait_s: float = WAIT_S) -> ServerLocation:
        """Return the server.

        NoAnswer if the store is empty, another process holds it for `wait_s` seconds, or a server does not
        start.
        """
        place = find()
        if isinstance(place, ServerLocation):
            return place
        if place.empty:
            raise NoAnswer("store", no_tables(place))
        found = place.served()
        if found is not None:
            return found
        async with self._starting:
            return await self._started(place, wait_s)

    async def stop(self) -> None:
        """Stop the child, if any, and the queries that it runs."""
        if self._process is None:
            return
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(_STOP_S):
                    await self._process.wait()
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        if self._reading is not None:
            await self._reading

    async def _started(self, place: EmbeddedLocation, wait_s: float) -> ServerLocation:
        if self._process is None or self._process.returncode is not None:
            await self._start(place)
        assert self._process is not None
        now = asyncio.get_running_loop().time
        until = now() + wait_s
        while True:
            found = place.served()
            if found is not None:
                return found
            if self._process.returncode is not None:
                if self._reading is not None:
                    await self._reading
                raise NoAnswer("busy", self._last_line or f"the store in {place.path} could not be served")
            if now() >= until:
                holder = lock.holder_pid(place.path / LOCK)
                if holder not in (None, self._process.pid):
                    by = f"process {holder}: try again when it has exited"
                    raise NoAnswer("busy", f"the store in {place.path} is in use by {by}")
                if now() >= self._started_at + _START_S:
                    raise NoAnswer("busy", f"the store in {place.path} is being started: try again later")
            await asyncio.sleep(_LOOK_S)

    async def _start(self, place: EmbeddedLocation) -> None:
        self._last_line = ""
        self._started_at = asyncio.get_running_loop().time()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "cli", "store", "serve", "--port", "0"),
            env=os.environ | {"FIRSTFLIGHT_STORE": place.public_url},
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the dashboard, which stops it
            preexec_fn=partial(children.die_with_parent, signal.SIGTERM),
        )
        self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Read the child's output; the last line is the reason if it could not serve."""
        assert process.stderr is not None
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:  # longer than the buffer
                continue
            if not line:
                return
            self._last_line = line.decode(errors="replace").strip().removeprefix("firstflight: ")
