"""The native engine against the Python one: the same questions to the same servers, and the rows compared."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import dns.rdatatype
import pytest

from firstflight.egress.permitted import Permitted
from firstflight.system import binaries
from scanner.resolver import answer
from scanner.resolver import rows as python_rows
from scanner.resolver.answer import QTYPES, HttpsRecord, QueryOutcome
from scanner.resolver.configured import Resolver
from scanner.resolver.names import Name
from scanner.resolver.pace import QueryPace
from scanner.resolver.query import QueryClient
from schemas import records
from tests.engines.segments import rows_of
from tests.free_port import free_port
from tests.resolve.named import Named
from tests.resolve.test_resolve_query import ANSWERED_S, answering

Row = dict[str, Any]
TRIES = 5

# Columns that are not compared: times differ, and only the native engine reads ECH configurations.
LEFT_OUT = {"asked_at", "duration_us", "https_ech_config_ids", "https_ech_public_names"}
COMPARED = [
    column.name
    for column in records.load("dns_answer").columns
    if column.source == "resolve" and column.name not in LEFT_OUT
]

NAMES = [
    *("www", "two", "v6only", "nodata", "alias", "dangling", "loop1", "outside", "aliasmode", "many", "nope"),
    *("_under_score", "xn--bcher-kva", "WWW", "Alias"),
]
ALL = [f"{name}.example.test" for name in NAMES] + ["x.broken.test", "other.invalid", "example.test"]

# The Python engine does not parse these records. Its rows have dnspython's text of each record.
OTHER_TYPES = ("CNAME", "NS", "MX", "TXT", "CAA")
OTHER_NAMES = [
    "types.test",
    *(f"{name}.types.test" for name in ("www", "far", "big", "more", "lame", "nope")),
]
TYPES_ZONE = {
    "types.test": r"""
@ IN MX 10 Mail
@ IN MX 20 mail.elsewhere.invalid.
@ IN TXT "one" "two words" "quote \" and \\ and \255"
@ IN CAA 128 issue "ca.test; policy=ev"
@ IN CAA 0 iodef "mailto:a@types.test"
www 50 IN CNAME @
far 40 IN CNAME Hop.cdn.test.
more 30 IN HTTPS 1 Svc mandatory=alpn,port alpn=h2 no-default-alpn port=444 key667=x
more 30 IN HTTPS 2 . ipv6hint=2001:db8::2
more 20 IN NS Ns1.elsewhere.invalid.
more 20 IN NS ns2.elsewhere.invalid.
lame IN NS ns.elsewhere.invalid.
"""
    + "".join(f'big 70 IN TXT "{letter * 250}" "{letter}"\n' for letter in "abcdef")
}


def run(names: Sequence[str], port: int, *more: str) -> subprocess.CompletedProcess[str]:
    """Run the program with names from a pipe."""
    program = [str(binaries.find("firstflight-resolve")), "--names", "-"]
    return subprocess.run(
        [*program, "--resolver", f"127.0.0.1:{port}", *more],
        input="".join(f"{name}\n" for name in names),
        capture_output=True,
        text=True,
        check=False,
    )


def native(names: Sequence[str], port: int, *more: str, types: Sequence[str] = QTYPES) -> list[Row]:
    """The rows of the program."""
    done = run(names, port, "--types", ",".join(types), "--timeout", str(ANSWERED_S), *more)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class Text(str):
    """The data of a record of OTHER_TYPES, as rows hold it."""


def oracle(
    names: Sequence[str],
    port: int,
    attempts: int,
    timeout_s: float = ANSWERED_S,
    types: Sequence[str] = QTYPES,
) -> list[Row]:
    """The rows of the Python engine, which is taught the records of OTHER_TYPES."""
    record, columns = answer._record, python_rows._record

    def read(rdata: Any) -> str | HttpsRecord:
        if (qtype := dns.rdatatype.to_text(rdata.rdtype)) not in OTHER_TYPES:
            return record(rdata)
        text = rdata.to_text()
        return Text(text.lower().removesuffix(".") if qtype in ("CNAME", "NS", "MX") else text)

    def fill(value: str | HttpsRecord) -> Row:
        return {"data": value} if isinstance(value, Text) else columns(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answer, "_record", read)
        patch.setattr(python_rows, "_record", fill)
        return _asked_by_python(names, types, Resolver("127.0.0.1", port, timeout_s, attempts))


def _asked_by_python(names: Sequence[str], types: Sequence[str], resolver: Resolver) -> list[Row]:
    async def ask() -> list[dict[str, QueryOutcome]]:
        async def ask_name(name: str) -> dict[str, QueryOutcome]:
            asker = QueryClient(resolver, QueryPace(10_000).turn, Permitted([], []))
            try:
                return {qtype: await asker.ask(name, qtype) for qtype in types}
            finally:
                await asker.close()

        return list(await asyncio.gather(*(ask_name(name) for name in names)))

    found = asyncio.run(ask())
    common = {"resolver": resolver.label}
    empty = dict.fromkeys(COMPARED)
    return [
        empty | row
        for name, outcomes in zip(names, found, strict=True)
        for row in python_rows.rows(Name(None, name, ""), outcomes, common)
    ]


def comparable(found: list[Row]) -> list[str]:
    """Return the rows without times, in an order that does not depend on the answers' arrival."""
    places = ("answer_rank",)
    texts = []
    for row in found:
        compared = {name: row[name] for name in COMPARED}
        # BIND returns the records in a set in any order.
        texts.append(json.dumps({name: value for name, value in compared.items() if name not in places}))
    return sorted(texts)


