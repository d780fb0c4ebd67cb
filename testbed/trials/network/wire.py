"""A path's delay in real time: the lab's link, in a namespace between the client and the path's link.

A host's kernel may lack netem. Everything else is as in a guest (path.py): rates and queues at both ends, and
the datagrams that the path's link drops.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testbed.experiment.cell import Cell
from testbed.trials.network import path

NAMESPACE = "wire"
"""Forwards nothing: only the lab's link reads from its devices and writes to them."""
_TO_CLIENT, _TO_LINK = f"to_{path.CLIENT}", f"to_{path.LINK}"
_CLIENT, _LINK = path.macs("1")
_OWN = "02:00:00:00:03:01"


def why_not(cell: Cell) -> str | None:
    """Return why a cell cannot run in real time, or `None`."""
    if cell.qdisc != "pfifo":
        return (
            f"with the qdisc {cell.qdisc} the rate follows the delay, which the lab's link does not support"
        )
    if cell.body_bytes:
        return "a response's body needs socket buffers, which are a setting of the whole machine"
    if cell.reorders or cell.netem_loss_to_client_percent or cell.netem_loss_to_server_percent:
        return "the lab's link does not reorder datagrams and has no random loss, which netem has in a guest"
    if cell.up_delay_ms != cell.down_delay_ms:
        return "the lab's link has the same delay in both directions"
    return None


def commands() -> list[list[str]]:
    """Return the commands that insert the namespace into a path that `path.commands` made without delay.

    They move the client's peer device into the namespace. The path's link gets a new device with that name.
    """
    lines = [
        f"ip netns add {NAMESPACE}",
        f"ip -n {path.LINK} link set {_TO_CLIENT} netns {NAMESPACE}",
        f"ip -n {NAMESPACE} link set {_TO_CLIENT} up",
        f"ip -n {path.LINK} link add {_TO_CLIENT} address {_LINK} type veth "
        f"peer {_TO_LINK} netns {NAMESPACE} address {_OWN}",
        f"ip -n {path.LINK} addr add {path.GATEWAY_IP}/24 dev {_TO_CLIENT}",
        f"ip -n {path.LINK} link set {_TO_CLIENT} up",
        f"ip -n {NAMESPACE} link set {_TO_LINK} up",
        f"ip -n {path.LINK} neigh add {path.CLIENT_IP} lladdr {_CLIENT} dev {_TO_CLIENT}",
    ]
    return [line.split() for line in lines]


def configuration(cell: Cell, lateness: Path) -> dict[str, Any]:
    """Return the configuration of the lab's link for a cell (lab/link/README.md), with its log `lateness`."""
    client, server = (
        {"name": name, "interface": device, "mac": mac, "gateway": gateway, "addresses": [ip]}
        for name, device, mac, gateway, ip in (
            (path.CLIENT, _TO_CLIENT, _CLIENT, _LINK, path.CLIENT_IP),
            (path.SERVER, _TO_LINK, _LINK, _OWN, path.SERVER_IP),
        )
    )
    return {
        "lateness": str(lateness),
        "default_rtt_us": 0,
        "hosts": [client, server],
        "rtt_us": [[path.CLIENT, path.SERVER, round(cell.rtt_ms * 1000)]],
        "drops": [],
    }
