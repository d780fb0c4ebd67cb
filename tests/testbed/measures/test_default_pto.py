"""A client's default probe timeout from its packets, and the table that compares it with published values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import InputError
from testbed.measures import default_pto
from testbed.measures.default_pto import ClientPto
from tests.testbed.experiments import find


def packet(us: int, frames: str, kind: str = "initial", *, from_client: bool = True) -> dict[str, Any]:
    return {"since_start_us": us, "type": kind, "frames": frames, "from_client": from_client}


@pytest.mark.parametrize(
    ("packets", "expected"),
    [
        ([], None),
        ([packet(0, "crypto 0+300; padding 800")], None),
        # The second datagram of a split ClientHello is no probe; its retransmission is.
        (
            [
                packet(0, "crypto 0+68; crypto 76+1159"),
                packet(890, "padding 9; crypto 1235+288; crypto 68+8"),
                packet(200_100, "crypto 1235+288; crypto 68+8"),
            ],
            200_100,
        ),
        # A PING is a probe; 0-RTT is not.
        ([packet(0, "crypto 0+300"), packet(5, "stream 0 0+1", "0rtt"), packet(999, "ping; padding 9")], 999),
        # After any answer the client knows the path.
        (
            [packet(0, "crypto 0+9"), packet(9, "ack 0 delay 0", from_client=False), packet(27, "ping")],
            None,
        ),
    ],
)
def test_it_is_the_first_packet_with_nothing_new(packets: list[dict[str, Any]], expected: int | None) -> None:
    assert default_pto.default_us(packets) == expected


def test_the_table_has_what_was_published() -> None:
    experiment = find("iack-default-pto")
    aioquic = ClientPto("aioquic", "1.7.2", 4, 200.2, "2-3", 200, "2-4", "met", "within 5 %")
    text = default_pto.summary(experiment, [aioquic, ClientPto("mvfst", None, 0, *[None] * 6)]).text(
        terminal=False
    )
    assert "aioquic  1.7.2" in text
    assert " 200.2     2-3      200.0     2-4 " in text
    assert "aioquic: met: within 5 %: 200.2 ms.\nUnavailable as clients here, 1 of 2: mvfst.\n" in text


def test_without_captures_there_is_no_table(tmp_path: Path) -> None:
    row = {"client": "quiche", "client_version": "1", "outcome": "done", "cell": "a", "capture_file": None}
    with pytest.raises(InputError, match="the captures of cell a were not kept"):
        default_pto.clients(find("iack-default-pto"), tmp_path, [row])
