"""The CDN of handshakes by names, responses and certificates of segments, joined with the right rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight.cdn import rules
from firstflight.cdn.methods import Methods
from firstflight.errors import InputError
from scanner.driver import choose
from scanner.handshake.cdns import Cdns
from schemas import records

from .test_records import certificate, connection, response, segments

METHODS = Methods.read(rules.DEFAULT)


def plan(*targets: tuple[str, str]) -> pa.Table:
    rows = [
        {"target": 2 + n, "domain": domain, "ip": ip, "list_id": "L", "rank": 1, "address_rank": 0}
        | {"resolver": "192.0.2.53"}
        for n, (domain, ip) in enumerate(targets)
    ]
    return pa.Table.from_pylist(rows, schema=choose.PLAN)


def block(*rows: dict[str, Any]) -> pa.Table:
    names = ("domain", "ip", "port", "sent_at", "leaf_sha256")
    schema = pa.schema([(c.name, c.arrow_type()) for c in map(records.load("quic_handshake").column, names)])
    return pa.Table.from_pylist([{name: row.get(name) for name in names} for row in rows], schema=schema)


def answers(path: Path, *rows: dict[str, Any]) -> Path:
    described = records.load("dns_answer")
    common: dict[str, Any] = {c.name: [] if c.type.startswith("list") else None for c in described.columns}
    common |= {"qtype": "A", "status": "NOERROR", "address": "198.18.0.1", "answer_rank": 0}
    schema = pa.schema([pa.field(f.name, f.type) for f in described.arrow_schema()])
    pq.write_table(pa.Table.from_pylist([common | row for row in rows], schema=schema), path)
    return path


def columns(cdns: Cdns, *rows: dict[str, Any]) -> dict[str, list[str | None]]:
    return {name: column.to_pylist() for name, column in cdns.columns(block(*rows)).items()}


def test_aliases_are_those_of_the_address_s_family(tmp_path: Path) -> None:
    dns = answers(
        tmp_path / "dns_answer.parquet",
        {"domain": "a.test", "cname_chain": ["a.edgekey.net"]},
        {"domain": "a.test", "cname_chain": ["other.cloudfront.net"], "answer_rank": 1},
        {"domain": "a.test", "qtype": "AAAA", "cname_chain": ["a.fastly.net"], "address": "2001:db8::1"},
        {"domain": "b.test"},
        {"domain": "b.test", "qtype": "HTTPS", "cname_chain": ["b.fastly.net"], "address": None},
        {"domain": "c.test", "status": "NODATA", "cname_chain": ["c.fastly.net"], "address": None},
        {"domain": "b.fastly.net"},
        {"domain": "other.test", "cname_chain": ["a.fastly.net"]},
    )
    names = ("a.test", "a.test", "b.test", "c.test", "b.fastly.net")
    ips = ("198.18.0.1", "2001:db8::1", "198.18.0.1", "198.18.0.1", "198.18.0.1")
    targets = list(zip(names, ips, strict=True))
    cdns = Cdns(METHODS, tmp_path, plan(*targets), dns)
    rows = [{"domain": name, "ip": ip, "port": 443, "sent_at": 1} for name, ip in targets]
    rows.append({"domain": "other.test", "ip": "198.18.0.1", "port": 443, "sent_at": 1})  # not of the plan
    assert columns(cdns, *rows) == {
        "cdn_by_cname": ["Akamai", "Fastly", "Others", None, "Fastly", None],
        "cdn_by_header": [None] * 6,
        "cdn_by_certificate": [None] * 6,
    }


def test_responses_and_certificates_are_those_of_the_row(tmp_path: Path) -> None:
    headers = [[["server", "cloudflare"]], [["server", "nginx"]], [["x-amz-cf-id", "x"], ["server", "x"]]]
    given = [response(n) | {"headers": json.dumps(fields)} for n, fields in enumerate(headers)]
    segments(tmp_path, "http3_response", [given[:2], [], given[2:]])
    certificates = [
        certificate("aa") | {"issuer": "CN=R1,O=Certainly"},
        certificate("bb") | {"sans": '["a.test"]', "subject": "CN=a.test"},
        certificate("cc") | {"error": "sans: cut", "sans": '["*.cloudfront.net"]'},
        certificate("dd") | {"error": "certificate does not parse"},
    ]
    segments(tmp_path, "certificate", [certificates[:3], certificates[2:]])
    cdns = Cdns(METHODS, tmp_path / "segments", plan(), tmp_path / "none.parquet")
    leaves = ["aa", "bb", "cc", "dd", "ee", None]
    rows = [
        connection(n % 3, sent_at=None if n < 3 else 99)
        | {"leaf_sha256": None if leaf is None else leaf * 32}
        for n, leaf in enumerate(leaves)
    ]
    assert columns(cdns, *rows) == {
        "cdn_by_cname": [None] * 6,
        "cdn_by_header": ["Cloudflare", "Others", "Amazon", None, None, None],
        # Of the third not all could be read, but what could be tells it; of the fourth nothing could.
        "cdn_by_certificate": ["Fastly", "Others", "Amazon", None, None, None],
    }


def test_answers_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "dns_answer.parquet").write_text("x")
    with pytest.raises(InputError, match="run the resolve stage again"):
        Cdns(METHODS, tmp_path, plan(("a.test", "198.18.0.1")), tmp_path / "dns_answer.parquet")
