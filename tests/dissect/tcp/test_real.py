"""A real download by Linux's TCP between two namespaces, with loss: classified as by tshark."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.dissect import tshark
from tests.dissect.conftest import rows
from tests.dissect.tcp.test_analysis import CLASSES, MARKS, judged, oracle
from tests.waiting import PATIENCE_S

SIZE = 3_000_000
SERVER = textwrap.dedent(f"""
    import socket
    with socket.create_server(("198.18.0.2", 8080)) as listening:
        connection, _ = listening.accept()
        with connection:
            connection.recv(100)
            connection.sendall(bytes({SIZE}))
""")
CLIENT = textwrap.dedent(f"""
    import socket
    with socket.create_connection(("198.18.0.2", 8080)) as connection:
        connection.sendall(b"GET")
        got = 0
        while piece := connection.recv(65536):
            got += len(piece)
        assert got == {SIZE}, got
""")
# Everything runs in an unshared network namespace and a second one; both disappear when the shell exits.
SCRIPT = """
set -eu
unshare -n sleep 600 & other=$!
while [ "$(readlink /proc/$other/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
trap 'kill $other $capture $server 2>/dev/null || true' EXIT
capture= server=
ip link add client type veth peer name server netns $other
ip address add 198.18.0.1/24 dev client
ip link set client up
ethtool -K client tx off tso off gso off gro off >/dev/null
there() { nsenter -n -t $other "$@"; }
there ip address add 198.18.0.2/24 dev server
there ip link set server up
there ethtool -K server tx off tso off gso off gro off >/dev/null
sysctl -qw net.ipv4.tcp_ecn=1 net.ipv4.tcp_congestion_control=reno
there sysctl -qw net.ipv4.tcp_ecn=1 net.ipv4.tcp_congestion_control=reno
there tc qdisc add dev server root tbf rate 20mbit burst 10kb latency 30ms
there nft -f - <<'END'
table ip lossy {
  chain out {
    type filter hook output priority 0
    ip daddr 198.18.0.1 meta length > 1000 numgen random mod 100 < 3 drop
  }
}
END
tcpdump -i client -B 16384 -w "$1" --immediate-mode -U tcp 2>"$1.log" & capture=$!
while ! grep -q listening "$1.log"; do sleep 0.05; done
there "$2" -c "$3" & server=$!
while ! there ss -ltn | grep -q :8080; do sleep 0.05; done
"$2" -c "$4"
wait $server
# Asleep, it has read all packets: in immediate mode the kernel wakes it for each.
while cut -d ' ' -f 3 /proc/$capture/stat | grep -q '[RD]'; do sleep 0.05; done
kill -INT $capture
wait $capture || true
"""

# The reference is tshark 4.0. For tshark 4.4, an ACK that changes the window is a duplicate too if it has
# SACK blocks, and so more retransmissions are fast.
NOT_FAST = ({"retransmission"}, {"out_of_order"})


@pytest.fixture(scope="module")
def download(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The capture of a download with 3 % loss, taken at the client."""
    path = tmp_path_factory.mktemp("tcp") / "download.pcap"
    argv = ["unshare", "-n", "sh", "-c", SCRIPT, "sh", str(path), sys.executable, SERVER, CLIENT]
    subprocess.run(argv, check=True, timeout=PATIENCE_S)
    return path


def test_classes_of_a_real_download_are_tsharks(download: Path) -> None:
    expected = oracle(download)
    packets = rows(download, "--kind", "tcp_packet")
    found = judged(packets)
    if tshark.version() == (4, 4):
        with_sack = {row["frame_number"] for row in packets if "sack " in row["options"]}
        for number, names in expected.items():
            if (found[number], names) == (set(), {"duplicate_ack"}) and number in with_sack:
                names.clear()
            elif names == {"fast_retransmission"} and found[number] in NOT_FAST:
                expected[number] = found[number]
    assert found == expected
    classes = {name for names in expected.values() for name in names}
    assert classes <= set(CLASSES + MARKS)
    assert "duplicate_ack" in classes
    assert classes & set(CLASSES)


def test_the_flow_says_what_was_sent(download: Path) -> None:
    (flow,) = rows(download, "--kind", "tcp_flow")
    assert (flow["client_ip"], flow["server_ip"], flow["server_port"]) == ("198.18.0.1", "198.18.0.2", 8080)
    assert (flow["payload_bytes_client"], flow["payload_bytes_server"]) == (3, SIZE)
    for side in ("client", "server"):
        assert flow[f"mss_{side}"] == 1460
        assert flow[f"sack_permitted_{side}"] is True
        assert flow[f"timestamps_{side}"] is True
        assert flow[f"ecn_setup_{side}"] is True
        assert flow[f"fin_{side}"] is True
    assert flow["sack_blocks_client"] > 0
    assert flow["rtt_samples"] > 1
    assert flow["download_throughput_bps"] > flow["application_goodput_bps"]
    assert flow["anrw_throughput_bps"] >= flow["anrw_goodput_bps"]
