"""Times of servers' retransmissions of an unacknowledged flight: the prober's rows against a capture."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from firstflight.capture import TcpdumpCapture
from firstflight.system import binaries
from tests.dissect.conftest import rows as dissected
from tests.waiting import PATIENCE_S

from .running import HOST, RunningServer

Row = dict[str, Any]

LISTEN_S = 4.0
PING, CRYPTO = 1, 6  # RFC 9000 19
# Socket and capture have the same timestamp for a datagram; both times are floored.
ROUNDING_US = 1
# The default probe timeout (PTO) of the stack by server and name: no timer of the stack is shorter.
PTO_US = {
    ("quiche", "wait.small.test"): 999_000,
    ("quiche", "iack.small.test"): 999_000,
    ("aioquic", "wait.small.test"): 200_000,
    ("quic-go", "wait.small.test"): 200_000,
    ("rogue", "retransmit.small.test"): 200_000,
}


@dataclass(frozen=True)
class Heard:
    """A probe's row, and the connection's packets in the capture."""

    row: Row
    packets: list[Row]

    @property
    def of_server(self) -> list[Row]:
        """Packets from the server before the close."""
        close = self.of_client[-1]["time_ns"]
        return [packet for packet in self.packets if not packet["from_client"] and packet["time_ns"] < close]

    @property
    def of_client(self) -> list[Row]:
        return [packet for packet in self.packets if packet["from_client"]]

    def arrivals(self) -> list[int]:
        """Return arrival times of datagrams with repeated CRYPTO bytes or a PING, in us after the Initial."""
        end, times, hello = 0, [], None
        for packet in self.of_server:
            if packet["type"] != "initial" or not packet["opened"]:
                continue
            at, is_repeated = packet["time_ns"], False
            for frame in json.loads(packet["frame_details"]):
                is_repeated |= frame["type"] == PING
                if frame["type"] == CRYPTO:
                    is_repeated |= frame["offset"] < end
                    end = max(end, frame["offset"] + frame["length"])
                    hello = hello or at
            if is_repeated and hello and at > hello:
                times.append((at - self.row["sent_at"]) // 1000)
        return sorted(set(times))


@pytest.fixture(scope="module")
def heard(
    quiche: RunningServer,
    aioquic: RunningServer,
    quicgo: RunningServer,
    rogue: RunningServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[tuple[str, str], Heard]]:
    """Probe all servers in a single run, with a listening period."""
    folder = tmp_path_factory.mktemp("listening")
    servers = {"quiche": quiche, "aioquic": aioquic, "quic-go": quicgo, "rogue": rogue}
    ports = {server.port: name for name, server in servers.items()}
    targets = folder / "targets.csv"
    lines = [f"{HOST},{domain},{servers[name].port}\n" for name, domain in PTO_US]
    targets.write_text("ip,domain,port\n" + "".join(lines))
    bpf = " or ".join(f"udp port {port}" for port in ports)
    with TcpdumpCapture(
        folder / "probe.pcap", "lo", bpf, snaplen=2048, buffer_kib=4096, drain_s=1.2, max_bytes=1 << 30
    ):
        done = subprocess.run(
            [
                str(binaries.find("firstflight-prober")),
                *("--targets", str(targets), "--allow-net", "127.0.0.0/8", "--listen", str(LISTEN_S)),
                *("--per-address-rate", "0", "--per-prefix-rate", "0", "--timeout", "30"),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
    packets = dissected(folder / "probe.pcap", "--kind", "quic_packet")
    found = {}
    for row in map(json.loads, done.stdout.splitlines()):
        connection_packets = [packet for packet in packets if packet["client_scid"] == row["client_cid"]]
        connection_packets.sort(key=lambda packet: packet["time_ns"])
        found[ports[row["port"]], row["domain"]] = Heard(row, connection_packets)
    assert found.keys() == PTO_US.keys()
    yield found


def test_nothing_is_sent_while_a_server_is_listened_to(heard: dict[tuple[str, str], Heard]) -> None:
    for key, probe in heard.items():
        datagrams = sorted({packet["time_ns"] for packet in probe.of_client})
        assert len(datagrams) == 2, (key, probe.of_client)
        assert datagrams[1] - datagrams[0] >= LISTEN_S * 1e9, key
        assert probe.row["listened_s"] >= LISTEN_S, key
        assert (probe.row["attempts"], probe.row["outcome"]) == (
            1,
            "iack" if "wait" not in key[1] else "coalesced",
        )


def test_retransmissions_are_those_of_the_capture(heard: dict[tuple[str, str], Heard]) -> None:
    apart = []
    for key, probe in heard.items():
        arrivals = probe.arrivals()
        assert len(arrivals) == probe.row["retransmissions"] == len(probe.row["retransmission_us"]), (
            key,
            arrivals,
        )
        apart += [
            abs(seen - captured)
            for seen, captured in zip(probe.row["retransmission_us"], arrivals, strict=True)
        ]
    assert len(apart) >= len(PTO_US) and max(apart) <= ROUNDING_US, apart


def test_bytes_and_datagrams_count_until_the_close(heard: dict[tuple[str, str], Heard]) -> None:
    for key, probe in heard.items():
        datagrams = {packet["time_ns"]: packet["datagram_size"] for packet in probe.of_server}
        seen = (probe.row["datagrams_received"], probe.row["bytes_received"])
        assert seen == (len(datagrams), sum(datagrams.values())), key


def too_early(times: list[int], pto_us: int, at_once: int) -> list[str]:
    """Return evidence of a timer that expired early; `times`: of retransmissions, in us after the Initial.

    No timer starts before the Initial, and each lasts twice as long as the previous one (RFC 9002 6.2.1).
    Expiry n, counted from 0, is therefore at 2 ** (n + 1) - 1 timeouts or later. Each expiry sends at most
    `at_once` datagrams. A late datagram does not count as another expiry.
    """
    found, expiries, bound = [], 0, pto_us
    while bound <= max(times) + pto_us:
        sent = sum(at < bound for at in times)
        if sent > at_once * expiries:
            found.append(f"{sent} datagrams before {bound} us")
        expiries, bound = expiries + 1, 2 * bound + pto_us
    return found


def test_no_server_retransmits_before_its_probe_timeout_and_each_waits_twice_as_long(
    heard: dict[tuple[str, str], Heard],
) -> None:
    times = {key: probe.row["retransmission_us"] for key, probe in heard.items()}
    assert all(times.values())
    for key, pto_us in PTO_US.items():
        assert too_early(times[key], pto_us, at_once(key)) == [], (key, times[key])
    # Timers that are a fifth too short are detected. A busy machine may delay one server's datagrams enough
    # to hide this, but not most servers'.
    short = {key: [at * 8 // 10 for at in times[key]] for key in times}
    found = [key for key, pto_us in PTO_US.items() if too_early(short[key], pto_us, at_once(key))]
    assert len(found) > len(PTO_US) / 2, times
    # Timers that do not double are detected. This uses the rogue, because no amplification limit stops its
    # timeouts.
    rogue = next(key for key in PTO_US if key[0] == "rogue")
    even = [PTO_US[rogue] * number for number, _ in enumerate(times[rogue], start=1)]
    assert too_early(even, PTO_US[rogue], at_once(rogue))


def at_once(key: tuple[str, str]) -> int:
    """Return how many datagrams a server sends when a probe timeout expires (RFC 9002 6.2.4: one or two)."""
    return 1 if key[0] == "rogue" else 2
