"""Builds rows of record kind dns_answer from the Python engine's answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scanner.resolver.answer import HttpsRecord, QueryOutcome
from scanner.resolver.names import Name

AnswerRow = dict[str, Any]
"""A row of dns_answer."""


def rows(name: Name, outcomes: dict[str, QueryOutcome], common: dict[str, Any]) -> Iterator[AnswerRow]:
    """Yield the rows for `name`: one per record, or one with only the status. All rows contain `common`."""
    for qtype, outcome in outcomes.items():
        base = common | {
            "asked_at": outcome.asked_at_ns,
            "list_id": name.list_id,
            "rank": name.rank,
            "domain": name.domain,
            "qtype": qtype,
            "status": outcome.status,
            "rcode": outcome.rcode,
            "ttl": outcome.ttl,
            "cname_chain": [alias.target for alias in outcome.aliases],
            "cname_ttls": [alias.ttl for alias in outcome.aliases],
            "https_alpn": [],
            "https_ipv4hint": [],
            "https_ipv6hint": [],
            "https_ech_config_ids": [],
            "https_ech_public_names": [],
            "attempts": outcome.attempts,
            "transport": outcome.transport,
            "duration_us": outcome.duration_us,
            "records_left_out": None if outcome.rcode is None else outcome.left_out,
            "detail": outcome.detail,
        }
        if not outcome.records:
            yield base
        for index, record in enumerate(outcome.records):
            yield base | {"answer_rank": index} | _record(record)


def _record(record: str | HttpsRecord) -> dict[str, Any]:
    if isinstance(record, str):
        return {"address": record}
    return {
        "https_priority": record.priority,
        "https_target": record.target,
        "https_port": record.port,
        "https_alpn": list(record.alpn),
        "https_ipv4hint": list(record.ipv4hint),
        "https_ipv6hint": list(record.ipv6hint),
        "https_ech": record.ech,
    }
