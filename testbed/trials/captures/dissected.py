"""The dissector's rows for the captures of a block."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

from firstflight.system import binaries, children
from testbed.experiment.cell import Cell
from testbed.trials.captures import whole_capture
from testbed.trials.captures.block_files import CAPTURE, KEYS, SENT
from testbed.trials.captures.lateness import Lateness
from testbed.trials.network.path import PORT
from testbed.trials.trial_row import Captured, Row


def of_block(cell: Cell, folder: Path) -> Captured:
    """Return the content of a block's captures; missing captures give no rows."""
    client, sender, keys = (folder / name for name in (CAPTURE, SENT, KEYS))
    if not (client.is_file() and keys.is_file()):
        return Captured()
    own = ["--quic-port", str(PORT), "--keys", str(keys), str(client)]
    connections, acks = (rows(kind, *own) for kind in ("quic_connection", "quic_ack"))
    faults = [fault for file in (client, sender) if file.is_file() and (fault := whole_capture.fault(file))]
    found = Captured(connections, acks, fault="; ".join(faults) or None)
    if not sender.is_file():
        return found
    found = replace(found, pacing=rows("pacing", str(sender)))
    if cell.qdisc != "pfifo" or cell.reorders:
        # Time in the queue inside the link is not lateness, and neither is deliberate reordering.
        return found
    return replace(found, late_p99_us=Lateness(sender, client, cell.down_delay_ms).p99_us)


def rows(kind: str, *arguments: str) -> list[Row]:
    """Return a capture as rows of a kind, by the dissector with these arguments."""
    argv = [str(binaries.find("firstflight-dissect")), "--kind", kind, *arguments]
    process = children.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    found, stderr = children.finished(process)
    binaries.unreadable(process.returncode, stderr)
    return [json.loads(line) for line in found.splitlines()]
