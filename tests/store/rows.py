"""Records for tests: a plausible row of a kind, with changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from downloader.option_sets import SETS
from schemas import records

RUN = "20261120T060000Z-a1b2c3"
DAY_NS = 1_795_154_400 * 10**9  # 2026-11-20 06:00 UTC


def probe(outcome: str = "iack", **changes: Any) -> dict[str, Any]:
    """Return a quic_probe record as a probe stage writes it for this outcome, with `changes` applied."""
    answered = outcome in ("iack", "coalesced", "sh_first")
    sent = outcome not in ("blocked", "send_failed")
    times = {"iack": (20_000, 23_200), "coalesced": (24_000, 24_000), "sh_first": (25_000, 24_500)}
    ack_us, sh_us = times.get(outcome, (None, None))
    columns = records.load("quic_probe").file_columns
    row: dict[str, Any] = {column.name: [] if column.is_list else None for column in columns}
    row |= {
        "run": RUN,
        "vantage": "hamburg",
        "repetition": 1,
        "list_id": "X6QPN",
        "rank": 1,
        "domain": "a.example",
        "ip": "198.18.48.1",
        "port": 443,
        "address_rank": 0,
        "resolver": "198.18.0.53",
        "asn": 13335,
        "cdn": "Cloudflare",
        "outcome": outcome,
        "sent_at": DAY_NS + 123_456_789 if sent else None,
        "attempts": 1 if sent else 0,
        "retried": False,
        "hello_retry": False,
        "ack_us": ack_us,
        "sh_us": sh_us,
        "ack_delay_raw": 25 if answered else None,
        "first_ack_range": 0 if answered else None,
        "bytes_sent": 1252 if sent else 0,
        "bytes_received": 3_600 if answered else 0,
        "datagrams_received": 3 if answered else 0,
        "discarded": 0,
        "after_close": 0,
        "tool_version": "0.1.0+test",
        "host": "vm",
        "worker": None,
        "ruleset": "0123456789ab",
    }
    row |= changes
    if row["ack_us"] is not None and row["sh_us"] is not None and "ack_to_sh_us" not in changes:
        row["ack_to_sh_us"] = row["sh_us"] - row["ack_us"]
    if row["ack_delay_raw"] is not None and "ack_delay_us" not in changes:
        row["ack_delay_us"] = row["ack_delay_raw"] * 8
    if row["bytes_sent"] and not row["retried"] and "amplification" not in changes:
        row["amplification"] = row["bytes_received"] / row["bytes_sent"]
    return row


def handshake(**changes: Any) -> dict[str, Any]:
    """Return a quic_handshake record for a completed handshake, with `changes` applied."""
    row: dict[str, Any] = {column.name: None for column in records.load("quic_handshake").file_columns}
    row |= {
        "run": RUN,
        "vantage": "hamburg",
        "repetition": 1,
        "domain": "a.example",
        "ip": "198.18.48.1",
        "port": 443,
        "outcome": "done",
        "stage": "response",
        "sent_at": DAY_NS,
        "retry": False,
        "hello_retry": False,
        "tool_version": "0.1.0+test",
        "ruleset": "0123456789ab",
    }
    return row | changes


def scan_answer(**changes: Any) -> dict[str, Any]:
    """Return a scan_answer record, with `changes` applied."""
    row: dict[str, Any] = {column.name: None for column in records.load("scan_answer").file_columns}
    row |= {
        "run": RUN,
        "vantage": "hamburg",
        "repetition": 1,
        "ip": "198.18.48.1",
        "port": 443,
        "received_at": DAY_NS,
        "version_list": "0x00000001",
        "ttl": 64,
        "tool_version": "0.1.0+test",
        "ruleset": "0123456789ab",
    }
    return row | changes


def download(**changes: Any) -> dict[str, Any]:
    """Return a download record for a successful download, with `changes` applied."""
    row: dict[str, Any] = {column.name: None for column in records.load("download").file_columns}
    row |= {
        "run": RUN,
        "vantage": "hamburg",
        "repetition": 1,
        "position": 1,
        "domain": "a.example",
        "ip": "198.18.48.1",
        "port": 443,
        "asn": 13335,
        "cdn": "Cloudflare",
        "url": "https://a.example/file",
        "set": "bl",
        "client": "curl",
        "outcome": "done",
        "started_at": DAY_NS,
        "body_bytes": 1_000_000,
        "client_limited": False,
        "tool_version": "0.1.0+test",
        "ruleset": "0123456789ab",
    }
    changed = row | changes
    protocol = "quic" if SETS[changed["set"]].is_quic else "tcp"
    return changed | {"iteration": changed["repetition"], "protocol": protocol}


def quic_ack(**changes: Any) -> dict[str, Any]:
    """Return a quic_ack record for a client that acknowledges every second of 20 packets, with `changes`."""
    row: dict[str, Any] = {column.name: None for column in records.load("quic_ack").file_columns}
    row |= {
        "run": RUN,
        "vantage": "hamburg",
        "repetition": 1,
        "source_file": f"{RUN}/hamburg/1/download/quiche.pcap",
        "start_time_ns": DAY_NS,
        "client_ip": "198.18.0.1",
        "client_port": 40_000,
        "server_ip": "198.18.48.1",
        "server_port": 443,
        "version": "0x00000001",
        "odcid": "0101010101010101",
        "client_scid": "02",
        "acks_from": "client",
        "ack_packets_initial": 1,
        "ack_only_packets_initial": 1,
        "bundled_packets_initial": 0,
        "peer_packets": 22,
        "peer_eliciting": 20,
        "peer_eliciting_acked": 20,
        "ack_packets": 10,
        "ack_only_packets": 9,
        "bundled_packets": 1,
        "ack_only_ip_bytes": 550,
        "ack_only_ip_bytes_p50": 61,
        "eliciting_per_ack_first100": 2.0,
        "acked_unseen": 0,
        "tool_version": "0.1.0+test",
    }
    return row | changes


def tcp_option(**changes: Any) -> dict[str, Any]:
    """Return a tcp_option record for a server that accepts all options, with `changes` applied."""
    row: dict[str, Any] = {column.name: None for column in records.load("tcp_option").file_columns}
    row |= {
        "run": RUN,
        "vantage": "hamburg",
        "repetition": 1,
        "domain": "a.example",
        "ip": "198.18.48.1",
        "port": 443,
        "asn": 13335,
        "cdn": "Cloudflare",
        "outcome": "answered",
        "sent_at": DAY_NS,
        "connects": 1,
        "syn_retransmissions": 0,
        "mss": 1460,
        "window_scaling": True,
        "wscale": 7,
        "sack": True,
        "timestamps": True,
        "ecn": True,
        "tool_version": "0.1.0+test",
        "ruleset": "0123456789ab",
    }
    return row | changes


def write(path: Path, rows: Sequence[dict[str, Any]], kind: str = "quic_probe") -> Path:
    """Write a record file; create the folder if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(list(rows), schema=records.load(kind).arrow_schema())
    pq.write_table(table, path, compression="zstd")
    return path


def many(count: int, **changes: Any) -> list[dict[str, Any]]:
    """Return `count` probes with different names."""
    return [probe(domain=f"name{n:06}.example", rank=n + 1, **changes) for n in range(count)]


def answer(domain: str, qtype: str, *, status: str = "NOERROR", **changes: Any) -> dict[str, Any]:
    """Return a dns_answer record, with `changes` applied."""
    row: dict[str, Any] = {
        column.name: [] if column.type.startswith("list") else None
        for column in records.load("dns_answer").file_columns
    }
    row |= {
        "run": RUN,
        "vantage": "hamburg",
        "repetition": 1,
        "asked_at": DAY_NS,
        "list_id": "X6QPN",
        "domain": domain,
        "qtype": qtype,
        "status": status,
        "resolver": "198.18.0.53",
        "attempts": 1,
        "duration_us": 900,
        "tool_version": "0.1.0+test",
    }
    return row | changes
