"""Rows of the newest run in every table with names: each named query and view has something to answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from schemas import records
from tests.calibrate.test_answer import pair
from tests.queries.conftest import DAY_2, LIST, RUN_2, SECOND
from tests.queries.handshakes.test_counts import certificate
from tests.queries.handshakes.test_verdicts import answered, crawled
from tests.store.loads.test_handshake_kinds import row as row_of
from tests.store.rows import answer, download, probe, quic_ack, tcp_option, write
from tests.watch.test_watch_views import slot

NAMES = 30  # n0.example to n29.example
# conftest.second_run has no probes of repetition 2. Table 1 counts downloads of repetition 1.
UNIT: dict[str, Any] = {"run": RUN_2, "repetition": 2}
FIRST = UNIT | {"repetition": 1}
ANSWERS = ("iack", "coalesced", "iack", "sh_first", "timeout")
CDNS = ("Cloudflare", "Fastly", "Others")
PARAMETERS = '[{"id": "0x01", "name": "max_idle_timeout", "value": 30000}]'
GREASE = "0x1a2a3a4a"


def blank(kind: str) -> dict[str, Any]:
    """Return a row of `kind` with null in each nullable column, and 0, false or empty values elsewhere."""
    zero = {"string": "", "bool": False}
    return {
        column.name: [] if column.is_list else None if column.nullable else zero.get(column.type, 0)
        for column in records.load(kind).file_columns
    }


def probes(n: int, name: dict[str, Any], at: int) -> list[dict[str, Any]]:
    """Return a name's probes: its first address by two sizes, another one, an unknown version."""
    common = UNIT | name | {"sent_at": at, "ecn_verdict": ("valid", "not_mirrored")[n % 2]}
    listened = {"listened_s": 5.0, "retransmissions": 2, "retransmission_us": [130_000 + n, 330_000]}
    return [
        probe(
            ANSWERS[n % 5],
            **common | listened | {"initial_size": 1252, "bytes_received": 3_600 + 100 * (n % 3)},
            ack_datagram_bytes=1_199 + n % 2,
        ),
        probe("timeout", **common | {"initial_size": 1452}),
        probe("coalesced", **common | {"ip": f"198.18.51.{n}", "address_rank": 1}),
        probe(
            "version_negotiation",
            **common | {"version": GREASE, "vn_us": 20_000 + n, "version_grease": n % 2},
        ),
    ]


def connected(n: int, name: dict[str, Any], at: int) -> dict[str, Any]:
    """Return a name's completed handshake, with all that its server can show."""
    first = ANSWERS[n % 4]
    shown = {
        "first_answer_any_ack": "iack",
        "ack_covers_hello": True,
        "hello_datagrams": 1,
        "bytes_received": 5_200 + n,
        "bytes_first_flight": 3_600 + n,
        "bytes_received_unvalidated": 3_700 + n,
        "certificate_uncompressed_bytes": 2_500,
        "chain_length": 2,
        "chain_sha256": str(n % 3) * 64,
        "leaf_sha256": str(n % 4) * 64,
        "transport_parameters": PARAMETERS,
        "group": "x25519",
        "cipher": "TLS_AES_128_GCM_SHA256",
        "handshake_us": 30_000 + n,
        "http": "response",
        "status": 200,
        "server_header": "x",
        "stack": "quiche" if n % 2 else None,
        "stack_fingerprint": f"{n % 3},1",
        "edge_location": ("HAM", "FRA", None)[n % 3],
        "cdn_by_asn": name["cdn"],
        "cdn_by_cname": CDNS[n % 2],
        "cdn_by_certificate": "Others",
        "ech_offered": "grease",
        "ech_retry_config_ids": [n % 3],
    }
    return answered(f"n{n}", first, 20_000 + n, 1_000 * (n % 70), **UNIT | name | shown | {"sent_at": at})


