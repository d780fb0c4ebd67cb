"""Prober and dissector, two programs, agree on every mode of the lab's servers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from firstflight.capture import Capture
from tests.dissect.conftest import Row, rows
from tests.lab_servers import conftest as servers
from tests.lab_servers.running import HOST, Running
from tests.lab_servers.test_outcomes import AIOQUIC, QUICGO, QUICHE, ROGUE, probe

quiche, aioquic, quicgo, rogue = servers.quiche, servers.aioquic, servers.quicgo, servers.rogue

ACK_TOLERANCE_US = 20
GAP_TOLERANCE_US = 2
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


TIMES = {
    "ack_us": ACK_TOLERANCE_US,
    "sh_us": ACK_TOLERANCE_US,
    "retry_us": ACK_TOLERANCE_US,
    "partial_ack_us": ACK_TOLERANCE_US,
    "ack_to_sh_us": GAP_TOLERANCE_US,
    "sh_to_handshake_us": GAP_TOLERANCE_US,
}


@pytest.mark.parametrize(
    ("name", "modes"), [("quiche", QUICHE), ("aioquic", AIOQUIC), ("quicgo", QUICGO), ("rogue", ROGUE)]
)
def test_rows_agree(request: pytest.FixtureRequest, tmp_path: Path, name: str, modes: Iterable[str]) -> None:
    server: Running = request.getfixturevalue(name)
    apart = _apart(tmp_path / "first", server, modes)
    assert all(columns <= TIMES.keys() for columns in map(dict.keys, apart.values())), json.dumps(apart)
    if apart:
        # The kernel stamps for the socket and for the capture one after the other: on a busy machine an
        # interruption between them is possible once, but not repeatedly.
        again = _apart(tmp_path / "again", server, apart)
        assert not again, json.dumps([apart, again])


def _apart(folder: Path, server: Running, modes: Iterable[str]) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Probe these names; return, for each where the two programs differ, the columns with both values."""
    folder.mkdir()
    bpf = f"(udp port {server.port}) or icmp"
    with Capture(folder / "probe.pcap", "lo", bpf, snaplen=2048, buffer_kib=4096, drain_s=1.2):
        found = probe(folder, server, list(modes))
    dissected = {row["client_scid"]: row for row in rows(folder / "probe.pcap", "--answer-window-ms", "1000")}
    pairs = [(row, dissected[row["client_cid"]]) for row in found.values()]
    differing = {str(prober["domain"]): _differing(prober, dissector) for prober, dissector in pairs}
    return {domain: columns for domain, columns in differing.items() if columns}


def _differing(prober: Row, dissector: Row) -> dict[str, tuple[Any, Any]]:
    differing = {
        column: (prober[column], dissector[other])
        for column, other in SAME.items()
        if prober[column] != dissector[other]
    }
    for column, tolerance in TIMES.items():
        one, other = prober[column], dissector[column]
        if (one is None) != (other is None):
            differing[f"{column} is null"] = (one, other)
        elif one is not None and abs(one - other) > tolerance:
            differing[column] = (one, other)
    return differing


def test_refused(tmp_path: Path) -> None:
    """No server: the system answers with ICMP."""
    with Capture(
        tmp_path / "probe.pcap", "lo", "udp port 9 or icmp", snaplen=2048, buffer_kib=4096, drain_s=1.2
    ):
        found = probe(tmp_path, Running("rogue", 9, tmp_path, None), ["nobody.test"])  # type: ignore[arg-type]
    (row,) = rows(tmp_path / "probe.pcap")
    assert found["nobody.test"]["outcome"] == row["first_answer"] == "refused"
    assert (row["server_ip"], row["server_port"], row["icmp_type"], row["icmp_code"]) == (HOST, 9, 3, 3)