@pytest.fixture(scope="module")
def types_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    server = Named(tmp_path_factory.mktemp("types"), TYPES_ZONE)
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("attempts", [1, 2])
def test_both_engines_give_the_same_rows(types_server: Named, attempts: int) -> None:
    """Of every type: answers of each status, chains, answers over TCP, referrals."""
    names, types = ALL + OTHER_NAMES, (*QTYPES, *OTHER_TYPES)
    ours = native(names, types_server.port, "--attempts", str(attempts), types=types)
    theirs = oracle(names, types_server.port, attempts, types=types)
    assert len(ours) == len(theirs)
    assert comparable(ours) == comparable(theirs)
    assert {(row["domain"], row["qtype"]) for row in ours} == {(name, q) for name in names for q in types}
    ranks: dict[tuple[str, str], set[int | None]] = {}
    for row in ours:
        ranks.setdefault((row["domain"], row["qtype"]), set()).add(row["answer_rank"])
    for found in ranks.values():
        assert found in ({None}, set(range(len(found))))
    # Each type has records and every status that a server can return. One TXT answer is too long for UDP.
    assert {row["qtype"] for row in ours if row["answer_rank"] is not None} == set(types)
    statuses = {"NOERROR", "NODATA", "NXDOMAIN", "SERVFAIL", "REFUSED"}
    for qtype in types:
        assert statuses <= {row["status"] for row in ours if row["qtype"] == qtype}, qtype
    assert {(row["qtype"], row["transport"]) for row in ours} >= {("A", "tcp"), ("TXT", "tcp")}


def test_every_column_is_filled(named: Named) -> None:
    wanted = [c.name for c in records.load("dns_answer").columns if c.source == "resolve"]
    assert list(native(["www.example.test"], named.port)[0]) == wanted


def test_a_resolver_over_ipv6_by_the_command(named: Named) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli", "resolve", "--names", "-", "--resolver", f"[::1]:{named.port}"],
        input="many.example.test\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["resolver"] for row in found} == {f"::1#{named.port}"}
    assert sum(row["address"] is not None for row in found) == 90
    assert {row["transport"] for row in found if row["qtype"] == "A"} == {"tcp"}


def test_rows_are_written_while_names_are_read(named: Named) -> None:
    program = [str(binaries.find("firstflight-resolve")), "--names", "-", "--types", "A"]
    with subprocess.Popen(
        [*program, "--resolver", f"127.0.0.1:{named.port}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for name in ("www.example.test", "nope.example.test"):
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["domain"] == name
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        bytes(3),
        b"\x81\x80" + b"\xff" * 40,
        b"\x81\x80\x00\x01" + bytes(6) + b"\xc0\x0c\x00\x01\x00\x01",
        b"\x81\x80\x00\x02" + bytes(20),
    ],
)
def test_both_engines_call_a_broken_answer_malformed(answer: bytes) -> None:
    with answering(answer) as port:
        ours = native(["www.example.test"], port, "--attempts", "1")
        theirs = oracle(["www.example.test"], port, 1)
    for found in (ours, theirs):
        assert [(row["qtype"], row["status"], row["attempts"]) for row in found] == [
            (qtype, "MALFORMED", 1) for qtype in QTYPES
        ]
    assert all(row["detail"] for row in ours)


