"""Transport parameters of an imported scan: identifiers, names, integers and broken ones."""

from __future__ import annotations

import json

import pytest

from scanner.imports import transport_parameters


@pytest.mark.parametrize(
    ("sent", "name", "value"),
    [
        # Variable-length integers of one, two, four and eight bytes (RFC 9000 A.1).
        ("01 01 25", "max_idle_timeout", 37),
        ("04 02 7bbd", "initial_max_data", 15_293),
        ("05 04 9d7f3e7d", "initial_max_stream_data_bidi_local", 494_878_333),
        ("08 08 c2197c5eff14e88c", "initial_max_streams_bidi", 151_288_809_941_952_652),
        ("01 02 25ff", "max_idle_timeout", "25ff"),
        ("0c 00", "disable_active_migration", True),
        ("0c 01 00", "disable_active_migration", "00"),
        ("0f 02 0102", "initial_source_connection_id", "0102"),
        ("c0000000ff04de1b 01 19", "min_ack_delay", 25),
        # Reserved identifiers are 31 * N + 27 (RFC 9000 18.1).
        ("1b 00", "grease", ""),
        ("3a 01 00", "grease", "00"),
        ("405a 00", None, ""),
        ("4059 00", "grease", ""),
        ("1a 00", None, ""),
    ],
)
def test_names_and_values(sent: str, name: str | None, value: object) -> None:
    (entry,) = json.loads(transport_parameters.as_json(transport_parameters.parsed(bytes.fromhex(sent))))
    assert (entry["name"], entry["value"]) == (name, value)


def test_a_cut_parameter_is_refused() -> None:
    with pytest.raises(ValueError, match="a transport parameter is cut"):
        transport_parameters.parsed(bytes.fromhex("80ff04de 1b 80ff04de1b"))


def test_most_parameters() -> None:
    most = transport_parameters.MOST
    assert len(transport_parameters.parsed(b"\x1b\x00" * most)) == most
    with pytest.raises(ValueError, match=f"more than {most} transport parameters"):
        transport_parameters.parsed(b"\x1b\x00" * (most + 1))
