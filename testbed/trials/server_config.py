"""Configuration of a trial's server: endpoint and transport settings (docs/reference/lab-hosts.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.hosts.certificates import ServerCertificate
from testbed.experiment.cell import Cell
from testbed.trials.network import path

_CLOCKS = {"fq": "monotonic", "etf": "tai"}
_MODES = ({"iack": "iack", "wfc": "wait"}, {"iack": "retry_iack", "wfc": "retry"})
"""The mode for each answer, without and with a Retry."""


def configuration(
    cell: Cell, name: str, alpn: str, files: ServerCertificate, *, launch_times: bool, log: Path | None = None
) -> dict[str, Any]:
    """Return the configuration for a cell's server, with the certificate `files` of `name`.

    `launch_times`: the server can set the times at which fq and etf send its datagrams. `log`: the file for
    these times, if the cell requests it.
    """
    endpoint: dict[str, Any] = {
        "domain": name,
        "ip": path.SERVER_IP,
        "certificate": "chain",
        "alpn": alpn,
        "mode": _MODES[cell.handshake == "retry"][cell.answering],
        "delay_us": round(cell.certificate_delay_ms * 1000),
        "http": {"status": 200, "headers": [], "delay_us": 0},
    }
    if cell.handshake == "resumed":
        endpoint["tickets"] = True
    if cell.body_bytes:
        endpoint["http"] = {**endpoint["http"], "body_bytes": cell.body_bytes}
    content: dict[str, Any] = {
        "port": path.PORT,
        "listen": [path.SERVER_IP],
        "endpoints": [endpoint],
        "certificates": {"chain": {"chain": str(files.chain), "key": str(files.key)}},
    }
    # Only servers with these features accept these keys.
    parameters = transport(cell, launch_times=launch_times)
    if cell.server_log:
        parameters["log"] = str(log)
    if parameters:
        content["transport"] = parameters
    return content


def transport(cell: Cell, *, launch_times: bool) -> dict[str, Any]:
    """Return a server's transport settings (docs/reference/lab-hosts.md); empty for the defaults.

    `launch_times`: the server can set the times at which fq and etf send its datagrams.
    """
    parameters: dict[str, Any] = {}
    if cell.gso:
        parameters["gso"] = True
    if cell.gso_segments is not None:
        parameters["gso_segments"] = cell.gso_segments
    if cell.gso_paced:
        parameters["gso_paced"] = True
    if launch_times and cell.qdisc in _CLOCKS:
        parameters["launch_clock"] = _CLOCKS[cell.qdisc]
    if cell.congestion_control is not None:
        parameters["congestion_control"] = cell.congestion_control
    if cell.ack_ratio is not None:
        # draft-ietf-quic-ack-frequency: an ACK is due after more packets than this; reordering threshold.
        parameters["ack_eliciting_threshold"] = cell.ack_ratio - 1
        parameters["ack_reordering_threshold"] = 0 if cell.ack_reordering == "ignored" else 1
        if cell.ack_ratio_later is not None:
            parameters["ack_eliciting_threshold_later"] = cell.ack_ratio_later - 1
            parameters["ack_later_after"] = cell.ack_ratio_later_after
        if cell.ack_delay_ms is not None:
            parameters["ack_delay_us"] = round(cell.ack_delay_ms * 1000)
    return parameters
