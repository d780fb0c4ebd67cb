"""Computes the outcome of each probe from tshark's fields: a third, independent reading of the same packets.

tshark decrypts Initial packets itself. This module groups tshark's fields by probe (client address and port,
server address, client connection ID) and applies the outcome table of docs/definitions.md. It shares no code
with the prober. It uses the dissector only to restore trimmed captures, because tshark verifies the
authentication tags when it decrypts.
"""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from firstflight.system import binaries
from tests.waiting import PATIENCE_S

FIELDS = (
    "frame.time_epoch",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "udp.srcport",
    "udp.dstport",
    "icmp.type",
    "icmp.code",
    "icmpv6.type",
    "icmpv6.code",
    "quic.long.packet_type",
    "quic.version",
    "quic.scid",
    "quic.dcid",
    "quic.token_length",
    "quic.packet_number",
    "quic.frame_type",
    "quic.ack.largest_acknowledged",
    "quic.ack.first_ack_range",
    "quic.crypto.offset",
    "tls.handshake.type",
    "tls.handshake.random",
    "_ws.malformed",
)
SERVER_HELLO = 2
ACK, ACK_ECN, CRYPTO, CLOSE = 2, 3, 6, 0x1C
INITIAL, RETRY = 0, 3
# RFC 8446 4.1.3: a HelloRetryRequest's random.
RETRY_REQUEST = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c"


@dataclass(frozen=True)
class TsharkLine:
    """One line of tshark's output. Times are integer nanoseconds since the epoch."""

    time_ns: int
    src: tuple[str, int]
    dst: tuple[str, int]
    unreachable: bool
    types: tuple[int, ...]
    versions: tuple[int, ...]
    scids: tuple[str, ...]
    dcids: tuple[str, ...]
    token: bool
    packet_numbers: tuple[int, ...]
    frames: tuple[int, ...]
    acks: tuple[tuple[int, int], ...]  # (largest acknowledged, first range)
    hellos: tuple[int, ...]
    randoms: tuple[str, ...]
    malformed: bool

    @property
    def server_hello(self) -> bool:
        """Return whether it contains the start of a ServerHello other than a HelloRetryRequest."""
        return SERVER_HELLO in self.hellos and RETRY_REQUEST not in self.randoms


@dataclass
class ConnectionAttempt:
    """The datagrams in a connection attempt, in order of arrival."""

    sent: list[TsharkLine] = field(default_factory=list)
    answers: list[TsharkLine] = field(default_factory=list)
    refused: bool = False


@dataclass(frozen=True)
class Reading:
    """One attempt according to tshark's fields; times in ns since 1970."""

    outcome: str
    sent_ns: int
    ack_ns: int | None
    sh_ns: int | None

    @property
    def ack_us(self) -> int | None:
        """Return the time from sending to the ACK, microseconds, floored."""
        return None if self.ack_ns is None else (self.ack_ns - self.sent_ns) // 1000

    @property
    def sh_us(self) -> int | None:
        """Return the time from sending to the ServerHello, microseconds, floored."""
        return None if self.sh_ns is None else (self.sh_ns - self.sent_ns) // 1000

    @property
    def ack_to_sh_us(self) -> int | None:
        """Return ServerHello minus ACK, microseconds."""
        return None if self.ack_us is None or self.sh_us is None else self.sh_us - self.ack_us


Key = tuple[str, int, str, str]  # client ip, client port, server ip, client connection ID


def read(capture: Path) -> dict[Key, Reading]:
    """Read a capture with tshark; return one `Reading` per connection attempt."""
    attempts: dict[Key, ConnectionAttempt] = defaultdict(ConnectionAttempt)
    of_tuple: dict[tuple[str, int, str], Key] = {}
    for datagram in _datagrams(capture):
        if datagram.dst[1] == 443 and not datagram.unreachable:
            # tshark shows the ClientHello's type once. For the copy with a Retry's token, it only shows a
            # CRYPTO frame.
            if CRYPTO in datagram.frames and datagram.scids:
                key = (*datagram.src, datagram.dst[0], datagram.scids[0])
                attempts[key].sent.append(datagram)
                of_tuple[key[:3]] = key
        elif datagram.unreachable:
            # These are the addresses and ports of the quoted packet from the client.
            if (key_ := of_tuple.get((*datagram.src, datagram.dst[0]))) is not None:
                attempts[key_].refused = True
        elif (key_ := of_tuple.get((*datagram.dst, datagram.src[0]))) is not None:
            attempts[key_].answers.append(datagram)
    return {key: _classify(attempt, key[3]) for key, attempt in attempts.items()}


