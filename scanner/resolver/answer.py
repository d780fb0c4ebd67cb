"""Parses a resolver's message: status, chain of aliases, records. Uses no sockets and no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rdtypes.svcbbase as svcb
import dns.rrset

QTYPES = ("A", "AAAA", "HTTPS")

# More aliases than this count as a loop (BIND stops at 16).
MAX_CHAIN = 16

# Maximum number of records to keep from an answer, one row each (the default of BIND's max-records-per-type).
MAX_RECORDS = 100

# Response codes with a status. Other codes have the status OTHER, and the code in `rcode`.
_RCODE_STATUS = {
    dns.rcode.NXDOMAIN: "NXDOMAIN",
    dns.rcode.SERVFAIL: "SERVFAIL",
    dns.rcode.REFUSED: "REFUSED",
    dns.rcode.FORMERR: "FORMERR",
    dns.rcode.NOTIMP: "NOTIMP",
}

# Failures of the resolver or the network, which are retried. NXDOMAIN and NODATA are answers.
FAILURES = frozenset(
    {"SERVFAIL", "REFUSED", "FORMERR", "NOTIMP", "OTHER", "TIMEOUT", "NETWORK", "MALFORMED", "REFERRAL"}
)


@dataclass(frozen=True)
class Alias:
    """One CNAME record: the target, and the TTL in seconds."""

    target: str
    ttl: int


@dataclass(frozen=True)
class HttpsRecord:
    """One HTTPS record (RFC 9460): the fields needed to reach a server."""

    priority: int
    target: str
    port: int | None
    alpn: tuple[str, ...]
    ipv4hint: tuple[str, ...]
    ipv6hint: tuple[str, ...]
    ech: bool


@dataclass(frozen=True)
class Message:
    """A resolver's parsed answer to one question.

    `records`: addresses (A, AAAA) or HttpsRecords in the order of the answer, with their common TTL.
    `left_out`: the number of records beyond the first MAX_RECORDS. `unfinished`: the name to query next, if
    the answer stops at an alias that the resolver did not resolve.
    """

    status: str
    rcode: int
    aliases: tuple[Alias, ...] = ()
    records: tuple[str | HttpsRecord, ...] = ()
    ttl: int | None = None
    unfinished: str | None = None
    detail: str | None = None
    left_out: int = 0


@dataclass(frozen=True)
class QueryOutcome:
    """A query's result: the last attempt's message or failure, with attempts, time and transport."""

    status: str
    asked_at_ns: int
    duration_us: int
    attempts: int
    rcode: int | None = None
    aliases: tuple[Alias, ...] = ()
    records: tuple[str | HttpsRecord, ...] = ()
    ttl: int | None = None
    transport: str | None = None
    detail: str | None = field(default=None)
    left_out: int = 0


def read(response: dns.message.Message) -> Message:
    """Parse a response that matches its query. Never raises: an invalid response has status MALFORMED."""
    rcode = int(response.rcode())
    detail = _extended_errors(response)
    if len(response.question) != 1:
        return Message("MALFORMED", rcode, detail="the answer repeats no question")
    question = response.question[0]
    aliases: list[Alias] = []
    name, seen = question.name, {question.name}
    while (rrset := _find(response, name, question.rdtype)) is None:
        cname = _find(response, name, dns.rdatatype.CNAME)
        if cname is None:
            break
        name = cname[0].target
        aliases.append(Alias(_text(name), cname.ttl))
        if name in seen or len(aliases) > MAX_CHAIN:
            return Message("CHAIN", rcode, tuple(aliases), detail=detail)
        seen.add(name)
    chain = tuple(aliases)
    if rcode != dns.rcode.NOERROR:
        return Message(_RCODE_STATUS.get(dns.rcode.Rcode(rcode), "OTHER"), rcode, chain, detail=detail)
    if rrset is not None:
        records = tuple(_record(rdata) for rdata in islice(rrset, MAX_RECORDS))
        left_out = len(rrset) - len(records)
        return Message("NOERROR", rcode, chain, records, rrset.ttl, detail=detail, left_out=left_out)
    # An SOA record means that the last name of the chain has no such record (RFC 2308 2.2).
    authority = {record_set.rdtype for record_set in response.authority}
    has_soa = dns.rdatatype.SOA in authority
    if not (chain or has_soa) and dns.rdatatype.NS in authority and not response.flags & dns.flags.AA:
        # Only name servers: this is not an answer but a referral to them.
        return Message("REFERRAL", rcode, detail=detail)
    unfinished = None if has_soa or not chain else chain[-1].target
    return Message("NODATA", rcode, chain, unfinished=unfinished, detail=detail)


def _find(
    response: dns.message.Message, name: dns.name.Name, rdtype: dns.rdatatype.RdataType
) -> dns.rrset.RRset | None:
    return response.get_rrset(response.answer, name, dns.rdataclass.IN, rdtype)


def _record(rdata: Any) -> str | HttpsRecord:
    if rdata.rdtype in (dns.rdatatype.A, dns.rdatatype.AAAA):
        return str(rdata.address)
    # Recipients ignore a record's parameters in AliasMode (RFC 9460 2.4.2).
    params = rdata.params if rdata.priority else {}
    alpn = params.get(svcb.ParamKey.ALPN)
    port = params.get(svcb.ParamKey.PORT)
    hint4, hint6 = params.get(svcb.ParamKey.IPV4HINT), params.get(svcb.ParamKey.IPV6HINT)
    return HttpsRecord(
        priority=rdata.priority,
        target=_text(rdata.target),
        port=None if port is None else port.port,
        alpn=() if alpn is None else tuple(i.decode("ascii", "backslashreplace") for i in alpn.ids),
        ipv4hint=() if hint4 is None else tuple(hint4.addresses),
        ipv6hint=() if hint6 is None else tuple(hint6.addresses),
        ech=params.get(svcb.ParamKey.ECH) is not None,
    )


def _text(name: dns.name.Name) -> str:
    return name.to_text(omit_final_dot=True).lower()


def _extended_errors(response: dns.message.Message) -> str | None:
    errors = [option for option in response.options if isinstance(option, dns.edns.EDEOption)]
    texts = [f"EDE {int(error.code)}" + (f" ({error.text})" if error.text else "") for error in errors]
    return "; ".join(texts) or None
