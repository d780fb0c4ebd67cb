"""Random TCP conversations: loss, copies, reordering, probes, resets, port reuse.

No stack would send them, but an observer may capture them."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field
from pathlib import Path

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
ENDS = (bytes([198, 18, 0, 1]), bytes([198, 18, 0, 2]))
MASK = 0xFFFFFFFF
PAUSES_NS = (1000, 50_000, 500_000, 2_000_000, 5_000_000, 30_000_000, 250_000_000)
SYN_OPTIONS = (b"", b"\x02\x04\x05\xb4\x03\x03\x07\x04\x02")


def segment(
    side: int, port: int, numbers: tuple[int, int], flags: int, window: int, size: int, options: bytes
) -> bytes:
    """Return an IPv4 packet with a TCP segment from side 0 (the client) or 1; checksums are zero."""
    options += bytes(-len(options) % 4)
    ports = (port, 443) if side == 0 else (443, port)
    offset = (20 + len(options)) // 4 << 4
    tcp = struct.pack("!HHIIBBHHH", *ports, *(n & MASK for n in numbers), offset, flags, window, 0, 0)
    body = tcp + options + bytes(size)
    return (
        struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, 0x4000, 64, 6, 0, ENDS[side], ENDS[1 - side])
        + body
    )


@dataclass
class Conversation:
    """One five-tuple's packets from `now_ns` on."""

    rng: random.Random
    port: int
    now_ns: int
    packets: list[tuple[int, bytes]] = field(default_factory=list)
    isn: list[int] = field(default_factory=list)
    next: list[int] = field(default_factory=list)
    acked: list[int] = field(default_factory=lambda: [0, 0])
    window: list[int] = field(default_factory=lambda: [65535, 65535])
    sent: list[list[tuple[int, int]]] = field(default_factory=lambda: [[], []])

    def __post_init__(self) -> None:
        # Some start just below the wraparound.
        self.isn = [
            self.rng.choice([self.rng.randrange(1 << 32), (1 << 32) - self.rng.randrange(5000)]) for _ in ENDS
        ]
        self.next = list(self.isn)

    def emit(
        self, side: int, seq: int, flags: int, size: int = 0, ack: int | None = None, options: bytes = b""
    ) -> None:
        """Add one packet and a pause."""
        numbers = (seq, self.acked[side] if ack is None else ack)
        packet = segment(side, self.port, numbers, flags, self.window[side], size, options)
        self.packets.append((self.now_ns, packet))
        self.now_ns += self.rng.choice(PAUSES_NS)

    def handshake(self) -> None:
        """Add a handshake, which most have; some lack the SYN-ACK, some have copies."""
        options = self.rng.choice(SYN_OPTIONS)
        for _ in range(self.rng.choice([1, 1, 1, 2])):
            self.emit(0, self.isn[0], SYN, ack=0, options=options)
        self.next[0] += 1
        if self.rng.random() < 0.9:
            self.acked[1] = self.next[0]
            for _ in range(self.rng.choice([1, 1, 1, 2])):
                self.emit(1, self.isn[1], SYN | ACK, options=options)
            self.next[1] += 1
            self.acked[0] = self.next[1]
            self.emit(0, self.next[0], ACK)

    def turn(self) -> None:
        """Add a random event."""
        rng = self.rng
        side = rng.randrange(2) if rng.random() < 0.3 else 1
        other, chance, now = 1 - side, rng.random(), self.next[side]
        if chance < 0.45:
            size = rng.choice([1, 100, 1000, 1448])
            self.sent[side].append((now, size))
            if rng.random() > 0.15:
                self.emit(side, now, ACK | rng.choice([0, 0, PSH]), size)
            self.next[side] += size
        elif chance < 0.6 and self.sent[side]:
            seq, size = rng.choice(self.sent[side][-6:])
            self.emit(side, seq, ACK, rng.choice([size, size, size, 1, size // 2 + 1, size + 200]))
        elif chance < 0.75:
            if self.sent[side] and rng.random() < 0.7:
                seq, size = rng.choice(self.sent[side][-5:])
                self.acked[other] = seq + rng.choice([size, size, size, 0])
            for _ in range(rng.choice([1, 1, 1, 3, 4])):
                self.emit(other, self.next[other], ACK)
        elif chance < 0.8:
            self.emit(side, now - 1, ACK, rng.choice([0, 1]))
        elif chance < 0.87:
            self.window[other] = rng.choice([0, 0, 500, 65535])
            self.emit(other, self.next[other], ACK)
        elif chance < 0.9:
            self.emit(side, now, ACK, 1)
        else:
            self.rarely(side, rng.choice(["ahead", "fin", "rst", "syn", "syn-ack", "sack", "sack"]))

    def rarely(self, side: int, event: str) -> None:
        """Add an end, a new connection on the same ports, or partial acknowledgements."""
        rng, now = self.rng, self.next[side]
        if event == "ahead":
            self.emit(side, now, ACK, ack=self.acked[side] + rng.choice([10, 5000]))
        elif event == "fin":
            self.emit(side, now, FIN | ACK, rng.choice([0, 100]))
        elif event == "rst":
            self.emit(side, now, RST | rng.choice([0, ACK]), ack=rng.choice([0, self.acked[side]]))
        elif event == "syn":
            self.emit(0, self.isn[0] + rng.choice([0, 70000]), SYN, ack=0)
        elif event == "syn-ack":
            self.emit(1, self.isn[1] + rng.choice([0, 70000]), SYN | ACK)
        elif self.sent[side]:
            seq, size = self.sent[side][-1]
            block = struct.pack("!BBBBII", 1, 1, 5, 10, seq & MASK, (seq + size) & MASK)
            for _ in range(rng.choice([1, 3])):
                self.emit(1 - side, self.next[1 - side], ACK, options=block)


def write(path: Path, seed: int, conversations: int) -> Path:
    """Write a capture (raw IP, nanoseconds) with conversations, one after the other."""
    rng = random.Random(seed)
    now_ns = 1_700_000_000 * 10**9
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 101)]
    for n in range(conversations):
        talk = Conversation(rng, 40000 + n, now_ns)
        if rng.random() < 0.85:
            talk.handshake()
        for _ in range(rng.randrange(5, 60)):
            talk.turn()
        now_ns = talk.now_ns
        for ns, data in talk.packets:
            out.append(struct.pack("<IIII", *divmod(ns, 10**9), len(data), len(data)) + data)
    path.write_bytes(b"".join(out))
    return path
