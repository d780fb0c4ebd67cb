"""Damaged answers for every type, the same in every run, and a server that sends them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from tests.resolve.replies import replying

ZONE = "damage.test"
# Two records of each type, as the owner `end` has them.
RECORDS = {
    "A": ("198.18.0.1", "198.18.0.2"),
    "AAAA": ("2001:db8::1", "2001:db8::2"),
    "HTTPS": (
        "1 . mandatory=alpn alpn=h3,h2 port=8443 ipv4hint=198.18.0.1,198.18.0.2 ech=AAz+DQAIAAAAAAAAAAA= "
        "ipv6hint=2001:db8::1",
        f"0 edge.{ZONE}.",
    ),
    "CNAME": (f"other.{ZONE}.",),
    "NS": (f"ns1.{ZONE}.", "ns.elsewhere.test."),
    "MX": (f"10 mail.{ZONE}.", "20 mail.elsewhere.test."),
    "TXT": ('"one" "two words"', '"quote \\" and \\255"'),
    "CAA": ('0 issue "ca.test; policy=ev"', '128 iodef "mailto:a@damage.test"'),
}
MARK = "EDE 0 (mark)"
_EDGES = (0, 1, 0x3F, 0x40, 0x7F, 0x80, 0xC0, 0xC1, 0xFE, 0xFF)


def name(number: int) -> str:
    """Return the name that gets answer `number`."""
    return f"d{number:04}.{ZONE}"


def whole(domain: str, qtype: str) -> bytes:
    """Return a valid answer: an alias, records of the type, an SOA record, an extended error.

    The answer to a question for CNAME has only the alias.
    """
    query = dns.message.make_query(domain, qtype, id=0)
    message = dns.message.make_response(query, recursion_available=True)
    message.answer.append(dns.rrset.from_text(f"{domain}.", 60, "IN", "CNAME", f"end.{ZONE}."))
    if qtype != "CNAME":
        message.answer.append(dns.rrset.from_text(f"end.{ZONE}.", 30, "IN", qtype, *RECORDS[qtype]))
    soa = f"ns.{ZONE}. hostmaster.{ZONE}. 1 3600 600 86400 60"
    message.authority.append(dns.rrset.from_text(f"{ZONE}.", 60, "IN", "SOA", soa))
    message.use_edns(0, options=[dns.edns.EDEOption(dns.edns.EDECode.STALE_ANSWER, "stale")])
    return message.to_wire()


def damaged(wire: bytes, source: random.Random) -> bytes:
    """Return `wire` with one to three changes after its id.

    No compressed name points into the id, because each query has a different id.
    """
    while re.search(rb"\xc0[\x00\x01]", changed := _changed(wire, source)):
        pass
    return changed


def _changed(wire: bytes, source: random.Random) -> bytes:
    changed = bytearray(wire)
    for _ in range(source.choice((1, 1, 1, 2, 3))):
        at = source.randrange(2, max(3, len(changed)))
        match source.randrange(12):
            case 0:
                del changed[at:]
            case 1:
                del changed[at : at + source.randrange(1, 10)]
            case 2:
                changed.insert(at, source.randrange(256))
            case 3:
                changed += changed[at:]
            case 4 | 5 if at < len(changed):
                changed[at] ^= 1 << source.randrange(8)
            case 6 | 7 if at < len(changed):
                changed[at] = source.randrange(256)
            case _ if at < len(changed):
                changed[at] = source.choice(_EDGES)
    return bytes(changed)


def serving(answers: Mapping[tuple[str, str], bytes]) -> AbstractContextManager[int]:
    """Run a server on loopback with these answers, by lower-case name and type; the block gets its port.

    A second answer, which both engines read, follows each with status OTHER and the detail MARK. It counts if
    the engine ignored the first. All other names do not exist. No server listens on TCP.
    """

    def reply(wire: bytes) -> Iterator[bytes]:
        query = dns.message.from_wire(wire)
        (question,) = query.question
        question_key = (question.name.to_text(omit_final_dot=True).lower(), question.rdtype.name)
        response = dns.message.make_response(query, recursion_available=True)
        response.set_rcode(dns.rcode.NXDOMAIN)
        if question_key in answers:
            yield wire[:2] + answers[question_key][2:]
            response.set_rcode(dns.rcode.YXDOMAIN)
            response.use_edns(0, options=[dns.edns.EDEOption(dns.edns.EDECode.OTHER, "mark")])
        yield response.to_wire()

    return replying(reply)
