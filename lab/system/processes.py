"""The programs that the lab keeps running: starts them on their hosts and waits until they report ready."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import FirstflightError
from lab.declared.model import Service
from lab.system.namespaces import entering

_TAIL_LINES = 8


@dataclass
class RunningService:
    """A service with its process and log."""

    service: Service
    process: subprocess.Popen[bytes]
    log: Path
    started: float

    def tail(self) -> str:
        """Return the last lines of the log, for display."""
        text = self.log.read_text(encoding="utf-8", errors="replace").strip()
        return "\n".join(text.splitlines()[-_TAIL_LINES:]) or "(its log is empty)"


_REALTIME_PRIORITY = 5  # below the link emulator's


def start(service: Service, logs: Path, *, realtime: bool) -> RunningService:
    """Start a service on its host (host "": the current namespace); the output goes to LOGS/NAME.log.

    Without `realtime`, no service gets real-time priority, even with `Service.realtime`.
    """
    log = logs / f"{service.name.replace(' ', '-')}.log"
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                service.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=service.cwd,
                env={**os.environ, **service.env},
                start_new_session=True,
                preexec_fn=lambda: _settle(service, realtime),
            )
        except OSError as error:
            raise FirstflightError(f"the lab's {service.name} cannot be started: {error}") from error
    return RunningService(service, process, log, time.monotonic())


def _settle(service: Service, realtime: bool) -> None:
    """Runs in the child: enter the host, and request the priority."""
    if service.host:
        entering(service.host)()
    if realtime and service.realtime:
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(0, policy, os.sched_param(_REALTIME_PRIORITY))


def wait_ready(all_running: list[RunningService]) -> None:
    """Wait until every service has printed the `ready` line; FirstflightError shows a failed one's log."""
    pending = list(all_running)
    while pending:
        not_ready = []
        for running in pending:
            service = running.service
            text = running.log.read_text(encoding="utf-8", errors="replace")
            if re.search(service.ready, text, re.MULTILINE):
                continue
            status = running.process.poll()
            if status is not None:
                raise FirstflightError(
                    f"the lab's {service.name} on {service.host or 'the core'} ended with status {status}; "
                    f"the end of {running.log}:\n{running.tail()}"
                )
            if time.monotonic() - running.started > service.ready_timeout_s:
                raise FirstflightError(
                    f"the lab's {service.name} on {service.host or 'the core'} was not up after "
                    f"{service.ready_timeout_s:.0f} s; the end of {running.log}:\n{running.tail()}"
                )
            not_ready.append(running)
        pending = not_ready
        if pending:
            time.sleep(0.02)
