"""Prober and dissector, two programs, agree on every mode of the lab's servers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from firstflight.capture import TcpdumpCapture
from tests.dissect.conftest import Row, rows
from tests.lab_servers import conftest as servers
from tests.lab_servers.running import HOST, RunningServer
from tests.lab_servers.test_outcomes import AIOQUIC, QUICGO, QUICHE, ROGUE, probe

quiche, aioquic, quicgo, rogue = servers.quiche, servers.aioquic, servers.quicgo, servers.rogue

# Times are floored to microseconds on both sides: differences of two may be one apart.
ROUNDING_US = 1
FAULT_US = 100
# Column of the prober -> column of the dissector, where both must have identical values. Bytes received
# before the second datagram are omitted: the prober counts datagrams that arrive while it writes its close as
# later.
SAME = {
    "outcome": "first_answer",
    "version": "version",
    "retried": "retry",
    "hello_retry": "hello_retry",
    "ack_delay_raw": "ack_delay_raw",
    "ack_datagram_bytes": "ack_datagram_bytes",
    "ack_frames": "ack_frames",
    "ack_eliciting": "ack_eliciting",
    "ack_pn": "ack_pn",
    "sh_pn": "sh_pn",
    "ack_largest": "ack_largest",
    "first_ack_range": "first_ack_range",
    "gap_before_sh": "gap_before_sh",
    "initial_size": "initial_size",
    "bytes_sent": "bytes_sent",
    "ttl": "ttl",
    "close_code": "close_code",
    "close_reason": "close_reason",
    "version_list": "version_list",
    "icmp_type": "icmp_type",
    "icmp_code": "icmp_code",
    "server_cid": "server_scid",
    "ip": "server_ip",
    "src_port": "client_port",
}


# Times since one Initial: the first, and after a Retry the one with the token.
SINCE = (("ack_us", "sh_us", "partial_ack_us"), ("retry_us",))
GAPS = ("ack_to_sh_us", "sh_to_handshake_us")


@pytest.mark.parametrize(
    ("name", "modes"), [("quiche", QUICHE), ("aioquic", AIOQUIC), ("quicgo", QUICGO), ("rogue", ROGUE)]
)
def test_rows_agree(request: pytest.FixtureRequest, tmp_path: Path, name: str, modes: Iterable[str]) -> None:
    pairs = _probed(tmp_path, request.getfixturevalue(name), modes)
    wrong = {
        str(prober["domain"]): _differing(prober, dissector) | _wrong_times(prober, dissector)
        for prober, dissector in pairs
    }
    assert not any(wrong.values()), json.dumps(wrong)
    # A wrong time in one column is found if the row has a second time to compare.
    for column, fault_us in itertools.product(("ack_us", "sh_us", *GAPS), (-FAULT_US, FAULT_US)):
        moved = [
            _wrong_times({**prober, column: prober[column] + fault_us}, dissector)
            for prober, dissector in pairs
            if prober[column] is not None and None not in (prober["ack_us"], prober["sh_us"])
        ]
        assert moved and all(moved), (column, fault_us)


def _probed(folder: Path, server: RunningServer, modes: Iterable[str]) -> list[tuple[Row, Row]]:
    """Probe these names, captured; return the rows of prober and dissector."""
    bpf = f"(udp port {server.port}) or icmp"
    with TcpdumpCapture(
        folder / "probe.pcap", "lo", bpf, snaplen=2048, buffer_kib=4096, drain_s=1.2, max_bytes=1 << 30
    ):
        found = probe(folder, server, list(modes))
    dissected = {row["client_scid"]: row for row in rows(folder / "probe.pcap")}
    return [(row, dissected[row["client_cid"]]) for row in found.values()]


def _differing(prober: Row, dissector: Row) -> dict[str, object]:
    return {
        column: (prober[column], dissector[other])
        for column, other in SAME.items()
        if prober[column] != dissector[other]
    }


def _wrong_times(prober: Row, dissector: Row) -> dict[str, object]:
    """Return the times that cannot both be right.

    Both have the kernel's stamp for a received datagram. Of an Initial the prober has the one of sending, the
    capture the one of arrival, which is later: by the same time for all that counts from this Initial.
    """
    columns = [column for group in SINCE for column in group] + [*GAPS]
    wrong: dict[str, object] = {
        f"{column} is null": (prober[column], dissector[column])
        for column in columns
        if (prober[column] is None) != (dissector[column] is None)
    }
    for group in SINCE:
        later = {
            column: prober[column] - dissector[column]
            for column in group
            if None not in (prober[column], dissector[column])
        }
        values = later.values()
        if later and (min(values) < -ROUNDING_US or max(values) - min(values) > ROUNDING_US):
            wrong[" ".join(group)] = later
    for column in GAPS:
        prober_us, dissector_us = prober[column], dissector[column]
        if None not in (prober_us, dissector_us) and abs(prober_us - dissector_us) > ROUNDING_US:
            wrong[column] = (prober_us, dissector_us)
    return wrong


def test_refused(tmp_path: Path) -> None:
    """No server: the system answers with ICMP."""
    with TcpdumpCapture(
        tmp_path / "probe.pcap",
        "lo",
        "udp port 9 or icmp",
        snaplen=2048,
        buffer_kib=4096,
        drain_s=1.2,
        max_bytes=1 << 30,
    ):
        found = probe(tmp_path, RunningServer("rogue", 9, tmp_path, None), ["nobody.test"])  # type: ignore[arg-type]
    (row,) = rows(tmp_path / "probe.pcap")
    assert found["nobody.test"]["outcome"] == row["first_answer"] == "refused"
    assert (row["server_ip"], row["server_port"], row["icmp_type"], row["icmp_code"]) == (HOST, 9, 3, 3)
