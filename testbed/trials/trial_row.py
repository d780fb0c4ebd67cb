"""The row for a trial (record kind testbed_trial): its cell, its outcome and values from the capture."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstflight.errors import InputError
from firstflight.run import provenance
from schemas import records
from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.trials.network import path

TrialRow = dict[str, Any]
"""A row of kind testbed_trial: column -> value."""
GuestTrial = dict[str, Any]
"""A finished trial, as testbed/trials/inside.py writes it in the guest."""
DissectedRow = dict[str, Any]
"""A row of the dissector: of quic_connection, tcp_flow, quic_ack or pacing."""

KIND = "testbed_trial"
"""A row's record kind."""
_OUTCOMES = {"complete": "done", "limit": "done", "connect_failed": "no_connection", "timeout": "timeout"}
MEASURES = (
    *("first_answer", "first_ack_us", "ack_us", "partial_ack_us", "server_hello_us", "handshake_done_us"),
    *("first_stream_us", "client_hello_copies", "amplification", "rtt_min_us"),
    *("spurious_retransmissions_client", "spurious_retransmissions_server"),
    *("datagrams_client", "datagrams_server", "ip_bytes_client", "ip_bytes_server"),
    "min_ack_delay_us_client",
)
"""Columns of quic_connection that a trial's row contains."""
ACK_MEASURES = (
    *("peer_eliciting", "ack_packets", "ack_only_packets", "bundled_packets"),
    *("ack_only_ip_bytes", "ack_only_ip_bytes_p50"),
    *(
        "eliciting_per_ack",
        "eliciting_per_ack_p50",
        "eliciting_per_ack_first100",
        "eliciting_per_ack_after100",
    ),
    *("acks_by_count", "acks_by_timer", "acks_by_reordering"),
    *("requested_threshold", "requested_max_ack_delay_us", "requested_reordering"),
    *(
        "bytes_headers",
        "bytes_tags",
        "bytes_ack",
        "bytes_crypto",
        "bytes_stream",
        "bytes_padding",
        "bytes_other",
    ),
)
"""Columns of quic_ack, for the client's acknowledgements, that a trial's row contains."""
PACING_MEASURES = ("gap_p50_ns", "share_in_trains_1", "share_in_trains_le5", "longest_train")
"""Columns of pacing, for the server's datagrams, that a trial's row contains."""
_TRAIN_POINT = 10
"""Index in gaps_up_to of 0.1 ms, the paper's limit for gaps in a train."""


@dataclass(frozen=True)
class CaptureContent:
    """The content in a guest's captures: rows of quic_connection, quic_ack and pacing, and link lateness.

    Connections over TCP have those columns of quic_connection that tcp_flow also has.

    `fault`: why they are incomplete, or `None`.
    """

    connections: Sequence[DissectedRow] = ()
    acks: Sequence[DissectedRow] = ()
    pacing: Sequence[DissectedRow] = ()
    late_p99_us: Callable[[int, int], int | None] = lambda begun_ns, ended_ns: None  # noqa: ARG005
    fault: str | None = None


def by_repetition(lines: Path) -> dict[int, GuestTrial]:
    """Return a guest's finished trials, keyed by repetition, as written by `inside`."""
    # A guest that ended early may have left an incomplete line.
    complete = lines.read_text().rpartition("\n")[0] if lines.is_file() else ""
    trials = [json.loads(line) for line in complete.splitlines()]
    return {trial["repetition"]: trial for trial in trials}


def conditions(cell: Cell) -> TrialRow:
    """Return the columns that describe a cell."""
    given = cell.model_dump()
    return {
        **{name: given[name] for name in ("client", "server", "answering", "rtt_ms", "rate_mbit")},
        "alpn": stacks.find(cell.client).protocol(cell.alpn),
        "delay_to_server_ms": cell.up_delay_ms,
        "rate_to_server_mbit": cell.up_mbit,
        "queue_packets": cell.down_queue_packets,
        "queue_to_server_packets": cell.up_queue_packets,
        **{name: given[name] for name in ("queue_bytes", "qdisc", "gso", "gso_segments", "gso_paced")},
        "congestion_control": cell.congestion_control,
        "ack_policy": cell.ack_policy,
        "body_bytes": cell.body_bytes,
        **{name: given[name] for name in ("responses", "think_ms")},
        **{name: given[name] for name in ("certificate_bytes", "certificate_key", "certificate_delay_ms")},
        "handshake": cell.handshake,
        "loss_percent": cell.loss_percent,
        "netem_loss_to_client_percent": cell.netem_loss_to_client_percent,
        "netem_loss_to_server_percent": cell.netem_loss_to_server_percent,
        "drop_to_client": list(cell.drop_to_client),
        "drop_to_server": list(cell.drop_to_server),
        "drop_second_flight": cell.drop_second_flight,
        "reorder_to_client": list(cell.reorder_to_client),
        "reorder_to_server": list(cell.reorder_to_server),
        **{name: given[name] for name in ("reorder_percent", "reorder_ms")},
    }


