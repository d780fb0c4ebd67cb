"""Why trials in a cell cannot run here: a stack is unavailable, or lacks a feature that the cell needs."""

from __future__ import annotations

from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.stacks import StackFile


def why(cell: Cell) -> str | None:
    """Return why a cell has no trials here, for the outcome `unavailable`; `None` if it has."""
    client, server = stacks.find(cell.client), stacks.find(cell.server)
    if client.client is None:
        return client.unavailable or f"{cell.client} has no client in testbed/stacks"
    if server.server is None:
        return server.unavailable or f"{cell.server} has no server in testbed/stacks"
    alpn = client.protocol(cell.alpn)
    if alpn not in client.alpn:
        return f"the client {cell.client} does not support {alpn}"
    if not server.server_speaks(alpn):
        only = ", the only protocol of the client" if len(client.alpn) == 1 else ""
        return f"the server {cell.server} does not support {alpn}{only}"
    if cell.server in client.not_with:
        why = client.not_with[cell.server]
        return f"the client {cell.client} does not complete with {cell.server}: {why}"
    if cell.drop_second_flight and client.transport == "tcp":
        return f"the client {cell.client} has no second flight, because it uses TCP"
    if cell.handshake == "resumed" and not client.resumes:
        return f"the client {cell.client} resumes no sessions here"
    if cell.responses > 1 and not client.repeats:
        return f"the client {cell.client} requests a single response"
    if cell.client_qlog and not client.qlog:
        return f"the client {cell.client} writes no qlog"
    if cell.server_qlog and not server.server_qlog:
        return f"the server {cell.server} writes no qlog"
    return _answer(cell, server) or _sending(cell, server) or _acknowledgements(cell, server)


def _answer(cell: Cell, server: StackFile) -> str | None:
    """Return why the server cannot answer as the cell requires, or `None`."""
    if cell.answering not in server.answers:
        return f"the server {cell.server} sends no instant ACK"
    if cell.certificate_delay_ms and "iack" not in server.answers:
        return f"the server {cell.server} cannot delay its certificate"
    if cell.certificate_key not in server.certificate_keys:
        return f"the server {cell.server} does not sign with keys of the type {cell.certificate_key}"
    if cell.handshake not in server.handshakes:
        does = {"retry": "sends no Retry", "resumed": "resumes no sessions here"}[cell.handshake]
        return f"the server {cell.server} {does}"
    if cell.body_bytes and not server.bodies:
        return f"the server {cell.server} sends no response bodies"
    return None


def _sending(cell: Cell, server: StackFile) -> str | None:
    """Return why the server cannot send or log the body as the cell requires, or `None`."""
    if cell.server_log and not server.server_log:
        return f"the server {cell.server} writes no launch times"
    if cell.congestion_control is not None and cell.congestion_control not in server.controllers:
        return f"the server {cell.server} does not support the congestion control {cell.congestion_control}"
    if cell.gso and not server.gso:
        return f"the server {cell.server} cannot send several datagrams as one"
    if cell.body_bytes and server.gso == "always" and not cell.gso:
        return f"the server {cell.server} always sends several datagrams as one"
    if cell.gso_segments is not None and not server.gso_segments:
        return f"the server {cell.server} does not support a number of datagrams in a buffer"
    if cell.gso_paced and not server.launch_times:
        return f"the server {cell.server} sets no launch times for datagrams that it sends as one"
    if cell.qdisc == "etf" and not server.launch_times:
        return f"etf drops the datagrams of the server {cell.server}, because it sets no launch times"
    return None


def _acknowledgements(cell: Cell, server: StackFile) -> str | None:
    """Return why the server cannot request the cell's ACK behaviour, or `None`."""
    if cell.ack_ratio is not None and not server.ack_requests:
        return f"the server {cell.server} sends no ACK_FREQUENCY"
    if cell.ack_reordering is not None and cell.ack_reordering not in server.ack_requests:
        return f"the server {cell.server} cannot request the ACK reordering {cell.ack_reordering}"
    return None
