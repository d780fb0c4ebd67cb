"""A connection's qlog trace (draft-ietf-quic-qlog-main-schema-13, quic-events-12) from its packets.

A capture shows an endpoint's packets, not its decisions, so the events are packet_sent, packet_received
and packet_dropped. If the side of the capture is unknown, the vantage point is the network, and packets from
the client are the sent ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from dissector.qlog.frames import qlog_frame

ConnectionRow = dict[str, Any]
"""A row of quic_connection."""
PacketRow = dict[str, Any]
"""A row of quic_packet."""

SERIALIZATION = "application/qlog+json-seq"
FILE_SCHEMA = "urn:ietf:params:qlog:file:sequential"
EVENT_SCHEMA = "urn:ietf:params:qlog:events:quic-12"
# RFC 7464: a record separator precedes each JSON text, and a line feed follows it.
_SEPARATOR = "\x1e"

_TYPES = {"0rtt": "0RTT", "1rtt": "1RTT", "unknown_version": "unknown"}
# Exponent of ACK Delay in Initial and Handshake packets, and the default in 1-RTT packets (RFC 9000 18.2).
_DEFAULT_EXPONENT = 3
_DUPLICATE = "seen before"


def records(connection: ConnectionRow, packets: Iterable[PacketRow]) -> Iterator[str]:
    """Yield the records of a connection's JSON-SEQ file.

    `packets` are in the capture's order.
    """
    yield _record(_header(connection))
    exponents = {side: _exponent(connection[f"transport_parameters_{side}"]) for side in ("client", "server")}
    sender = "server" if connection["capture_side"] == "server" else "client"
    for packet in packets:
        if packet["type"] == "icmp":
            continue
        side = "client" if packet["from_client"] else "server"
        name, data = _event(packet, side == sender, exponents[side])
        yield _record(
            {"time": _ms(packet["time_ns"] - connection["start_time_ns"]), "name": name, "data": data}
        )


def file_name(connection: ConnectionRow) -> str:
    """Return the draft's recommended file name: original destination connection ID and vantage point."""
    return f"{connection['odcid']}_{connection['capture_side'] or 'network'}.sqlog"


def _record(value: dict[str, Any]) -> str:
    return f"{_SEPARATOR}{json.dumps(value, separators=(',', ':'))}\n"


def _header(connection: ConnectionRow) -> dict[str, Any]:
    side = connection["capture_side"]
    vantage = {"type": side} if side else {"type": "network", "flow": "client"}
    start_ms, rest_ns = divmod(connection["start_time_ns"], 1_000_000)
    return {
        "file_schema": FILE_SCHEMA,
        "serialization_format": SERIALIZATION,
        "title": f"{connection['sni'] or connection['server_ip']} {connection['odcid']}",
        "description": "from a capture, by firstflight",
        "trace": {
            "vantage_point": vantage,
            "event_schemas": [EVENT_SCHEMA],
            "common_fields": {
                "group_id": connection["odcid"],
                "time_format": "relative_to_epoch",
                "reference_time": {"clock_type": "system", "epoch": _utc(start_ms, rest_ns)},
            },
        },
    }


def _utc(ms: int, rest_ns: int) -> str:
    """Return a time in the format of RFC 3339, with nanoseconds."""
    from datetime import UTC, datetime

    seconds, ms = divmod(ms, 1000)
    second = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{second}.{ms:03}{rest_ns:06}Z"


def _ms(ns: int) -> float:
    return round(ns / 1e6, 6)


def _event(packet: PacketRow, is_sent: bool, exponent: int) -> tuple[str, dict[str, Any]]:
    """Return the name and data for a packet's event. `exponent` is the sender's exponent of ACK Delay."""
    data: dict[str, Any] = {
        "header": _packet_header(packet),
        "raw": {"length": packet["size"]},
    }
    if packet["type"] == "unparsed":
        return "quic:packet_dropped", data | {"trigger": "invalid", "details": {"reason": packet["frames"]}}
    if packet["opened"] and packet["frames"] == _DUPLICATE:
        return "quic:packet_dropped", data | {"trigger": "duplicate"}
    if packet["type"] == "version_negotiation" and packet["version_list"]:
        data["supported_versions"] = [
            version.removeprefix("0x") for version in packet["version_list"].split(",")
        ]
    if packet["frame_details"] is not None:
        scale = exponent if packet["type"] == "1rtt" else _DEFAULT_EXPONENT
        data["frames"] = [qlog_frame(frame, scale) for frame in json.loads(packet["frame_details"])]
    return "quic:packet_sent" if is_sent else "quic:packet_received", data


def _packet_header(packet: PacketRow) -> dict[str, Any]:
    kind = packet["type"]
    header: dict[str, Any] = {"packet_type": "unknown" if kind == "unparsed" else _TYPES.get(kind, kind)}
    if packet["packet_number"] is not None:
        header["packet_number"] = packet["packet_number"]
        header["packet_number_length"] = packet["packet_number_length"]
    for column, qlog in (("dcid", "dcid"), ("scid", "scid")):
        if packet[column] is not None:
            header |= {qlog: packet[column], f"{qlog[0]}cil": len(packet[column]) // 2}
    if packet["version"] is not None:
        header["version"] = packet["version"].removeprefix("0x")
    if packet["length"] is not None:
        header["length"] = packet["length"]
    if packet["token"]:
        header["token"] = {"raw": {"length": len(packet["token"]) // 2, "data": packet["token"]}}
    if kind == "1rtt" and packet["opened"]:
        header["spin_bit"] = bool(packet["first_byte"] & 0x20)
        header["key_phase_bit"] = bool(packet["first_byte"] & 0x04)
    return header


def _exponent(parameters: str | None) -> int:
    """Return the exponent of ACK Delay in a side's transport parameters, or the default."""
    for parameter in json.loads(parameters or "[]"):
        value = parameter["value"]
        if parameter["name"] == "ack_delay_exponent" and type(value) is int and value <= 20:
            return value
    return _DEFAULT_EXPONENT