def without_trial(experiment: str, cell: Cell, repetition: int, outcome: str, detail: str | None) -> TrialRow:
    """Return the row for a trial that was not done: columns that need a trial are null."""
    client, server = stacks.find(cell.client), stacks.find(cell.server)
    return {
        "experiment": experiment,
        "cell": cell.name,
        "repetition": repetition,
        "client_version": None,
        "client_build": client.client.build if client.client else None,
        "server_version": server.server_version,
        "server_build": server.server_build,
        **conditions(cell),
        "dropped": None,
        "reordered": None,
        "queue_drops": None,
        "queue_to_server_drops": None,
        "outcome": outcome,
        "detail": detail,
        "seed": None,
        "connections": None,
        **dict.fromkeys((*MEASURES, *ACK_MEASURES, "rtt_first_us", "pto_first_us", "transfer_us")),
        **dict.fromkeys((*PACING_MEASURES, "gaps_up_to_100us_share", "link_late_p99_us", "guest_cpu_s")),
        "capture_file": None,
        "keys_file": None,
        "kernel": None,
        "tool_version": provenance.tool_version(),
    }


def of_trial(row: TrialRow, trial: GuestTrial, captured: CaptureContent) -> TrialRow:
    """Return `row`, the result of `without_trial`, completed with a finished trial.

    `captured`: the content of the guest's captures.
    """
    connections = [
        connection for connection in captured.connections if is_of(connection["start_time_ns"], trial)
    ]
    outcome, detail = _OUTCOMES.get(trial["end"], "failed"), trial["detail"]
    # Null if the client does not count them (testbed/stacks/own_program.py).
    body_bytes = row["responses"] * row["body_bytes"]
    if outcome == "done" and body_bytes and trial["body_received"] not in (None, body_bytes):
        outcome = "failed"
        detail = f"{trial['body_received']} of {body_bytes} bytes of the body arrived"
    faults = [captured.fault] if captured.fault else []
    # A client may make more connections for more responses.
    if not 1 <= len(connections) <= row["responses"]:
        faults.append(f"the capture has {len(connections)} connections of the trial")
    if faults and outcome == "done":
        outcome, detail = "not_captured", "; ".join(faults)
    elif faults:
        # The client's own message is the reason, so it stays first.
        detail = "; ".join([detail, *faults] if detail else faults)
    connection_row = connections[0] if len(connections) == 1 else {}
    # The programs of picoquic and quicly exit with status 0 after a failed handshake.
    if outcome == "done" and connection_row and not _answered(connection_row):
        outcome, detail = "failed", "the client reports success, but the capture has no stream of the server"
    clients = [
        ack for ack in captured.acks if is_of(ack["start_time_ns"], trial) and ack["acks_from"] == "client"
    ]
    acked = clients[0] if len(connections) == len(clients) == 1 else {}
    return {
        **row,
        "client_version": _client_version(row["client"], trial["client_version"]),
        "outcome": outcome,
        "detail": detail,
        **{
            name: trial[name]
            for name in ("drop_to_server", "dropped", "reordered", "queue_drops", "queue_to_server_drops")
        },
        "connections": None if captured.fault else len(connections),
        **{name: connection_row.get(name) for name in MEASURES},
        **{name: acked.get(name) for name in ACK_MEASURES},
        **_paced(
            [
                flow
                for flow in captured.pacing
                if is_of(flow["start_time_ns"], trial) and flow["src_ip"] == path.SERVER_IP
            ]
        ),
        "link_late_p99_us": captured.late_p99_us(trial["begun_ns"], trial["ended_ns"]),
        "transfer_us": trial["transfer_us"] if outcome == "done" else None,
        "rtt_first_us": _first(connection_row, "rtt_series_us"),
        "pto_first_us": _first(connection_row, "pto_series_us"),
    }


def _answered(connection: DissectedRow) -> bool:
    """Return whether the server sent stream data: in a STREAM frame, or over TCP."""
    if "first_stream_us" in connection:
        return connection["first_stream_us"] is not None
    return bool(connection["payload_bytes_server"])


def _paced(flows: Sequence[DissectedRow]) -> TrialRow:
    """Return the server's pacing columns; null unless `own` has exactly one row, for one flow direction."""
    if len(flows) != 1:
        return dict.fromkeys((*PACING_MEASURES, "gaps_up_to_100us_share"))
    (flow,) = flows
    upto, gaps = json.loads(flow["gaps_up_to"] or "[]"), flow["packets"] - 1
    share = upto[_TRAIN_POINT] / gaps if upto and gaps else None
    return {**{name: flow[name] for name in PACING_MEASURES}, "gaps_up_to_100us_share": share}


def check_version(folder: Path, rows: Sequence[TrialRow]) -> None:
    """Raise InputError if one of `rows`, which are in `folder`, has other columns than the record kind."""
    columns = {column.name for column in records.load(KIND).file_columns}
    for row in rows:
        if set(row) != columns:
            raise InputError(
                f"{folder} has trials of another version of firstflight (cell {row.get('cell')}): remove "
                "them, or give another folder by --out"
            )


def is_of(start_time_ns: int, trial: GuestTrial) -> bool:
    """Return whether `start_time_ns` is within a trial."""
    return bool(trial["begun_ns"] <= start_time_ns <= trial["ended_ns"])


def _client_version(client: str, ready: str) -> str | None:
    """Return the version of the stack. Its client reports NAME/VERSION when it is ready."""
    name, _, version = ready.partition("/")
    # A stack inside another program, such as ngtcp2 in libcurl.
    return version if name == client else stacks.find(client).version.known()


def _first(connection: DissectedRow, column: str) -> int | None:
    series = json.loads(connection.get(column) or "[]")
    return int(series[0]) if series else None
