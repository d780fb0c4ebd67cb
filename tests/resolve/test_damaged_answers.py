"""Damaged answers: both resolve engines get the same bytes. Their rows are equal or differ as listed here.

Allowed differences, each checked on every message that has it:

- FOREIGN: a message that is no response to the question. The native engine reads only header and question,
  and ignores the message. dnspython reads the whole message first: a fault after the question makes it
  MALFORMED, and if it is truncated (TC), dnspython repeats the question over TCP.
- CUT: with TC the native engine reads only header and question before it repeats the question over TCP.
- QUESTION: an error without its question section keeps its status; dnspython reports MALFORMED.
- UNUSED: the native engine does not read owner and data of records that no row uses; dnspython reads all
  records. If dnspython skips the unreadable records, its rows equal ours. It has no extended error if it
  stopped before reading that.
- RECORD: the row keeps an unreadable ECH list (https_ech is true) and a CAA tag with characters that RFC 8659
  4.1 forbids; dnspython refuses the record.
- LABEL: a pointer may lead to a label that extends past the record, within the message; dnspython refuses the
  record. The text of the name has the bytes as escapes.
- TEXT: in the text of an extended error, U+FFFD replaces invalid UTF-8; dnspython refuses the message.
- TRAILING: the native engine counts the bytes after a message in `detail`; dnspython does not.
- TTL: the row has a TTL above 2^31 - 1 as received; dnspython reports 0 (RFC 2181 8).
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from functools import partial
from typing import Any

import dns.exception
import dns.message
import pytest

from tests.resolve import damaged
from tests.resolve.test_native_engine import COMPARED, native, oracle

MESSAGES = 250
SEED = 20261127
LONGEST_TTL = 2**31 - 1
# Bytes in a name that are no characters, more than one damaged byte.
_ESCAPED = re.compile(r"(\\\d{3}){2}")
_TRAILING = re.compile(r"(^|; )\d+ bytes follow the message$")
# Columns from the message; the other columns describe the transport.
READ = [name for name in COMPARED if name not in ("domain", "attempts", "transport", "resolver")]

Row = dict[str, Any]
Read = dict[str, list[Row]]


def by_name(found: list[Row]) -> Read:
    """Return the rows' READ columns, keyed by domain."""
    rows: Read = defaultdict(list)
    for row in found:
        detail = _TRAILING.sub("", row["detail"] or "") or None
        rows[row["domain"]].append({name: row[name] for name in READ} | {"detail": detail})
    return rows


def answer_to(rows: list[Row]) -> str:
    """Return how the engine treated a name's first answer: ignored, a failure status, or read."""
    if rows[0]["detail"] == damaged.MARK:
        return "ignored"
    return rows[0]["status"] if rows[0]["status"] in ("MALFORMED", "NETWORK") else "read"


def is_foreign(wire: bytes, question: dns.message.Message) -> bool:
    """Return whether header or question show that the message is no response (RFC 1035 4.1)."""
    if len(wire) < 12:
        return False
    if not wire[2] & 0x80 or wire[2] & 0x78:
        return True
    if wire[4:6] == b"\0\0":
        return not has_no_question(wire)
    try:
        return dns.message.from_wire(wire, question_only=True).question != question.question
    except dns.exception.DNSException:
        return False


def has_no_question(wire: bytes) -> bool:
    """Return whether the message is an error without a question, as some servers send it."""
    return wire[4:6] == b"\0\0" and wire[3] & 0xF in (1, 2, 4, 5)


def are_equal(ours: list[Row], theirs: list[Row]) -> bool:
    """Return whether rows are the same but for TTLs that dnspython takes for 0.

    Of several records that counts which has the lowest one.
    """
    ours = [
        row | {"cname_ttls": [0 if ttl > LONGEST_TTL else ttl for ttl in row["cname_ttls"]]} for row in ours
    ]
    if theirs[0]["ttl"] == 0:
        ours = [row | {"ttl": 0} for row in ours]
    return ours == theirs


