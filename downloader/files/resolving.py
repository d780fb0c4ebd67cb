"""Resolves a name again, just before its downloads, with the run's resolvers (`firstflight-resolve`).

An address from the draw can be hours old, and a CDN directs each query to a server of the moment (ANRW 2023,
section 4.2). A name that has lost its address has no downloads. After a failure the old address stays, as in
a watch, because a failure does not prove that the address is wrong.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from downloader.files.targets import Resolved, Target
from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.run.resolvers import engine_options, is_down
from firstflight.settings import Settings
from firstflight.system import binaries, children
from firstflight.system.lines import last_line

PROGRAM = "firstflight-resolve"
TYPE = "A"
"""The type of the queries. A name's downloads use an IPv4 address, as in the draw."""
NO_ANSWER = "TIMEOUT"
"""The status if no resolver answers at all."""
_WITHOUT_ADDRESS = ("NXDOMAIN", "NODATA")
ANSWERS = ("NOERROR", *_WITHOUT_ADDRESS)
"""Statuses that say which address a name has, or that it has none."""
_LOG, _SUMMARY = "resolve.log", "resolve.json"
_CLASSES = {error.exit_status: error for error in (UsageError, InputError)}


class ResolveEngine:
    """Resolves names for a session. `folder` gets the engine's log.

    `watch` is called ten times a second while a query is pending, and may raise to stop it. Raise UsageError
    if no resolver is known, or if the engine is not built.
    """

    def __init__(self, settings: Settings, folder: Path, watch: Callable[[], None]) -> None:
        options = [text for option, value in engine_options(settings) for text in (option, str(value))]
        self._summary, self._log = folder / _SUMMARY, folder / _LOG
        self._argv = [str(binaries.find(PROGRAM)), *options, "--types", TYPE, "--format", "jsonl"]
        self._argv += ["--summary", str(self._summary), "--"]
        self._watch = watch

    def again(self, target: Target) -> Target:
        """Return the target at its name's first IPv4 address now, with status and time of the answer.

        `ip` is empty if the name has no address, and unchanged after a failure. Raise UsageError or
        InputError if the engine rejects the settings or lists, for example a resolver on an opt-out list.
        """
        now_ns, rows = time.time_ns(), self._rows(target.domain)
        at_ns, status = (rows[0]["asked_at"], rows[0]["status"]) if rows else (now_ns, NO_ANSWER)
        resolved = Resolved(target.ip, at_ns, status)
        return replace(target, ip=_address(target, resolved.status, rows), resolved=resolved)

    def _rows(self, domain: str) -> list[dict[str, Any]]:
        """Return the rows (dns_answer) for a name; none if no resolver answers."""
        self._summary.unlink(missing_ok=True)
        # A file: the answers about a name with many addresses exceed a pipe's buffer.
        with self._log.open("ab") as log, tempfile.TemporaryFile(dir=self._log.parent) as answers:
            process = children.start([*self._argv, domain], own_session=True, stdout=answers, stderr=log)
            try:
                # The engine limits the time: it has a timeout and a number of attempts.
                status = children.wait(process, self._watch)
            finally:
                children.stop(process, grace_s=0.0)
            answers.seek(0)
            try:
                rows = [json.loads(line) for line in answers]
            except ValueError as error:
                raise FirstflightError(f"{PROGRAM} wrote a line that is not JSON; see {self._log}") from error
        if status and not is_down(self._summary):
            raise _CLASSES.get(status, FirstflightError)(
                f"{domain} is not resolved: {self._reason(status)}; correct [resolve], or set "
                "download.resolve_again = false"
            )
        if not status and not rows:
            raise FirstflightError(f"{PROGRAM} wrote no row for {domain}; see {self._log}")
        return [] if status else rows

    def _reason(self, status: int) -> str:
        last = last_line(self._log) or f"the resolver ended with status {status}"
        return last.removeprefix("firstflight resolve: ").removesuffix("; nothing was sent")


def _address(target: Target, status: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the address to download from: the first one of the answer, none, or the one in the draw."""
    if status in _WITHOUT_ADDRESS:
        return ""
    return next((str(row["address"]) for row in rows if row["answer_rank"] == 0), target.ip)
