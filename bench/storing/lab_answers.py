"""The answers of the lab's endpoints (lab/internet.toml), as columns from which many probes can be made.

`common` has a row per endpoint with the values that are the same in all its probes. Arrival times are delays
in addition to the vantage point's round-trip time. Values of special modes are as a campaign over the lab
records them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lab.declared import internet
from lab.declared.model import Endpoint
from lab.expected import truth
from schemas import records

_UNANSWERED = {"retried": False, "hello_retry": False, "bytes_received": 0, "datagrams_received": 0}
_ACK = {"ack_delay_raw": 3, "ack_datagram_bytes": 1200, "ack_pn": 0, "ack_largest": 0, "first_ack_range": 0}
_PADDED = {**_ACK, "ack_frames": "ack,padding", "ack_eliciting": False}
_WITH_CRYPTO = {**_ACK, "ack_frames": "ack,crypto", "ack_eliciting": True}
_CLOSE = {"close_code": 296, "close_reason": "no service for this name"}

# Values of each outcome, and the values that a mode of the lab changes.
_OF_OUTCOME: dict[str, dict[str, Any]] = {
    "iack": {**_PADDED, "sh_pn": 1, "gap_before_sh": False, "bytes_received": 2400, "datagrams_received": 2},
    "coalesced": {
        **_WITH_CRYPTO,
        "sh_pn": 0,
        "gap_before_sh": False,
        "bytes_received": 1200,
        "datagrams_received": 1,
    },
    "sh_first": {"sh_pn": 1, "gap_before_sh": True, "bytes_received": 1685, "datagrams_received": 2},
    "closed": {**_CLOSE, "bytes_received": 72, "datagrams_received": 1},
    "ack_only": {**_PADDED, "bytes_received": 1200, "datagrams_received": 1},
    "retry": {"retried": True, "bytes_received": 55, "datagrams_received": 1},
    "version_negotiation": {
        "version_list": "0x6b3343cf,0xff00001d,0x1a2a3a4a",
        "bytes_received": 35,
        "datagrams_received": 1,
    },
    "refused": {"icmp_type": 3, "icmp_code": 3},
    "malformed": {
        "detail": "Initial packet: packet does not authenticate",
        "bytes_received": 2400,
        "datagrams_received": 2,
        "discarded": 2,
    },
    "timeout": {},
    "blocked": {"detail": "address on the block list"},
}
_OF_MODE: dict[str, dict[str, Any]] = {
    "sh_first": {"sh_pn": 0, "gap_before_sh": False, "bytes_received": 1200, "datagrams_received": 1},
    "sh_first_late_ack": {
        **_PADDED,
        "ack_delay_raw": 628,
        "ack_pn": 1,
        "sh_pn": 0,
        "gap_before_sh": False,
        "bytes_received": 2400,
    },
    "closed_with_ack": {**_PADDED, "bytes_received": 1272, "datagrams_received": 2},
    "hello_retry": {**_WITH_CRYPTO, "hello_retry": True, "bytes_received": 2400, "datagrams_received": 2},
    "malformed_frames": {
        "detail": "Initial packet 0: input ends too early",
        "bytes_received": 1200,
        "datagrams_received": 1,
        "discarded": 1,
    },
    "retry": {"retried": True, "ack_largest": 1, "bytes_received": 1295, "datagrams_received": 2},
    "retry_twice": {"bytes_received": 110, "datagrams_received": 2, "discarded": 1},
    "retry_ack_range": {"retried": True, "ack_largest": 1, "first_ack_range": 1, "bytes_received": 2455},
    "small_ack": {"ack_datagram_bytes": 48, "ack_frames": "ack", "bytes_received": 1248},
    "split_packets": {"ack_frames": "ack", "ack_eliciting": False, "sh_pn": 1},
    "amplify": {"ack_frames": "ack,crypto,padding", "bytes_received": 7200, "datagrams_received": 6},
    "forged": {"bytes_received": 3682, "datagrams_received": 5, "discarded": 5},
    "pn_start": {"ack_pn": 2147483647, "sh_pn": 2147483647},
    "reordered": {"ack_frames": "crypto,ping,ack"},
    "lost_ack": {"ack_pn": 1, "sh_pn": 1, "gap_before_sh": True},
    "chatty": {"after_close": 10},
}
# Modes that delay the certificate, not the ServerHello, and modes without a delay before the ACK.
_AT_ONCE = {"sh_then_certificate"}
_WITH_ACK_ALONE = {"closed_with_ack", "hello_retry", "ack_only"}


@dataclass(frozen=True)
class LabAnswers:
    """The answers of all endpoints (name and address) of the lab: one entry per endpoint in every field.

    Times are in us, NaN if not observed. `name` and `address` number the lab's names and addresses from 0;
    `epochs` are the epochs in which DNS returns the address. `ack_after` and `sh_after` count from the round
    trip, `handshake_after` from the ServerHello.
    """

    endpoints: tuple[Endpoint, ...]
    epochs: tuple[frozenset[int], ...]
    name: NDArray[np.int64]
    address: NDArray[np.int64]
    ack_after: NDArray[np.float64]
    sh_after: NDArray[np.float64]
    handshake_after: NDArray[np.float64]
    common: pa.Table

    def rtt_us(self, lab: internet.Internet, vantage: str) -> NDArray[np.float64]:
        """Return the round-trip time to each endpoint."""
        return np.array([lab.rtt_us(vantage, endpoint.host) for endpoint in self.endpoints], dtype=np.float64)


def read(lab: internet.Internet) -> LabAnswers:
    """Return the answers of all endpoints that a campaign over `lab` probes."""
    epochs = {
        (line["domain"], line["ip"]): frozenset(line["epochs"]) for line in truth.lines(lab) if line["ip"]
    }
    lost = {drop.ip: drop.rule for drop in lab.drops}
    endpoints = tuple(endpoint for endpoint in lab.endpoints if epochs[endpoint.domain, endpoint.ip])
    domains = {domain: place for place, domain in enumerate(dict.fromkeys(e.domain for e in endpoints))}
    ips = {ip: place for place, ip in enumerate(dict.fromkeys(e.ip for e in endpoints))}
    times = np.array([_times(endpoint, lost.get(endpoint.ip)) for endpoint in endpoints], dtype=np.float64)
    rows = [_row(endpoint, lost.get(endpoint.ip)) for endpoint in endpoints]
    for row, rank in zip(rows, _address_ranks(endpoints), strict=True):
        row["address_rank"] = rank
    given = {name for row in rows for name in row}
    fields = [field for field in records.load("quic_probe").arrow_schema() if field.name in given]
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in fields]
    return LabAnswers(
        endpoints=endpoints,
        epochs=tuple(epochs[endpoint.domain, endpoint.ip] for endpoint in endpoints),
        name=np.array([domains[endpoint.domain] for endpoint in endpoints]),
        address=np.array([ips[endpoint.ip] for endpoint in endpoints]),
        ack_after=times[:, 0],
        sh_after=times[:, 1],
        handshake_after=times[:, 2],
        common=pa.table(columns, names=[field.name for field in fields]),
    )


def _row(endpoint: Endpoint, lost: str | None) -> dict[str, Any]:
    """Return the columns that all probes of an endpoint share."""
    sent = 1252 if ":" not in endpoint.ip else 1232
    row: dict[str, Any] = {
        "asn": endpoint.asn,
        "cdn": endpoint.cdn,
        "outcome": endpoint.outcome,
        "port": 443,
        "initial_size": sent,
        "version": "0x00000001",
        "bytes_sent": sent,
        "attempts": 2 if endpoint.outcome == "timeout" or lost == "odd_flows" else 1,
        "discarded": 0,
        "after_close": 0,
        **_UNANSWERED,
        **_OF_OUTCOME[endpoint.outcome],
        **({} if lost else _OF_MODE.get(endpoint.mode, {})),
    }
    if row.get("datagrams_received"):
        row["ttl"] = 64
    if endpoint.outcome == "coalesced" and endpoint.delay_us and endpoint.mode not in _AT_ONCE:
        row["ack_delay_raw"] = endpoint.delay_us // 8  # the lab's waiting servers report their waiting time
    if endpoint.outcome == "refused" and sent == 1232:
        row["icmp_type"], row["icmp_code"] = 1, 4
    if endpoint.outcome == "blocked":
        row |= {"initial_size": None, "version": None, "bytes_sent": 0, "attempts": 0}
    return row


def _times(endpoint: Endpoint, lost: str | None) -> tuple[float, float, float]:
    """Return delays in us: ACK and ServerHello after the round trip, Handshake packet after ServerHello."""
    none = float("nan")
    delay = float(endpoint.delay_us or 0)
    if endpoint.outcome == "iack":
        return 0, delay, 0
    if endpoint.outcome == "coalesced":
        return (0, 0, delay) if endpoint.mode in _AT_ONCE else (delay, delay, 0)
    if endpoint.outcome == "sh_first":
        # The instant ACK was lost, or it arrives `delay` later.
        return (none, delay, 0) if lost else (delay if delay else none, 0, 0)
    return (0 if endpoint.mode in _WITH_ACK_ALONE else none), none, none


def _address_ranks(endpoints: tuple[Endpoint, ...]) -> list[int]:
    """Return the addresses' ranks within their family's answer; an address of another epoch has rank 0."""
    counts: dict[tuple[str, str], int] = {}
    ranks = []
    for endpoint in endpoints:
        key = (endpoint.domain, endpoint.host + endpoint.mode + str(":" in endpoint.ip))
        ranks.append(counts.get(key, 0))
        counts[key] = ranks[-1] + 1
    return ranks