def difference(
    wire: bytes, question: dns.message.Message, ours: list[Row], theirs: list[Row], lenient: list[Row]
) -> str | None:
    """Return the allowed difference that explains why rows differ, or null.

    `lenient`: the rows of dnspython without the records that it cannot read.
    """
    kinds = (answer_to(ours), answer_to(theirs))
    if kinds[0] == "ignored" and kinds[1] in ("MALFORMED", "NETWORK"):
        return "FOREIGN" if is_foreign(wire, question) else None
    if wire[2] & 0x02:
        return "CUT" if kinds in (("NETWORK", "MALFORMED"), ("MALFORMED", "NETWORK")) else None
    if kinds != ("read", "MALFORMED"):
        return "TTL" if kinds == ("read", "read") and are_equal(ours, theirs) else None
    if has_no_question(wire):
        return "QUESTION" if theirs[0]["detail"] == "the answer repeats no question" else None
    if "\ufffd" in (ours[0]["detail"] or ""):
        return "TEXT" if "codec can't decode" in theirs[0]["detail"] else None
    if theirs[0]["detail"].endswith(("invalid ECHConfigList", "tag is not alphanumeric")) and any(
        row["https_ech"] or row["data"] for row in ours
    ):
        return "RECORD"
    if any(_ESCAPED.search(text) for row in ours for text in (*row["cname_chain"], row["data"] or "")):
        return "LABEL"
    if lenient[0]["detail"] is None:
        ours = [row | {"detail": None} for row in ours]
    return "UNUSED" if are_equal(ours, lenient) else None


@pytest.mark.parametrize("qtype", damaged.RECORDS)
def test_damaged_answers_are_read_alike(qtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(f"{SEED} {qtype}")
    names = [damaged.name(number) for number in range(MESSAGES)]
    wires = {name: damaged.damaged(damaged.whole(name, qtype), source) for name in names}
    with damaged.serving({(name, qtype): wire for name, wire in wires.items()}) as port:
        options = ("--attempts", "1", "--lower-case", "--concurrency", "32")
        ours = by_name(native(names, port, *options, types=[qtype]))
        theirs = by_name(oracle(names, port, 1, types=[qtype]))
        monkeypatch.setattr(dns.message, "from_wire", partial(dns.message.from_wire, continue_on_error=True))
        lenient = by_name(oracle(names, port, 1, types=[qtype]))
        monkeypatch.undo()
    found: Counter[str] = Counter()
    for name, wire in wires.items():
        kinds = (answer_to(ours[name]), answer_to(theirs[name]))
        is_same = ours[name] == theirs[name] or kinds[0] == kinds[1] in ("MALFORMED", "NETWORK")
        if is_same:
            found[kinds[0]] += 1
            continue
        question = dns.message.make_query(name, qtype)
        why = difference(wire, question, ours[name], theirs[name], lenient[name])
        assert why, f"{name} {wire.hex()}\n{ours[name]}\n{theirs[name]}"
        found[why] += 1
    # Most messages show something: they are read alike, refused alike, ignored alike.
    assert found["read"] > MESSAGES / 6 and found["MALFORMED"] > MESSAGES / 4 and found["ignored"], found
    assert sum(found[kind] for kind in ("read", "MALFORMED", "NETWORK", "ignored")) > MESSAGES * 3 / 4, found


@pytest.mark.parametrize("qtype", damaged.RECORDS)
def test_undamaged_answers_are_read(qtype: str) -> None:
    """The messages that are damaged above are valid, to both."""
    domain = damaged.name(0)
    with damaged.serving({(domain, qtype): damaged.whole(domain, qtype)}) as port:
        ours = by_name(native([domain], port, "--attempts", "1", types=[qtype]))
        theirs = by_name(oracle([domain], port, 1, types=[qtype]))
    assert ours == theirs
    assert [row["status"] for row in ours[domain]] == ["NOERROR"] * len(damaged.RECORDS[qtype])
    assert {row["detail"] for row in ours[domain]} == {"EDE 3 (stale)"}
