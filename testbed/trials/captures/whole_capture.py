"""Whether a guest's capture is complete, according to tcpdump's final report and the file's content."""

from __future__ import annotations

import re
from pathlib import Path

from testbed.trials.captures.lateness import datagrams

_REPORTED = re.compile(r"^(\d+) packets? (captured|dropped by kernel)$", re.MULTILINE)


def fault(file: Path) -> str | None:
    """Return why a capture is incomplete, or `None`. FILE.log next to the capture has tcpdump's messages."""
    log = file.with_name(f"{file.name}.log").read_text(encoding="utf-8", errors="replace")
    reported = {counter: int(count) for count, counter in _REPORTED.findall(log)}
    if len(reported) < 2:
        last = (log.strip().splitlines() or ["it gave no reason"])[-1]
        return f"tcpdump did not end {file.name} in order: {last}"
    if reported["dropped by kernel"]:
        return f"tcpdump missed {reported['dropped by kernel']} packets of {file.name}"
    # tcpdump also counts packets that it could not write.
    held = sum(1 for _ in datagrams(file))
    if held != reported["captured"]:
        return f"{file.name} holds {held} of {reported['captured']} packets: the guest's memory was full"
    return None
