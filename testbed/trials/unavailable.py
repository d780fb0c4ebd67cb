"""Why trials of a cell cannot run here: a stack is unavailable, or lacks a feature that the cell needs."""

from __future__ import annotations

from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.stacks import Stack


def why(cell: Cell) -> str | None:
    """Return why there are no trials of a cell here, as the outcome `unavailable` says; None if there are."""
    client, server = stacks.find(cell.client), stacks.find(cell.server)
    if client.client is None:
        return client.unavailable or f"{cell.client} has no client in testbed/stacks"
    if server.server is None:
        return server.unavailable or f"{cell.server} has no server in testbed/stacks"
    if not server.server_speaks(client.alpn):
        return f"the server {cell.server} does not speak {client.alpn}, and the client nothing else"
    if cell.client_qlog and not client.qlog:
        return f"the client {cell.client} writes no qlog"
    return _answer(cell, server) or _sending(cell, server) or _acknowledgements(cell, server)


def _answer(cell: Cell, server: Stack) -> str | None:
    """Return why the server cannot answer as the cell requires, or None."""
    if cell.answering not in server.answers:
        return f"the server {cell.server} sends no instant ACK"
    if cell.certificate_delay_ms and "iack" not in server.answers:
        return f"the server {cell.server} has its certificate at once"
    if cell.certificate_key not in server.certificate_keys:
        return f"the server {cell.server} signs with no key of the kind {cell.certificate_key}"
    if cell.body_bytes and not server.bodies:
        return f"the server {cell.server} sends no bodies of responses"
    return None


def _sending(cell: Cell, server: Stack) -> str | None:
    """Return why the server cannot send or log the body as the cell requires, or None."""
    if cell.server_log and not server.server_log:
        return f"the server {cell.server} writes no launch times"
    if cell.congestion_control is not None and cell.congestion_control not in server.controllers:
        return f"the server {cell.server} has no choice of {cell.congestion_control}"
    if cell.gso and not server.gso:
        return f"the server {cell.server} sends each datagram for itself"
    if cell.body_bytes and server.gso == "always" and not cell.gso:
        return f"the server {cell.server} always sends several datagrams as one"
    if cell.gso_paced and not server.launch_times:
        return f"the server {cell.server} gives datagrams that it sends as one no launch times"
    if cell.qdisc == "etf" and not server.launch_times:
        return f"etf drops what the server {cell.server} sends, because it gives no launch times"
    return None


def _acknowledgements(cell: Cell, server: Stack) -> str | None:
    """Return why the server cannot request the cell's ACK behaviour, or None."""
    if cell.ack_ratio is not None and not server.ack_requests:
        return f"the server {cell.server} sends no ACK_FREQUENCY"
    if cell.ack_reordering is not None and cell.ack_reordering not in server.ack_requests:
        return f"no ACK_FREQUENCY of the server {cell.server} asks for reordering {cell.ack_reordering}"
    return None