def _classify(attempt: ConnectionAttempt, client_cid: str) -> Reading:
    first = attempt.sent[-1]  # after a Retry, the ClientHello with the token
    hello_numbers = [d.packet_numbers[0] for d in attempt.sent if d.packet_numbers]
    ack = hello = None
    closed = opened = garbage = negotiated = False
    for datagram in attempt.answers:
        if client_cid not in datagram.dcids:
            continue
        if datagram.versions and datagram.versions[0] == 0:
            negotiated = negotiated or not opened
            continue
        if not datagram.frames:
            garbage = True
            continue
        if datagram.malformed:
            garbage = True
            continue
        opened = True
        if ack is None and any(_covers(a, hello_numbers[-1:]) for a in datagram.acks):
            ack = datagram
        if hello is None and datagram.server_hello:
            hello = datagram
        closed = closed or CLOSE in datagram.frames
    retried = len(attempt.sent) > 1
    outcome = _outcome(ack, hello, closed, retried, negotiated, attempt.refused, opened or garbage)
    ack_ns, sh_ns = (None if datagram is None else datagram.time_ns for datagram in (ack, hello))
    return Reading(outcome, first.time_ns, ack_ns, sh_ns)


def _covers(ack: tuple[int, int], numbers: list[int]) -> bool:
    largest, first_range = ack
    return bool(numbers) and all(largest - first_range <= number <= largest for number in numbers)


def _outcome(
    ack: TsharkLine | None,
    hello: TsharkLine | None,
    closed: bool,
    retried: bool,
    negotiated: bool,
    refused: bool,
    anything: bool,
) -> str:
    if hello is not None:
        if ack is None or ack.time_ns > hello.time_ns:
            return "sh_first"
        return "coalesced" if ack is hello else "iack"
    if closed:
        return "closed"
    if ack is not None:
        return "ack_only"
    if retried:
        return "retry"
    if negotiated:
        return "version_negotiation"
    if refused:
        return "refused"
    return "malformed" if anything else "timeout"


def _datagrams(capture: Path) -> Iterator[TsharkLine]:
    command = ["tshark", "-r", "-", "-d", "udp.port==443,quic", "-T", "fields", "-E", "occurrence=a"]
    for name in FIELDS:
        command += ["-e", name]
    done = subprocess.run(
        command, input=_standard(capture), capture_output=True, check=True, timeout=PATIENCE_S
    )
    for line in done.stdout.decode().splitlines():
        values = [v.split(",") if v else [] for v in line.split("\t")]
        yield _datagram(dict(zip(FIELDS, values, strict=True)))


def _standard(capture: Path) -> bytes:
    """Return a capture that tshark can read, with the padding that trimming removed."""
    content = capture.read_bytes()
    if content[12:16] in (bytes(4), b""):
        return content
    argv = [str(binaries.find("firstflight-dissect")), "--restore", str(capture)]
    return subprocess.run(argv, capture_output=True, check=True, timeout=PATIENCE_S).stdout


def _datagram(values: dict[str, list[str]]) -> TsharkLine:
    def numbers(name: str) -> tuple[int, ...]:
        return tuple(int(v, 0) for v in values[name])

    icmp = values["icmp.type"] or values["icmpv6.type"]
    code = values["icmp.code"] or values["icmpv6.code"]
    unreachable = [*icmp[:1], *code[:1]] in (["3", "3"], ["1", "4"])
    # In an ICMP message, the last address pair belongs to the quoted packet.
    sources, targets = values["ip.src"] or values["ipv6.src"], values["ip.dst"] or values["ipv6.dst"]
    seconds, _, fraction = values["frame.time_epoch"][0].partition(".")
    ports = (numbers("udp.srcport") or (0,))[-1], (numbers("udp.dstport") or (0,))[-1]
    return TsharkLine(
        time_ns=int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")),
        src=(sources[-1], ports[0]),
        dst=(targets[-1], ports[1]),
        unreachable=unreachable,
        types=numbers("quic.long.packet_type"),
        versions=numbers("quic.version"),
        scids=tuple(v.replace(":", "") for v in values["quic.scid"]),
        dcids=tuple(v.replace(":", "") for v in values["quic.dcid"]),
        token=any(n > 0 for n in numbers("quic.token_length")),
        packet_numbers=numbers("quic.packet_number"),
        frames=numbers("quic.frame_type"),
        acks=tuple(
            zip(numbers("quic.ack.largest_acknowledged"), numbers("quic.ack.first_ack_range"), strict=False)
        ),
        hellos=numbers("tls.handshake.type"),
        randoms=tuple(v.replace(":", "").lower() for v in values["tls.handshake.random"]),
        malformed=bool(values["_ws.malformed"]),
    )
