"""Commands that start an engine: their arguments, lists of names, and the text of rows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cli.engines import arguments, name_lists
from cli.main import COMMANDS, native_program
from cli.measure import handshake, probe, resolve, tcp_options
from firstflight.system import binaries
from schemas import records

ENGINES = {name: program for name in COMMANDS if (program := native_program(name)) and name != "dissect"}


@pytest.mark.parametrize("program", ENGINES.values())
def test_options_without_a_value_are_those_of_the_help(program: str) -> None:
    done = subprocess.run([binaries.find(program), "--help"], capture_output=True, text=True, check=True)
    written = dict(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)( <|  |$)", done.stdout, re.MULTILINE))
    flags = {name for name, value in written.items() if value != " <"} - {"--help", "--version"}
    assert len(written) > 15 and flags <= arguments.FLAGS
    assert not {name for name in arguments.FLAGS & written.keys() if written[name] == " <"}


def test_every_flag_is_one_of_an_engine() -> None:
    helps = [
        subprocess.check_output([binaries.find(program), "--help"], text=True) for program in ENGINES.values()
    ]
    assert all(
        any(re.search(rf"{flag}(  |$)", shown, re.MULTILINE) for shown in helps) for flag in arguments.FLAGS
    )


@pytest.mark.parametrize(
    ("given", "names", "rest"),
    [
        ("a.test --rate 5 b.test", ("a.test", "b.test"), ["--rate=5"]),
        ("--dry-run a.test --contact=me", ("a.test",), ["--dry-run", "--contact=me"]),
        ("--rate -1 a.test", ("a.test",), ["--rate=-1"]),
        ("--rate 5 -- a.test --b", ("a.test", "--b"), ["--rate=5"]),
        ("--version reserved a.test", ("a.test",), ["--version=reserved"]),
        ("a.test --rate", ("a.test",), ["--rate"]),
        ("--resolver 192.0.2.1 --resolver=192.0.2.2", (), ["--resolver=192.0.2.1", "--resolver=192.0.2.2"]),
    ],
)
def test_arguments_are_split(given: str, names: tuple[str, ...], rest: list[str]) -> None:
    read = arguments.read(given.split())
    assert (read.names, read.without(), read.ask_for_help) == (names, rest, False)


@pytest.mark.parametrize("given", ["--help", "-h", "-V", "--version", "--version --rate 1", "a.test --help"])
def test_help_is_the_engine_s(given: str) -> None:
    assert arguments.read(given.split()).ask_for_help


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a.test\n", True),
        ("\n# ours\n1,a.test\n", True),
        ("domain\na.test\n", True),
        ("Domain,rank\na.test,1\n", True),
        ("\ufeffbücher.test\n", True),
        ("ip,domain,port\n1.2.3.4,a.test,\n", False),
        ("domain,ip\na.test,1.2.3.4\n", False),
        ("1.2.3.4\n", False),
        ("1.2.3.4,a.test,443\n", False),
        ("ip,port\n1.2.3.4,443\n", False),
        ("", False),
        (None, False),
    ],
)
def test_a_list_of_names_is_recognised(tmp_path: Path, content: str | None, expected: bool) -> None:
    path = tmp_path / "list"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert name_lists.holds_names(path) is expected


@pytest.mark.parametrize(
    ("content", "names", "rejected"),
    [
        ("A.test\n\na.test # twice\nb.test\n", ["a.test", "b.test"], []),
        ("2,a.test\n1,2,b.test\nx,b.test\n", ["a.test"], [2, 3]),
        ('Note,Domain\n"one, two",a.test\nnothing\n', ["a.test"], [3]),
        ("domain\n127.0.0.1\na.test\n", ["a.test"], [2]),
    ],
)
def test_a_list_of_names_is_read(tmp_path: Path, content: str, names: list[str], rejected: list[int]) -> None:
    path = tmp_path / "list"
    path.write_text(content, encoding="utf-8")
    found = name_lists.read(path)
    assert (found.names, [number for number, _ in found.rejected]) == (names, rejected)


def row(kind: str, **values: Any) -> dict[str, Any]:
    """Return a row with these values. By default, lists are empty, `attempts` is 1, and others are null."""
    columns = records.load(kind).columns
    empty: dict[str, Any] = {
        column.name: [] if column.type.startswith("list") else None for column in columns
    }
    return empty | {"attempts": 1, "retried": False, "hello_retry": False} | values


PROBES = [
    (
        {"outcome": "iack", "ack_us": 3149, "sh_us": 6949, "ack_to_sh_us": 3800},
        "instant ACK after 3.1 ms, ServerHello 3.8 ms later",
    ),
    (
        {"outcome": "coalesced", "ack_us": 0, "sh_us": 0, "retried": True, "attempts": 2},
        "ACK and ServerHello together after 0.0 ms, after a Retry, connection 2",
    ),
    ({"outcome": "coalesced"}, "ACK and ServerHello together after an unknown time"),
    ({"outcome": "timeout", "attempts": 2}, "no answer to 2 connections"),
    (
        {"outcome": "closed", "close_code": 2, "close_reason": "busy"},
        "closed by the server with 0x2: busy",
    ),
    ({"outcome": "blocked", "detail": "on a list"}, "not contacted: on a list"),
    ({"outcome": "refused"}, "refused"),
    (
        {"outcome": "ack_only", "ack_us": 900, "retransmissions": 2, "listened_s": 1.5},
        "ACK after 0.9 ms, no ServerHello, 2 retransmissions in 1.5 s",
    ),
]
HANDSHAKES = [
    (
        {"outcome": "done", "handshake_us": 9000, "alpn": "h3", "status": 200, "response_us": 12_340},
        "handshake after 9.0 ms, h3, status 200 after 12.3 ms",
    ),
    (
        {"outcome": "done", "handshake_us": 9000, "http": "no_response", "name_matches": False},
        "handshake after 9.0 ms, HTTP no response, the certificate is for another name",
    ),
    (
        {"outcome": "handshake_failed", "alert": 40, "alert_by": "server"},
        "handshake failed: TLS alert 40 from the server",
    ),
    ({"outcome": "timeout", "stage": "sent"}, "no answer"),
    ({"outcome": "timeout", "stage": "server_hello"}, "not complete in time, after server_hello"),
]
TCP = [
    (
        {"outcome": "answered", "rtt_us": 1500, "mss": 1460, "sack": True, "ecn": False},
        "SYN-ACK after 1.5 ms, segments of 1460 bytes, SACK, no ECN",
    ),
    ({"outcome": "unreachable", "detail": "no route"}, "unreachable: no route"),
]
ANSWERS = [
    ({"answer_rank": 0, "address": "192.0.2.1", "ttl": 60}, "192.0.2.1, for 60 s"),
    (
        {"answer_rank": 0, "https_priority": 1, "https_target": ".", "https_alpn": ["h3", "h2"], "ttl": 0},
        "1 . alpn=h3,h2, for 0 s",
    ),
    ({"status": "NXDOMAIN", "cname_chain": ["b.test"]}, "no such name (NXDOMAIN), alias of b.test"),
    ({"status": "SERVFAIL", "detail": "EDE 22"}, "SERVFAIL, EDE 22"),
]
CASES = {"quic_probe": PROBES, "quic_handshake": HANDSHAKES, "tcp_option": TCP, "dns_answer": ANSWERS}
TEXTS = {
    "quic_probe": probe.text,
    "quic_handshake": handshake.text,
    "tcp_option": tcp_options.text,
    "dns_answer": resolve.text,
}


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [(kind, values, text) for kind, cases in CASES.items() for values, text in cases],
)
def test_a_row_has_a_text(kind: str, values: dict[str, Any], expected: str) -> None:
    assert TEXTS[kind](row(kind, **values)) == expected


@pytest.mark.parametrize("kind", CASES)
def test_every_outcome_has_a_text(kind: str) -> None:
    """No text needs a value that the outcome's rows do not have."""
    name = "status" if kind == "dns_answer" else "outcome"
    (column,) = [described for described in records.load(kind).columns if described.name == name]
    assert column.values
    for outcome in column.values:
        assert TEXTS[kind](row(kind, **{name: outcome})) != ""
