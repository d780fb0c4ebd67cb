"""The CDN of handshakes by the aliases of their names, joined with the right rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight.cdn import rules
from firstflight.cdn.methods import Methods
from firstflight.errors import InputError
from scanner.driver import choose
from scanner.handshake.aliases import Aliases
from schemas import records

METHODS = Methods.read(rules.DEFAULT)


def plan(*targets: tuple[str, str]) -> pa.Table:
    rows = [
        {"target": 2 + n, "domain": domain, "ip": ip, "list_id": "L", "rank": 1, "address_rank": 0}
        | {"resolver": "192.0.2.53"}
        for n, (domain, ip) in enumerate(targets)
    ]
    return pa.Table.from_pylist(rows, schema=choose.PLAN)


def answers(path: Path, *rows: dict[str, Any]) -> Path:
    described = records.load("dns_answer")
    common: dict[str, Any] = {c.name: [] if c.type.startswith("list") else None for c in described.columns}
    common |= {"qtype": "A", "status": "NOERROR", "address": "198.18.0.1", "answer_rank": 0}
    schema = pa.schema([pa.field(f.name, f.type) for f in described.arrow_schema()])
    pq.write_table(pa.Table.from_pylist([common | row for row in rows], schema=schema), path)
    return path


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
    aliases = Aliases(METHODS, plan(*targets), dns)
    rows = [*targets, ("other.test", "198.18.0.1")]  # the last is not of the plan
    block = pa.Table.from_pylist([{"domain": domain, "ip": ip} for domain, ip in rows])
    assert aliases.cdns(block).to_pylist() == ["Akamai", "Fastly", "Others", None, "Fastly", None]


def test_without_answers_nothing_is_known(tmp_path: Path) -> None:
    aliases = Aliases(METHODS, plan(("a.fastly.net", "198.18.0.1")), tmp_path / "none.parquet")
    block = pa.Table.from_pylist([{"domain": "a.fastly.net", "ip": "198.18.0.1"}])
    assert aliases.cdns(block).to_pylist() == [None]
    assert Aliases(METHODS, plan(), tmp_path / "none.parquet").cdns(block).to_pylist() == [None]


def test_answers_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "dns_answer.parquet").write_text("x")
    with pytest.raises(InputError, match="run the resolve stage again"):
        Aliases(METHODS, plan(("a.test", "198.18.0.1")), tmp_path / "dns_answer.parquet")
