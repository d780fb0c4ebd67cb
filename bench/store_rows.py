"""Makes probe records as a campaign over a large list would: 4 vantage points, 3 repetitions, many names.

What costs space is made as random as in the field: connection IDs of 8 bytes (client) and 20 bytes
(server) are uniform, send stamps and source ports too, arrival times are a round-trip time per (vantage
point, address) with jitter. What repeats in the field repeats here: name, address, AS, CDN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas import records

VANTAGES = ("hamburg", "los_angeles", "sao_paulo", "hong_kong")
# CDN, AS number, share of the answering names (Table 1 of the paper), share of instant ACK, median delay us
GROUPS = (
    ("Akamai", 20940, 0.002, 0.32, 20_900),
    ("Amazon", 16509, 0.015, 0.41, 6_400),
    ("Cloudflare", 13335, 0.857, 0.999, 3_200),
    ("Fastly", 54113, 0.014, 0.0, 0),
    ("Google", 15169, 0.021, 0.115, 30_300),
    ("Others", 64500, 0.091, 0.215, 5_000),
)
_CONSONANTS = [*"bcdfghjklmnprstvwxz", "st", "ch", "tr", "sh"]
_VOWELS = [*"aeiou", "ai", "oo", "ea"]
_TLDS = ["com"] * 50 + [
    "net",
    "org",
    "io",
    "de",
    "ru",
    "com.br",
    "co.uk",
    "fr",
    "in",
    "app",
    "dev",
    "info",
] * 4


@dataclass(frozen=True)
class Names:
    """`count` names with what stays the same for each of them, drawn from `seed`."""

    count: int
    seed: int

    @cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    @cached_property
    def domains(self) -> list[str]:
        """Distinct names of syllables, 5 to 25 characters like those of Tranco."""
        rng, made = self._rng, dict[str, None]()
        while len(made) < self.count:
            syllables = "".join(
                str(rng.choice(_CONSONANTS)) + str(rng.choice(_VOWELS))
                for _ in range(int(rng.integers(2, 6)))
            )
            made[f"{syllables}.{rng.choice(_TLDS)}"] = None
        return list(made)

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """Index into GROUPS, per name."""
        shares = np.array([group[2] for group in GROUPS])
        return self._rng.choice(len(GROUPS), size=self.count, p=shares / shares.sum())

    @cached_property
    def ips(self) -> list[str]:
        """IPv4 addresses: a CDN's names share its /14."""
        low = self._rng.integers(0, 1 << 18, size=self.count)
        return [
            f"{20 + g}.{64 + (int(n) >> 16)}.{(int(n) >> 8) & 255}.{int(n) & 255}"
            for g, n in zip(self.group, low, strict=True)
        ]

    @cached_property
    def instant(self) -> NDArray[np.bool_]:
        """Whether the name's edge sends instant ACKs."""
        return self._rng.random(self.count) < np.array([g[3] for g in GROUPS])[self.group]

    @cached_property
    def rtt_us(self) -> NDArray[np.float64]:
        """Round-trip time in us, per (vantage point, name)."""
        return self._rng.lognormal(np.log(25_000), 0.8, size=(len(VANTAGES), self.count))


def tables(names: Names, repetitions: int) -> Iterator[tuple[str, int, pa.Table]]:
    """One quic_probe record table per vantage point and repetition, in the order of probing."""
    schema = records.load("quic_probe").arrow_schema()
    for repetition in range(1, repetitions + 1):
        for v, vantage in enumerate(VANTAGES):
            rng = np.random.default_rng([names.seed, repetition, v])
            columns = _columns(names, v, repetition, rng)
            arrays = [
                pa.array(columns[f.name]).cast(f.type) if f.name in columns else pa.nulls(names.count, f.type)
                for f in schema
            ]
            order = rng.permutation(names.count)
            yield vantage, repetition, pa.Table.from_arrays(arrays, schema=schema).take(pa.array(order))


