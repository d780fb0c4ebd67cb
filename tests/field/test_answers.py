"""Servers' answers that no stack sends: SYN-ACKs, DNS messages, and lists of names.

Each case has the expected value and its source.
"""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID, NameOID

from firstflight.egress.permitted import Permitted
from firstflight.errors import UsageError
from firstflight.host_names import NotAName, normalise
from firstflight.system import binaries
from scanner.imports import certificates
from scanner.resolver.configured import Resolver
from scanner.resolver.pace import QueryPace
from scanner.resolver.query import QueryClient
from store.address import url
from tests.field.responders import (
    ACK,
    AE,
    ALLOW,
    CWR,
    ECE,
    SYN,
    TCP,
    UDP,
    IpPacket,
    datagram,
    reset,
    responding,
    syn_ack,
)
from tests.waiting import PATIENCE_S

NAMES = Path(__file__).with_name("names.json")
Row = dict[str, Any]


def program(name: str, *arguments: object, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a native program."""
    argv = [str(binaries.find(name)), *map(str, arguments)]
    return subprocess.run(argv, input=given, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def lines(done: subprocess.CompletedProcess[str]) -> list[Row]:
    """Return the rows in a program's standard output."""
    return [json.loads(line) for line in done.stdout.splitlines()]


# --- ECN in the answer to a SYN with ECE and CWR ---

RFC_3168 = "RFC 3168 6.1.1: an ECN-setup SYN-ACK has ECE and not CWR"
SYN_ACKS = {
    # Address of the server: flags besides SYN and ACK, whether ECN is agreed, source.
    "10.77.1.1": (0, False, RFC_3168),
    "10.77.1.2": (ECE, True, RFC_3168),
    "10.77.1.3": (CWR, False, RFC_3168),
    "10.77.1.4": (ECE | CWR, False, RFC_3168 + "; a server that reflects reserved bits has both"),
    "10.77.1.5": (AE, False, RFC_3168),
    "10.77.1.6": (AE | CWR, False, RFC_3168),
    "10.77.1.7": (AE | ECE, True, RFC_3168 + "; AE is a reserved bit there"),
    "10.77.1.8": (AE | ECE | CWR, False, RFC_3168 + "; RFC 9768 3.1.2 calls it broken"),
    "fd77::1:2": (ECE, True, RFC_3168),
    "fd77::1:3": (CWR, False, RFC_3168),
}


# Resets a SYN that offers ECN, in a way that clients ignore, and answers the next SYN, which offers no ECN.
RESETS_ECN = "10.77.1.20"


@dataclass
class SurveyRows:
    """Rows of the survey and of the dissector by server."""

    rows: dict[str, Row]
    flows: dict[tuple[str, int], Row]
    status: int


def by_table(packet: IpPacket) -> Iterator[bytes]:
    if packet.protocol != TCP or packet.flags & (SYN | ACK) != SYN:
        return
    if packet.server in SYN_ACKS:
        yield syn_ack(packet, SYN_ACKS[packet.server][0])
    elif packet.server == RESETS_ECN:
        yield reset(packet) if packet.flags & (ECE | CWR) else syn_ack(packet, 0)


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> SurveyRows:
    """The survey's rows of all servers, and the dissector's rows of the capture."""
    folder = tmp_path_factory.mktemp("ecn")
    targets, pcap = folder / "targets.csv", folder / "survey.pcap"
    targets.write_text("ip,domain,port\n" + "".join(f"{ip},,\n" for ip in (*SYN_ACKS, RESETS_ECN)))
    setting = Path("/proc/sys/net/ipv4/tcp_ecn")
    before = setting.read_text()
    setting.write_text("1")
    try:
        with responding(by_table, pcap):
            limits = ("--per-address-rate", 0, "--per-prefix-rate", 0, "--timeout", 5)
            done = program("firstflight-tcp-options", "--targets", targets, *ALLOW, *limits)
    finally:
        setting.write_text(before)
    dissected = program("firstflight-dissect", pcap, "--kind", "tcp_flow")
    flows = {(flow["server_ip"], flow["client_port"]): flow for flow in lines(dissected)}
    return SurveyRows({row["ip"]: row for row in lines(done)}, flows, done.returncode)


@pytest.mark.parametrize(("server", "expected"), [(ip, case[1]) for ip, case in SYN_ACKS.items()])
def test_ecn_is_agreed_as_rfc_3168_says_and_as_the_dissector_reads(
    survey: SurveyRows, server: str, expected: bool
) -> None:
    row = survey.rows[server]
    assert (row["outcome"], row["ecn"]) == ("answered", expected)
    # The other options are known for every server.
    assert (row["sack"], row["timestamps"], row["wscale"], row["mss"]) == (True, False, 7, 1460)
    flow = survey.flows[server, row["src_port"]]
    found = (flow["ecn_setup_client"], flow["ecn_setup_server"], flow["sack_permitted_server"])
    assert found == (True, row["ecn"], row["sack"])
    assert survey.status == 0


def test_a_segment_that_the_kernel_drops_says_nothing_of_ecn(survey: SurveyRows) -> None:
    """RFC 3168 6.1.1.1: a retransmitted SYN does not offer ECN, so its answer does not show support."""
    row = survey.rows[RESETS_ECN]
    found = (row["outcome"], row["ecn"], row["syn_retransmissions"], row["connects"])
    assert found == ("answered", None, 1, 3)


# --- DNS messages ---

RFC_9460 = "RFC 9460 2.4.2: recipients ignore the parameters of a record in AliasMode"
RFC_2308 = "RFC 2308 2.2: name servers alone in the authority section are a referral"
ALIAS = b"\0\0\4edge\4test\0"


@dataclass(frozen=True)
class AnswerCase:
    """A server's answer, and the columns of the expected rows."""

    qtype: str
    answers: tuple[bytes, ...]
    expected: Row
    source: str
    rows: int = 1
    name_servers: tuple[str, ...] = ()
    flags: int = dns.flags.QR | dns.flags.RD
    behind: bytes = b""


def addresses(count: int) -> tuple[bytes, ...]:
    return tuple(struct.pack("!I", 0x0A4D0000 + n) for n in range(count))


ONE = addresses(1)
CASES = {
    "alias-alpn": AnswerCase(
        "HTTPS",
        (ALIAS + b"\0\1\0\3\2h3",),
        {"status": "NOERROR", "https_priority": 0, "https_target": "edge.test", "https_alpn": []},
        RFC_9460,
    ),
    "alias-mandatory": AnswerCase(
        "HTTPS", (ALIAS + b"\0\0\0\2\0\1",), {"status": "NOERROR", "https_priority": 0}, RFC_9460
    ),
    "alias-disorder": AnswerCase(
        "HTTPS", (ALIAS + b"\0\4\0\1x\0\1\0\0",), {"status": "NOERROR", "https_ipv4hint": []}, RFC_9460
    ),
    "service-disorder": AnswerCase(
        "HTTPS",
        (b"\0\1\0" + b"\0\3\0\2\0\1\0\1\0\3\2h3",),
        {"status": "MALFORMED"},
        "RFC 9460 2.2: keys are in increasing order, else the record is malformed",
    ),
    "referral": AnswerCase("A", (), {"status": "REFERRAL", "rcode": 0}, RFC_2308, name_servers=("test.",)),
    "referral-upward": AnswerCase("AAAA", (), {"status": "REFERRAL"}, RFC_2308, name_servers=(".",)),
    "nodata": AnswerCase("A", (), {"status": "NODATA"}, "RFC 2308 2.2: nothing at all is NODATA"),
    "behind-1": AnswerCase(
        "A",
        ONE,
        {"status": "NOERROR", "address": "10.77.0.0", "detail": "1 bytes follow the message"},
        "RFC 1035 4.1: a message ends with its last record; BIND and unbound read it",
        behind=b"\0",
    ),
    "behind-200": AnswerCase("A", ONE, {"status": "NOERROR"}, "RFC 1035 4.1", behind=b"\xff" * 200),
    "many": AnswerCase(
        "A",
        addresses(3000),
        {"status": "NOERROR", "records_left_out": 2900},
        "BIND's max-records-per-type is 100",
        rows=100,
    ),
    "not-many": AnswerCase(
        "A", addresses(100), {"status": "NOERROR", "records_left_out": 0}, "the same", rows=100
    ),
}


def message(query: bytes) -> bytes:
    """Return the answer to a question for `CASE.test`, or for the root."""
    parsed_query = dns.message.from_wire(query)
    (question,) = parsed_query.question
    name = question.name.labels[0].decode().lower()
    answer = dns.message.make_response(parsed_query)
    case = CASES.get(name)
    if case is None:
        return answer.to_wire()
    answer.flags = dns.flags.Flag(case.flags)
    records = dns.rrset.RRset(question.name, dns.rdataclass.IN, question.rdtype)
    for data in case.answers:
        records.add(dns.rdata.GenericRdata(dns.rdataclass.IN, question.rdtype, data), 60)
    if case.answers:
        answer.answer.append(records)
    for zone in case.name_servers:
        answer.authority.append(dns.rrset.from_text(zone, 60, "IN", "NS", "ns.elsewhere.test."))
    return answer.to_wire(max_size=65_535) + case.behind


def as_resolver(packet: IpPacket) -> Iterator[bytes]:
    if packet.protocol == UDP and packet.ports[1] == 53:
        yield datagram(packet, message(packet.payload[8:]))


RESOLVER = "10.77.0.53"


@pytest.fixture(scope="module")
def resolved() -> dict[tuple[str, str], list[Row]]:
    """The rows of every case by domain and type."""
    names = "".join(f"{name}.test\n" for name in CASES)
    options = ("--types", "A,AAAA,HTTPS", "--resolver", RESOLVER, "--attempts", 1, "--timeout", 20)
    with responding(as_resolver):
        done = program("firstflight-resolve", "--names", "-", *options, *ALLOW, given=names)
    assert done.returncode == 0, done.stderr
    found: dict[tuple[str, str], list[Row]] = {}
    for row in lines(done):
        found.setdefault((row["domain"], row["qtype"]), []).append(row)
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_message_says_what_the_standards_say(resolved: dict[tuple[str, str], list[Row]], name: str) -> None:
    case = CASES[name]
    rows = resolved[f"{name}.test", case.qtype]
    assert len(rows) == case.rows, case.source
    for row in rows[1:]:
        assert row["status"] == "NOERROR"
    found = {column: rows[0][column] for column in case.expected}
    assert found == case.expected, case.source


def test_the_resolver_of_the_watch_says_the_same() -> None:
    """The watch uses the Python engine, which only looks up addresses."""
    resolver = Resolver(RESOLVER, timeout_s=20.0, attempts=1)

    async def ask(names: list[str]) -> dict[str, tuple[str, int, int]]:
        asker = QueryClient(resolver, QueryPace(None).turn, Permitted([], []))
        try:
            found = {name: await asker.ask(f"{name}.test", CASES[name].qtype) for name in names}
        finally:
            await asker.close()
        return {name: (answer.status, len(answer.records), answer.left_out) for name, answer in found.items()}

    names = [name for name, case in CASES.items() if case.qtype in ("A", "AAAA")]
    with responding(as_resolver):
        found = asyncio.run(ask(names))
    assert found == {
        name: (
            CASES[name].expected["status"],
            min(len(CASES[name].answers), 100),
            CASES[name].expected.get("records_left_out", 0),
        )
        for name in names
    }


# --- Certificates of other scanners' results ---


def test_a_certificate_with_an_odd_extension_keeps_its_other_fields() -> None:
    """RFC 5280 4.1: its fields are separate; subject alternative names are an INTEGER here."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a.test")])
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    odd = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"\2\1\5")
    made = x509.CertificateBuilder(name, name, key.public_key(), 7, moment, moment).add_extension(odd, False)
    found = certificates.describe(made.sign(key, hashes.SHA256()).public_bytes(Encoding.DER))
    assert (found["subject"], found["serial"], found["key_algorithm"]) == ("CN=a.test", "07", "ec_p256")
    assert (found["not_before"], found["sans"]) == (int(moment.timestamp()) * 10**9, "[]")
    assert found["error"].startswith("subject alternative name does not parse")


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((b"300230000000Z", b"310101000000Z"), (None, 2031, "not_before is no date")),
        ((b"300101000000Z", b"311301000000Z"), (2030, None, "not_after is no date")),
        ((b"aaaaaaaaaaaaZ", b"300101250000Z"), (None, None, "not_before is no date; not_after is no date")),
    ],
)
def test_a_certificate_with_an_impossible_date_keeps_its_other_fields(
    times: tuple[bytes, bytes], expected: tuple[int | None, int | None, str]
) -> None:
    """RFC 5280 4.1.2.5: neither has February 30 days nor a year 13 months; the other fields are right."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a.test")])
    first, last = (datetime(year, 1, 1, tzinfo=UTC) for year in (2030, 2031))
    made = x509.CertificateBuilder(name, name, key.public_key(), 7, first, last).sign(key, hashes.SHA256())
    der = made.public_bytes(Encoding.DER)
    der = der.replace(b"300101000000Z", times[0]).replace(b"310101000000Z", times[1])
    found = certificates.describe(der)
    years = [
        None if ns is None else datetime.fromtimestamp(ns // 10**9, UTC).year
        for ns in (found["not_before"], found["not_after"])
    ]
    assert (*years, found["error"]) == expected
    assert (found["subject"], found["serial"], found["sans"]) == ("CN=a.test", "07", "[]")
    assert (found["key_algorithm"], found["scts"]) == ("ec_p256", 0)


# --- Lists of names ---


def test_every_command_takes_the_same_names() -> None:
    """The engines' table (names.json) by the reader of the lists and the crawl."""
    for case in json.loads(NAMES.read_text()):
        text = case["text"] * case.get("times", 1)
        try:
            normalise(text)
            taken = True
        except NotAName:
            taken = False
        assert taken == (case["fault"] is None), text


def test_invalid_names_are_rejected_with_line_and_reason() -> None:
    """A line in a Tranco list, a URL, a port, addresses: `resolve` sends no question for any such line."""
    given = ["1,a.test", "https://b.test/", "c.test:443", "192.0.2.1", "2001:db8::1", "d.test", "# e.test"]
    reasons = ["several fields", "URL", "port", "address", "address"]
    options = ("--types", "A", "--resolver", RESOLVER, "--attempts", 1, "--timeout", 20)
    with responding(as_resolver):
        text = "".join(f"{line}\n" for line in given)
        done = program("firstflight-resolve", "--names", "-", *options, *ALLOW, given=text)
    assert (done.returncode, [row["domain"] for row in lines(done)]) == (1, ["d.test"]), done.stderr
    for line, reason in enumerate(reasons, start=1):
        (warning,) = [text for text in done.stderr.splitlines() if f"line {line} rejected" in text]
        assert reason in warning


# --- The store's address ---

UNESCAPED = "RFC 3986 3.2.1: the user information ends before the first /, ? or #"


@pytest.mark.parametrize(
    "password",
    ["pa/ss", "pa?ss", "pa#ss", "1234/ss", "p@a/ss", "p@a#ss", "p@a?ss", "pa?s=ss", "/", "#"],
)
def test_a_password_that_ends_the_address_is_refused_and_not_shown(password: str) -> None:
    text = f"clickhouse://user:{password}@store.test:9000/quic"
    with pytest.raises(UsageError) as caught:
        url.parse(text, "quic")
    message = str(caught.value)
    shown = [part for part in ("pa/", "pa?", "pa#", "p@a", "1234", "s@", "user:") if part in message]
    assert ("%2F" in message, shown) == (True, []), UNESCAPED


@pytest.mark.parametrize(
    ("text", "password"),
    [
        ("clickhouse://user:pa%2Fs%23%3Fs@store.test:9000/quic", "pa/s#?s"),
        ("clickhouse://user:p@ss@store.test/quic", "p@ss"),
        ("clickhouse://store.test/quic?compression=zstd", ""),
    ],
)
def test_a_password_that_is_escaped_is_read(text: str, password: str) -> None:
    found = url.parse(text, "quic")
    assert (found.host, found.password, found.database) == ("store.test", password, "quic")