def resolved(n: int, name: dict[str, Any], at: int) -> list[dict[str, Any]]:
    """Return a resolver's answers for a name: its address, and its HTTPS record or NODATA."""
    domain, ip = name["domain"], name["ip"]
    about = UNIT | {"asked_at": at, "list_id": LIST}
    promise: dict[str, Any] = {
        "https_priority": 1,
        "https_alpn": ["h3"],
        "https_ipv4hint": [ip, "198.18.9.9"],
    }
    promise |= {"https_ech": True, "https_ech_config_ids": [n % 2]}
    return [
        answer(domain, "A", address=ip, answer_rank=0, **about),
        answer(domain, "HTTPS", **promise, **about)
        if n % 3
        else answer(domain, "HTTPS", status="NODATA", **about),
    ]


def downloaded(n: int, name: dict[str, Any], at: int) -> list[dict[str, Any]]:
    """Return a name's downloads, by three option sets."""
    common = FIRST | name | {"started_at": at, "flow_started_at": at, "client_port": 40_000 + n}
    return [
        download(
            **common,
            set=of_set,
            download_throughput_bps=1_000 * n + size,
            anrw_throughput_bps=1_000 + n * size,
        )
        for size, of_set in enumerate(("bl", "ws14", "quiche"), start=1)
    ]


def of_name(n: int) -> dict[str, list[dict[str, Any]]]:
    """Return a name's rows by kind."""
    name: dict[str, Any] = {"domain": f"n{n}.example", "ip": f"198.18.50.{n}", "cdn": CDNS[n % 3]}
    at = DAY_2 + n * SECOND
    of_run = {"run": RUN_2, "domain": name["domain"], "crawled_at": at}
    of_unit = UNIT | {"domain": name["domain"], "ip": name["ip"]}
    flow = {"start_time_ns": at, "client_port": 40_000 + n, "server_ip": name["ip"], "sni": name["domain"]}
    flow |= {"source_file": f"{RUN_2}/hamburg/capture.pcap"}
    about = {
        "vantage": "hamburg",
        "first_answer": "iack",
        "version": "0x00000001",
        "tool_version": "0.1.0+test",
    }
    outcomes = ("iack", "coalesced", None)
    return {
        "quic_probe": probes(n, name, at),
        "quic_handshake": [connected(n, name, at)],
        "dns_answer": resolved(n, name, at),
        "download": downloaded(n, name, at),
        "target": [{"rank": n + 1, "domain": name["domain"], "list_id": LIST, "rank_bucket": 1_000}],
        "tcp_option": [tcp_option(**UNIT | name | {"sent_at": at, "ecn": n % 3 == 0, "sack": n % 2 == 0})],
        "watch_slot": [slot(n, outcomes[n % 3], 100 + n, 250, run=RUN_2, domain=f"n{n % 7}.example")],
        "http3_response": [row_of("http3_response", **of_unit, sent_at=at, alt_svc='h3=":443"')],
        "calibration": [
            pair(
                n,
                ANSWERS[n % 2],
                "iack",
                (1_000, 1_000 + n),
                **of_unit,
                probe_sent_at=at,
                handshake_sent_at=at,
            )
        ],
        "download_file": [crawled(f"n{n}", 'h3=":443"') | of_run],
        "crawl_page": [blank("crawl_page") | of_run | {"outcome": ("found", "failed")[n % 2], "requests": n}],
        "quic_connection": [blank("quic_connection") | UNIT | about | flow],
        "quic_ack": [quic_ack(**FIRST | flow, acks_by_count=6, acks_by_timer=n, acks_by_reordering=1)],
    }


def write_all(folder: Path) -> list[Path]:
    """Write all rows, and the certificates of the handshakes, into a run in `folder`; return the files."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for n in range(NAMES):
        for kind, of_kind in of_name(n).items():
            rows.setdefault(kind, []).extend(of_kind)
    # A probe without SNI.
    rows["quic_probe"].append(probe(**UNIT, domain="", ip="198.18.52.1", sent_at=DAY_2))
    ec = ("ec_p256", 256, "ecdsa_sha256", 900)
    rows["certificate"] = [certificate(str(leaf), *ec, **UNIT) for leaf in range(4)]
    run = folder / RUN_2
    run.mkdir()
    (run / "manifest.json").write_text(json.dumps({"id": RUN_2}))
    targets = write(run / "targets" / "targets.parquet", rows.pop("target"), "target")
    return [targets, *(write(run / f"{kind}.parquet", of_kind, kind) for kind, of_kind in rows.items())]