def _columns(names: Names, v: int, repetition: int, rng: np.random.Generator) -> dict[str, object]:
    n = names.count
    answered = rng.random(n) > 0.01
    instant = names.instant
    ack = np.floor(names.rtt_us[v] + rng.exponential(400, n)).astype(np.int64)
    medians = np.array([group[4] for group in GROUPS], dtype=np.float64)[names.group]
    wait = np.where(instant, np.floor(medians * rng.lognormal(0, 0.5, n)), 0).astype(np.int64)
    sh = ack + wait
    ack_delay = np.where(instant, rng.integers(0, 40, n), rng.integers(100, 3_000, n))
    received = np.where(instant, rng.choice([2_400, 2_462, 3_600], n), rng.integers(2_400, 3_700, n))
    start_ns = 1_790_000_000_000_000_000 + repetition * 86_400 * 10**9
    sent_at = start_ns + rng.integers(0, n * 2_000_000, n)  # 500 probes per second in random order
    initial = np.full(n, 1252)

    def seen(values: NDArray[np.int64]) -> pa.Array:
        return pa.array(values, mask=~answered)

    def same(value: object) -> list[object]:
        return [value] * n

    return {
        "run": same("20260921T000000Z-a1b2c3"),
        "vantage": same(VANTAGES[v]),
        "repetition": np.full(n, repetition),
        "list_id": same("X6QPN"),
        "rank": np.arange(1, n + 1),
        "domain": names.domains,
        "ip": names.ips,
        "port": np.full(n, 443),
        "address_rank": np.zeros(n, dtype=np.int64),
        "resolver": same("198.51.100.53"),
        "asn": [GROUPS[g][1] for g in names.group],
        "cdn": [GROUPS[g][0] for g in names.group],
        "outcome": np.where(answered, np.where(instant, "iack", "coalesced"), "timeout").tolist(),
        "sent_at": sent_at,
        "src_ip": same(f"198.51.100.{10 + v}"),
        "src_port": rng.integers(61_000, 65_000, n),
        "initial_size": initial,
        "version": same("0x00000001"),
        "client_cid": _hex(rng, n, 8),
        "attempts": np.where(answered, 1, 2),
        "retried": np.zeros(n, dtype=bool),
        "hello_retry": np.zeros(n, dtype=bool),
        "ack_us": seen(ack),
        "sh_us": seen(sh),
        "ack_to_sh_us": seen(wait),
        "sh_to_handshake_us": seen(np.where(rng.random(n) < 0.7, 0, rng.integers(20, 900, n))),
        "ack_delay_raw": seen(ack_delay),
        "ack_delay_us": seen(ack_delay * 8),
        "ack_datagram_bytes": seen(np.where(instant, 1200, 1252)),
        "ack_frames": [
            ("ack,padding" if i else "ack,crypto") if a else None
            for a, i in zip(answered, instant, strict=True)
        ],
        "ack_eliciting": pa.array(~instant, mask=~answered),
        "ack_pn": seen(np.zeros(n, dtype=np.int64)),
        "sh_pn": seen(instant.astype(np.int64)),
        "ack_largest": seen(np.zeros(n, dtype=np.int64)),
        "first_ack_range": seen(np.zeros(n, dtype=np.int64)),
        "gap_before_sh": pa.array(np.zeros(n, dtype=bool), mask=~answered),
        "bytes_sent": initial,
        "bytes_received": np.where(answered, received, 0),
        "datagrams_received": np.where(answered, 3, 0),
        "amplification": (np.where(answered, received, 0) / initial).astype(np.float32),
        "discarded": np.zeros(n, dtype=np.int64),
        "after_close": np.where(answered, rng.integers(0, 3, n), 0),
        "ttl": seen(40 + (names.rtt_us[v].astype(np.int64) % 20)),
        "since_last_probe_s": pa.array(rng.normal(86_400, 60, n), mask=np.full(n, repetition == 1)),
        "server_cid": pa.array(_hex(rng, n, 20), mask=~answered),
        "tool_version": same("0.1.0+0123456789ab"),
        "host": same("vm"),
        "worker": pa.nulls(n, pa.string()),
        "ruleset": same("0123456789ab"),
        "capture_file": same(f"20260921T000000Z-a1b2c3/{VANTAGES[v]}/{repetition}/capture/probe.pcap"),
    }


def _hex(rng: np.random.Generator, count: int, size: int) -> list[str]:
    """`count` uniform byte strings of `size` bytes, in hex."""
    text = rng.bytes(count * size).hex()
    return [text[i : i + 2 * size] for i in range(0, len(text), 2 * size)]
