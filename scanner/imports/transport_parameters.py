"""Parses transport parameters (RFC 9000 18) for the JSON list in quic_handshake."""

from __future__ import annotations

import json

MOST = 64
# Names by identifier. Parameters other than flags and bytes are integers (RFC 9000 18.2, 9221, 9287, 9368).
NAMES = {
    0x00: "original_destination_connection_id",
    0x01: "max_idle_timeout",
    0x02: "stateless_reset_token",
    0x03: "max_udp_payload_size",
    0x04: "initial_max_data",
    0x05: "initial_max_stream_data_bidi_local",
    0x06: "initial_max_stream_data_bidi_remote",
    0x07: "initial_max_stream_data_uni",
    0x08: "initial_max_streams_bidi",
    0x09: "initial_max_streams_uni",
    0x0A: "ack_delay_exponent",
    0x0B: "max_ack_delay",
    0x0C: "disable_active_migration",
    0x0D: "preferred_address",
    0x0E: "active_connection_id_limit",
    0x0F: "initial_source_connection_id",
    0x10: "retry_source_connection_id",
    0x11: "version_information",
    0x20: "max_datagram_frame_size",
    0x2AB2: "grease_quic_bit",
}
# Code points of min_ack_delay, newest first (draft-ietf-quic-ack-frequency and its predecessors).
MIN_ACK_DELAY = (0xFF04DE1B, 0xFF04DE1A, 0xFF03DE1A, 0xFF02DE1A, 0xDE1A)
_FLAGS = frozenset({0x0C, 0x2AB2})
_BYTES = frozenset({0x00, 0x02, 0x0D, 0x0F, 0x10, 0x11})


def parsed(extension: bytes) -> list[tuple[int, bytes]]:
    """Return identifier and value of each parameter, in the order sent. ValueError if unreadable."""
    parameters, offset = [], 0
    while offset < len(extension):
        parameter, offset = _varint(extension, offset)
        length, offset = _varint(extension, offset)
        if offset + length > len(extension):
            raise ValueError("a transport parameter is cut")
        parameters.append((parameter, extension[offset : offset + length]))
        offset += length
    if len(parameters) > MOST:
        raise ValueError(f"more than {MOST} transport parameters")
    return parameters


def as_json(parameters: list[tuple[int, bytes]]) -> str:
    """Return the column `transport_parameters`."""
    entries = [
        {"id": f"{number:#04x}", "name": _name(number), "value": _value(number, value)}
        for number, value in parameters
    ]
    return json.dumps(entries, separators=(",", ":"))


def integer(parameters: list[tuple[int, bytes]], number: int) -> int | None:
    """Return the value of an integer parameter; `None` if it was not sent or is not an integer."""
    for parameter, value in parameters:
        if parameter == number:
            return _integer(value)
    return None


def _name(number: int) -> str | None:
    if number in MIN_ACK_DELAY:
        return "min_ack_delay"
    # Reserved identifiers, which are ignored (RFC 9000 18.1).
    return NAMES.get(number) or ("grease" if number >= 27 and (number - 27) % 31 == 0 else None)


def _value(number: int, value: bytes) -> int | bool | str:
    if number in _FLAGS and not value:
        return True
    if number in MIN_ACK_DELAY or (number in NAMES and number not in _FLAGS | _BYTES):
        decoded = _integer(value)
        return value.hex() if decoded is None else decoded
    return value.hex()


def _integer(value: bytes) -> int | None:
    try:
        number, end = _varint(value, 0)
    except ValueError:
        return None
    return number if end == len(value) else None


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the integer at `offset` (RFC 9000 16), and the offset after it."""
    length = 1 << (data[offset] >> 6) if offset < len(data) else 1
    if offset + length > len(data):
        raise ValueError("a transport parameter is cut")
    number = int.from_bytes(data[offset : offset + length], "big")
    return number & ((1 << 8 * length - 2) - 1), offset + length
