"""Frames in qlog (draft-ietf-quic-qlog-quic-events-12, 8.13) from the `frame_details` of quic_packet."""

from __future__ import annotations

from typing import Any

Frame = dict[str, Any]

# Types with the same fields in qlog, but under other names: qlog name -> its field -> field of frame_details.
_PLAIN: dict[int, tuple[str, dict[str, str]]] = {
    0x01: ("ping", {}),
    0x10: ("max_data", {"maximum": "maximum_data"}),
    0x11: ("max_stream_data", {"stream_id": "stream_id", "maximum": "maximum_stream_data"}),
    0x14: ("data_blocked", {"limit": "maximum_data"}),
    0x15: ("stream_data_blocked", {"stream_id": "stream_id", "limit": "maximum_stream_data"}),
    0x19: ("retire_connection_id", {"sequence_number": "sequence_number"}),
    0x1A: ("path_challenge", {"data": "data"}),
    0x1B: ("path_response", {"data": "data"}),
    0x1E: ("handshake_done", {}),
}
_DIRECTIONS = {0: "bidirectional", 1: "unidirectional"}


def qlog_frame(frame: Frame, ack_delay_exponent: int) -> Frame:
    """Return the qlog form of an object of frame_details. `ack_delay_exponent` is the sender's.

    The type is `unknown`, with the number, if the draft does not define it (ACK_FREQUENCY).
    """
    kind = frame["type"]
    if kind in _PLAIN:
        name, fields = _PLAIN[kind]
        return {"frame_type": name, **{qlog: frame[column] for qlog, column in fields.items()}}
    if kind == 0x00:
        return {"frame_type": "padding", "raw": {"length": frame["length"]}}
    if kind in (0x02, 0x03):
        return _ack(frame, ack_delay_exponent)
    if kind in (0x04, 0x05):
        converted = {"frame_type": "reset_stream" if kind == 0x04 else "stop_sending"}
        converted |= {"stream_id": frame["stream_id"], "error": "unknown", "error_code": frame["error_code"]}
        return converted | ({"final_size": frame["final_size"]} if kind == 0x04 else {})
    if kind in (0x30, 0x31):
        return {"frame_type": "datagram", "raw": {"payload_length": frame["length"]}}
    if kind == 0x06:
        return {"frame_type": "crypto", "offset": frame["offset"], "raw": {"payload_length": frame["length"]}}
    if kind == 0x07:
        return {
            "frame_type": "new_token",
            "token": {"raw": {"length": frame["length"], "data": frame["token"]}},
        }
    if 0x08 <= kind <= 0x0F:
        return {
            "frame_type": "stream",
            "stream_id": frame["stream_id"],
            "offset": frame["offset"],
            "fin": frame["fin"],
            "raw": {"payload_length": frame["length"]},
        }
    if kind in (0x12, 0x13):
        return {
            "frame_type": "max_streams",
            "stream_type": _DIRECTIONS[kind - 0x12],
            "maximum": frame["maximum_streams"],
        }
    if kind in (0x16, 0x17):
        return {
            "frame_type": "streams_blocked",
            "stream_type": _DIRECTIONS[kind - 0x16],
            "limit": frame["maximum_streams"],
        }
    if kind == 0x18:
        return {
            "frame_type": "new_connection_id",
            "sequence_number": frame["sequence_number"],
            "retire_prior_to": frame["retire_prior_to"],
            "connection_id_length": len(frame["connection_id"]) // 2,
            "connection_id": frame["connection_id"],
            "stateless_reset_token": frame["stateless_reset_token"],
        }
    if kind in (0x1C, 0x1D):
        return _close(frame)
    return {"frame_type": "unknown", "frame_type_bytes": kind}


def _ack(frame: Frame, ack_delay_exponent: int) -> Frame:
    high = frame["largest_acknowledged"]
    low = high - frame["first_ack_range"]
    ranges = [[low, high]]
    for gap, length in zip(frame["gap"], frame["ack_range"], strict=True):
        high = low - gap - 2
        low = high - length
        ranges.append([low, high])
    converted = {
        "frame_type": "ack",
        "ack_delay": frame["ack_delay"] * 2**ack_delay_exponent / 1000,
        "acked_ranges": ranges[::-1],
    }
    if frame["type"] == 0x03:
        converted |= {"ect0": frame["ect0_count"], "ect1": frame["ect1_count"], "ce": frame["ecn_ce_count"]}
    return converted


def _close(frame: Frame) -> Frame:
    converted = {
        "frame_type": "connection_close",
        "error_space": "transport" if frame["type"] == 0x1C else "application",
        "error": "unknown",
        "error_code": frame["error_code"],
        "reason": frame["reason_phrase"],
    }
    if frame["type"] == 0x1C:
        converted["trigger_frame_type"] = frame["frame_type"]
    return converted