def test_an_answer_without_its_question_is_ignored() -> None:
    """Neither engine accepts it as an answer. For the native engine, the resolver is then silent."""
    with answering(b"\x81\x80" + bytes(8)) as port:
        theirs = oracle(["www.example.test"], port, 1, 0.2)
        done = run(["www.example.test"], port, "--timeout", "8", "--attempts", "1")
    assert {row["status"] for row in theirs} == {"TIMEOUT"}
    assert (done.returncode, done.stdout) == (3, "")
    # Every question is answered within the timeout; on a busy machine at least one.
    assert re.search(r" [123] answer another one", done.stderr), done.stderr


def test_a_silent_resolver_is_named() -> None:
    with answering(None) as port:
        done = run(["www.example.test"], port, "--timeout", "0.1")
    assert done.returncode == 3
    assert "does not answer (no answer within 0.1 s, 3 tries)" in done.stderr
    assert done.stdout == ""


def test_the_resolver_that_is_down_is_named() -> None:
    port = free_port()
    done = run(["www.example.test"], port)
    assert done.returncode == 3
    assert f"127.0.0.1, port {port}, does not answer (Connection refused" in done.stderr


def test_rate_is_kept(named: Named) -> None:
    """The rate is never exceeded, and nearly reached in at least one try: a busy machine slows tries."""
    for _ in range(TRIES):
        start = time.monotonic()
        rows = native(["www.example.test"] * 50, named.port, "--rate", "100")
        times = sorted(row["asked_at"] for row in rows)
        # 150 queries at 100 per second; the first is sent immediately.
        assert time.monotonic() - start >= 1.49
        assert len(times) == 150
        assert slow([at * 2 for at in times], 100), "the same questions at half the rate"
        if not slow(times, 100):
            return
    raise AssertionError(f"slow in each of {TRIES} runs")


def slow(times: Sequence[int], rate: int) -> bool:
    """Return whether questions left at much less than a rate, judged by the median time of ten questions.

    After a stall, delayed questions follow faster. At half the rate, any ten questions take twice as long.
    """
    return median(after - before for before, after in zip(times, times[10:], strict=False)) > 14e9 / rate


def test_another_list_or_other_types_are_not_resumed(named: Named, tmp_path: Path) -> None:
    names = ["www.example.test", "two.example.test"]
    options = ("--segments", str(tmp_path / "segments"), "--timeout", str(ANSWERED_S))
    assert run(names, named.port, *options, "--types", "A,AAAA").returncode == 0
    rows = rows_of(tmp_path / "segments")
    other_list = (
        "line 1 of standard input differs from the list of the segments; give the list of the first run"
    )
    for listed, types, status, message in [
        (["nope.example.test", *names], "A,AAAA", 2, other_list),
        (names[1:], "A,AAAA", 2, other_list),
        (names[:1], "A,AAAA", 2, other_list.replace("line 1", "line 2")),
        (names, "A", 2, "line 1 of the names was asked for A,AAAA; give the --types of the first run"),
        (names, "AAAA,A", 0, ""),
    ]:
        done = run(listed, named.port, *options, "--types", types, "--resume")
        assert (done.returncode, message in done.stderr) == (status, True), done.stderr
    assert rows_of(tmp_path / "segments") == rows


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        (["--resolver", "nowhere"], 2, "write it like 192.0.2.53"),
        (["--resolver", "224.0.0.251"], 2, "is not the address of a single host"),
        (["--resolver", "198.18.0.53"], 2, "is an address of the lab, and this is not the lab"),
        (["--resolver", "127.0.0.1", "--resolver", "127.0.0.1:53"], 2, "is given twice"),
        (["--resolver", "127.0.0.1", "--blocklist", "LIST"], 2, "on the block list; nothing was sent"),
        (["--resolver", "127.0.0.1", "--names", "/nonexistent"], 2, "cannot be used multiple times"),
        (
            ["--resolver", "9.9.9.9", "--dry-run"],
            0,
            "9.9.9.9 would be queried for A, AAAA, HTTPS, at most 200",
        ),
        (["--resolver", "127.0.0.1", "--dry-run"], 0, "without a rate limit"),
    ],
)
def test_refused_questions_are_not_sent(tmp_path: Path, more: list[str], status: int, message: str) -> None:
    (tmp_path / "list").write_text("127.0.0.0/8\n")
    (tmp_path / "names").write_text("www.example.test\n")
    more = [str(tmp_path / "list") if word == "LIST" else word for word in more]
    program = [str(binaries.find("firstflight-resolve")), "--names", str(tmp_path / "names")]
    done = subprocess.run([*program, *more], capture_output=True, text=True, check=False)
    assert (done.returncode, message in done.stderr) == (status, True), done.stderr
    assert done.stdout == ""
