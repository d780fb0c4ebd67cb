"""The lab's link in a path of real time: its configuration, the cells that it has no part for."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.experiment.cell import Cell
from testbed.trials.network import path, wire

CELL = Cell(client="quiche", server="quiche", answering="iack", rtt_ms=9.5)


def test_the_path_in_real_time_is_that_of_a_guest_but_for_its_delay() -> None:
    guests = [" ".join(command) for command in path.commands(CELL)]
    in_real_time = [" ".join(command) for command in path.commands(CELL, delayed=False)]
    missing = [line for line in guests if line not in in_real_time]
    assert [line for line in in_real_time if line not in guests] == []
    assert [line.partition(" root ")[2].partition(" limit")[0] for line in missing] == [
        "netem delay 4750us",
        "netem delay 4750us",
    ]
    assert sum(" tbf rate " in line for line in in_real_time) == 2


def test_the_lab_s_link_delays_between_the_client_and_the_path_s_link() -> None:
    made = wire.configuration(CELL, Path("late.csv"))
    assert (made["lateness"], made["rtt_us"]) == ("late.csv", [["client", "server", 9500]])
    client, server = made["hosts"]
    assert (client["addresses"], server["addresses"]) == (["10.91.1.2"], ["10.91.2.2"])
    lines = [" ".join(command) for command in wire.commands()]
    # Frames for the server go to the path link's device, and frames for the client to the client's device.
    assert any(
        f"add to_client address {server['mac']} type veth peer {server['interface']}" in line
        for line in lines
    )
    assert any(f"neigh add 10.91.1.2 lladdr {client['mac']} dev to_client" in line for line in lines)
    near = f"ip -n client link add path0 address {client['mac']} type veth peer {client['interface']} "
    assert any(" ".join(command).startswith(near) for command in path.commands(CELL, delayed=False))


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, None),
        ({"drop_to_client": (2,), "loss_percent": 1.0, "queue_bytes": 3000}, None),
        ({"qdisc": "fq"}, "the rate follows the delay"),
        ({"qdisc": "none"}, "the rate follows the delay"),
        ({"body_bytes": 1}, "a setting of the whole machine"),
        ({"reorder_to_client": (2,), "reorder_ms": 5.0}, "does not reorder datagrams"),
        ({"netem_loss_to_client_percent": 1.0}, "no random loss"),
        ({"netem_loss_to_server_percent": 1.0}, "no random loss"),
        ({"delay_to_server_ms": 4.75}, None),
        ({"delay_to_server_ms": 4.0}, "has the same delay in both directions"),
    ],
)
def test_cells_that_have_no_real_time(more: dict[str, object], why: str | None) -> None:
    found = wire.why_not(Cell.model_validate({**CELL.model_dump(), **more}))
    assert found is None if why is None else why in str(found)
