"""The dissector's rows for a block's captures."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

from firstflight.system import binaries, children
from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.trials.captures import whole_capture
from testbed.trials.captures.block_files import CAPTURE, KEYS, SENT
from testbed.trials.captures.lateness import Lateness
from testbed.trials.network.path import PORT
from testbed.trials.trial_row import CaptureContent, DissectedRow


def of_block(cell: Cell, folder: Path) -> CaptureContent:
    """Return the content from a block's captures; missing captures give no rows."""
    client, sender, keys = (folder / name for name in (CAPTURE, SENT, KEYS))
    if not (client.is_file() and keys.is_file()):
        return CaptureContent()
    if stacks.find(cell.client).transport == "tcp":
        connections, acks = list(map(_connection, rows("tcp_flow", str(client)))), []
    else:
        arguments = ["--quic-port", str(PORT), "--keys", str(keys), str(client)]
        connections, acks = (rows(kind, *arguments) for kind in ("quic_connection", "quic_ack"))
    faults = [fault for file in (client, sender) if file.is_file() and (fault := whole_capture.fault(file))]
    captured = CaptureContent(connections, acks, fault="; ".join(faults) or None)
    if not sender.is_file():
        return captured
    captured = replace(captured, pacing=rows("pacing", str(sender)))
    if cell.qdisc != "pfifo" or cell.reorders:
        # Neither queueing inside the link nor deliberate reordering is lateness.
        return captured
    return replace(captured, late_p99_us=Lateness(sender, client, cell.down_delay_ms).p99_us)


def _connection(flow: DissectedRow) -> DissectedRow:
    """Return the columns of quic_connection that a row of tcp_flow has; TCP's packets are its datagrams."""
    shared = ("start_time_ns", "ip_bytes_client", "ip_bytes_server", "rtt_min_us", "payload_bytes_server")
    packets = {f"datagrams_{side}": flow[f"packets_{side}"] for side in ("client", "server")}
    return {**{name: flow[name] for name in shared}, **packets}


def rows(kind: str, *arguments: str) -> list[DissectedRow]:
    """Return a capture's rows of a kind, from the dissector with these arguments."""
    argv = [str(binaries.find("firstflight-dissect")), "--kind", kind, *arguments]
    process = children.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stdout, stderr = children.wait_for_exit(process)
    binaries.unreadable(process.returncode, stderr)
    return [json.loads(line) for line in stdout.splitlines()]
