"""Tables of targets, option sets, outcomes and limits of clients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from downloader import downloads, option_sets
from downloader.clients import curl
from downloader.clients.contract import ClientAnswer, Request
from downloader.files import targets
from downloader.files.targets import Resolved
from downloader.option_sets import SETS
from downloader.results import outcome
from downloader.transfers import http3, session
from downloader.transfers.http3 import Capable, HeadClient
from downloader.transfers.session import Limits, Session, Withdrawn
from downloader.transfers.worker import Worker
from firstflight.egress.permitted import Permitted
from firstflight.egress.user_agent import user_agent
from firstflight.errors import FirstflightError, InputError, UsageError
from tests.attack.servers.evil_https import serving
from tests.waiting import until

HOST = "files.download.test"


@pytest.mark.parametrize(
    ("url", "ip", "expected"),
    [
        (
            "https://a.test/x?y=1#z",
            "192.0.2.1",
            ("https://a.test/x?y=1", "a.test", "192.0.2.1", 443, "/x?y=1"),
        ),
        (
            "https://A.Test.:8443",
            "2001:DB8::0:1",
            ("https://a.test:8443/", "a.test", "2001:db8::1", 8443, "/"),
        ),
        (" https://a.test/ ", "", ("https://a.test/", "a.test", "", 443, "/")),
        ("https://wiki", "10.1.2.3", ("https://wiki/", "wiki", "10.1.2.3", 443, "/")),
    ],
)
def test_a_target(url: str, ip: str, expected: tuple[Any, ...]) -> None:
    found = targets.of(2, url, ip)
    assert (found.url, found.domain, found.ip, found.port, found.path) == expected


@pytest.mark.parametrize(
    ("url", "ip", "fault"),
    [
        ("http://a.test/", "192.0.2.1", "does not begin with https://"),
        ("https://a.test/ä", "192.0.2.1", "characters that a URL cannot hold"),
        ("https://a.test/a b", "192.0.2.1", "characters that a URL cannot hold"),
        ("https://u:p@a.test/", "192.0.2.1", "names a user"),
        ("https://192.0.2.1/", "192.0.2.1", "has no host name"),
        ("https://[2001:db8::1]/", "192.0.2.1", "has no host name"),
        ("https:///x", "192.0.2.1", "has no host name"),
        ("https://a..test/x", "192.0.2.1", "has no host name"),
        ("https://2130706433/x", "192.0.2.1", "has no host name"),
        ("https://a.test:0/", "192.0.2.1", "has port 0"),
        ("https://a.test:70000/", "192.0.2.1", "Port out of range"),
        ("https://a.test/", "192.0.2.256", "does not appear to be an IPv4 or IPv6 address"),
        ("https://a.test/", "fe80::1%eth0", "names an interface"),
        ("https://a.test/" + "x" * 2000, "192.0.2.1", "more than 2000 characters"),
        ("", "192.0.2.1", "does not begin with https://"),
    ],
)
def test_an_invalid_line(url: str, ip: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        targets.of(2, url, ip)


@pytest.mark.parametrize("text", ["ip,domain\n", "", "url\nhttps://a.test/\n"])
def test_a_list_without_its_header(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match="line 1: expected the header url,ip"):
        list(targets.read(tmp_path / "t.csv"))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_list_with_a_byte_order_mark(tmp_path: Path, mark: str) -> None:
    (tmp_path / "t.csv").write_text(f"{mark}url,ip\nhttps://a.test/,192.0.2.1\n", encoding="utf-8")
    assert list(targets.read(tmp_path / "t.csv")) == [targets.of(2, "https://a.test/", "192.0.2.1")]


def test_a_list_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"url,ip\n\xff\xfe,\n")
    with pytest.raises(InputError, match="cannot read"):
        list(targets.read(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("name", "ecn", "sack", "scaling", "clamp"),
    [
        ("warmup", "0", "0", "0", None),
        ("bl", "0", "0", "0", None),
        ("ecn", "1", "0", "0", None),
        ("sack", "0", "1", "0", None),
        ("ws14", "0", "0", "1", 65535 << 14),
        ("ws14_sack", "0", "1", "1", 65535 << 14),
        ("ws14_ecn", "1", "0", "1", 65535 << 14),
        ("all14", "1", "1", "1", 65535 << 14),
        ("all7", "1", "1", "1", 65535 << 7),
    ],
)
def test_settings_of_a_set(name: str, ecn: str, sack: str, scaling: str, clamp: int | None) -> None:
    """Each setting is explicit, so the machine's defaults do not matter."""
    option_set = SETS[name]
    found = option_set.sysctls()
    assert found["ipv4/tcp_ecn"] == ecn
    assert found["ipv4/tcp_sack"] == sack
    assert found["ipv4/tcp_window_scaling"] == scaling
    assert found["ipv4/tcp_timestamps"] == "1"
    assert found["ipv4/tcp_fastopen"] == "0"
    assert option_set.window_clamp == clamp


@pytest.mark.parametrize(
    ("text", "expected"),
    [("bl", ["warmup", "bl"]), (" ws14 , warmup,quiche", ["warmup", "ws14", "quiche"])],
)
def test_sets_that_are_chosen(text: str, expected: list[str]) -> None:
    assert [option_set.name for option_set in option_sets.chosen(text)] == expected


@pytest.mark.parametrize("text", ["", "warmup", "bl,bl", "BL"])
def test_sets_that_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        option_sets.chosen(text)


def answer(end: str = "complete", status: int | None = 200, body: int = 10, **more: Any) -> ClientAnswer:
    """Return an answer from a client."""
    given: dict[str, Any] = {"content_length": 10, "headers": {}} | more
    return ClientAnswer(end, status=status, body_bytes=body, **given)


def flow(**more: Any) -> dict[str, Any]:
    """Return the flow of set `all14` with the given changes."""
    offered = {"ecn_setup_client": True, "sack_permitted_client": True, "wscale_client": 14}
    return {**offered, "timestamps_client": True, "zero_windows_client": 0, **more}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (answer(), "done"),
        (answer("limit"), "stopped_limit"),
        (answer(body=9), "short"),
        (answer(content_length=None), "done"),
        (answer("short", body=9), "short"),
        (answer(status=301), "redirect"),
        (answer(status=304), "redirect"),
        (answer(status=404), "http_error"),
        (answer(status=206), "http_error"),
        (answer("limit", status=500), "http_error"),
        (answer(status=403, headers={"cf-mitigated": "challenge"}), "challenge"),
        (answer(status=202, headers={"x-amzn-waf-action": "challenge"}), "challenge"),
        (answer(headers={"cf-mitigated": "challenge"}), "done"),
        (answer("timeout"), "timeout"),
        (answer("blocked", status=None), "blocked"),
        (answer(content_length=11, body=11), "changed"),
        (answer(headers={"etag": "b"}), "changed"),
        (answer(headers={"last-modified": "later"}), "changed"),
        (answer(headers={"etag": "a", "last-modified": "then"}), "done"),
    ],
)
def test_an_outcome(found: ClientAnswer, expected: str) -> None:
    warmup = answer(headers={"etag": "a", "last-modified": "then"})
    assert outcome.of(found, warmup, SETS["all14"], flow()) == expected


@pytest.mark.parametrize(
    ("name", "found", "expected"),
    [
        ("warmup", answer(), None),
        ("warmup", answer("limit"), None),
        ("warmup", answer(status=404), "skipped"),
        ("warmup", answer("timeout"), "skipped"),
        ("warmup", answer("blocked"), "blocked"),
        # Another set's failure is only that set's; a target that opted out gets no further download.
        ("bl", answer("timeout"), None),
        ("bl", answer("blocked"), "blocked"),
    ],
)
def test_the_outcome_of_the_rest_of_a_run(name: str, found: ClientAnswer, expected: str | None) -> None:
    assert outcome.of_rest(SETS[name], found) == expected


@pytest.mark.parametrize(
    ("found", "why_not"),
    [
        (answer(), None),
        (answer(status=404), "HEAD over HTTP/3 brings status 404"),
        (
            answer(status=403, headers={"cf-mitigated": "challenge"}),
            "HEAD over HTTP/3 brings status 403 with cf-mitigated: challenge: "
            "the server asks for human verification",
        ),
        (answer("timeout", status=None, detail="late"), "no answer to HEAD over HTTP/3: late"),
    ],
)
def test_an_answer_to_head(found: ClientAnswer, why_not: str | None) -> None:
    assert http3.judge(found) == Capable(why_not)


@pytest.mark.parametrize(
    ("more", "as_set"),
    [
        ({}, True),
        ({"ecn_setup_client": False}, False),
        ({"sack_permitted_client": False}, False),
        ({"wscale_client": 7}, False),
        ({"wscale_client": None}, False),
        ({"timestamps_client": False}, False),
        ({"timestamps_client": None}, None),
    ],
)
def test_options_are_held_against_the_syn(more: dict[str, Any], as_set: bool | None) -> None:
    assert outcome.offered(SETS["all14"], flow(**more)) is as_set
    expected = "wrong_options" if as_set is False else "done"
    assert outcome.of(answer(), None, SETS["all14"], flow(**more)) == expected
    assert outcome.offered(SETS["quiche"], flow(**more)) is None
    assert outcome.offered(SETS["all14"], None) is None


@pytest.mark.parametrize(
    ("found", "more", "drops", "limited"),
    [
        (answer(duration_us=100, cpu_us=80), {}, 0, False),
        (answer(duration_us=100, cpu_us=81), {}, 0, True),
        (answer(duration_us=100, cpu_us=1), {"zero_windows_client": 1}, 0, True),
        (answer(duration_us=100, cpu_us=1, udp_drops=1), {}, 0, True),
        (answer(duration_us=100, cpu_us=1), {}, 1, True),
        (answer(duration_us=100, cpu_us=1), {}, None, None),
        (answer(duration_us=100, cpu_us=None), {}, 0, None),
        (answer(duration_us=100, cpu_us=99), {}, None, True),
        (answer(duration_us=None, cpu_us=1), {}, 0, None),
        (answer(body=0, duration_us=100, cpu_us=100), {}, 0, None),
    ],
)
def test_what_limits_a_client(
    found: ClientAnswer, more: dict[str, Any], drops: int | None, limited: bool | None
) -> None:
    assert outcome.client_limited(found, flow(**more), drops) is limited


def test_lines_of_clients() -> None:
    request = Request("https://a.test/", HOST, "192.0.2.1", 443, "/", "x", 1.5, 10, "roots.pem")
    assert Request.of(request.line()) == request
    reply = answer(headers={"etag": "a"})
    assert ClientAnswer.of(reply.line()) == reply
    too_long = b'{"end":"short","content_length":9223372036854775808}'
    for line in (b"", b"{}", b"[]", b'{"end":"good"}', b"x\n", too_long):
        with pytest.raises(FirstflightError, match="no answer"):
            ClientAnswer.of(line)


@pytest.mark.parametrize(
    ("contact", "who"),
    [
        ("", ""),
        (" \n", ""),
        ("me@example.org", " (me@example.org)"),
        (" Jörg\r\nEvil: <j@x.test> ", " (J?rg Evil: <j@x.test>)"),
    ],
)
def test_how_a_request_names_itself(contact: str, who: str) -> None:
    assert re.fullmatch(r"firstflight/\S+" + re.escape(who), user_agent(contact))


@pytest.mark.parametrize(
    ("given", "end", "detail"),
    [
        # No program listens on port 1 of loopback.
        ({"roots": "/home/jörg/roots.pem"}, "connect_failed", "127.0.0.1"),
        ({"user_agent": "Jörg"}, "failed", "libcurl does not take the request: "),
        ({"http": "3", "url": "\x00"}, "failed", "libcurl does not take the request: "),
    ],
)
def test_a_request_that_libcurl_does_not_take(given: dict[str, Any], end: str, detail: str) -> None:
    request = Request("https://a.test:1/", HOST, "127.0.0.1", 1, "/", "x", 5.0, 10, "roots.pem")
    found = curl.answer(replace(request, **given), Permitted([], [], ["127.0.0.0/8"]))
    assert found.end == end
    assert detail in (found.detail or "")


@pytest.mark.parametrize("body", [b"3\r\nabc\r\n", b""])
def test_trailers_change_nothing(tmp_path: Path, body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: first\r\nConnection: close\r\n\r\n"
    trailers = b"Content-Length: 9\r\nETag: late\r\nServer: x\r\n\r\n"
    with serving(tmp_path, lambda _: [head, body, b"0\r\n", trailers], HOST) as host:
        port = int(host.url.rpartition(":")[2])
        url, roots = f"https://{HOST}:{port}/", str(host.authority)
        request = Request(url, HOST, "127.0.0.1", port, "/", "x", 30.0, 10, roots)
        found = curl.answer(request, Permitted([], [], ["127.0.0.0/8"]))
    assert (found.end, found.content_length, found.headers) == ("complete", None, {"etag": "first"}), found
    assert found.body_bytes == (3 if body else 0)


def test_bytes_of_a_server_in_a_message_of_libcurl_fit_into_a_row(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: a\xffb\r\nConnection: close\r\n\r\nx"
    with serving(tmp_path, lambda _: [head], HOST) as host:
        port = int(host.url.rpartition(":")[2])
        request = Request(f"{host.url}/", HOST, "127.0.0.1", port, "/", "x", 30.0, 10, str(host.authority))
        found = curl.answer(request, Permitted([], [], ["127.0.0.0/8"]))
    assert found.end == "failed" and "Transfer-Encoding" in (found.detail or ""), found
    detail = ClientAnswer.of(found.line()).detail
    assert pa.array([detail]).to_pylist() == [detail] and detail is not None and "a?b" in detail


def test_a_download_that_is_refused_has_no_times() -> None:
    request = Request("https://a.test/", HOST, "127.0.0.1", 443, "/", "x", 5.0, 10, "roots.pem")
    assert curl.answer(request, Permitted([], [])) == ClientAnswer("blocked", detail="its address is special")


def test_unfinished_downloads_of_a_killed_session(tmp_path: Path) -> None:
    """A started target is never resumed: its missing downloads are `skipped`. Other targets are still due."""
    sets = option_sets.chosen("bl,ecn")
    files = [targets.of(line, f"https://{name}.test/", "192.0.2.1") for line, name in ((2, "a"), (3, "b"))]
    first = session.order(sets, 1, files[0], fixed=False)[0]
    first_entry = session.entry(files[0], first, 0, answer(), None, "curl/1")
    (tmp_path / session.ANSWERS).write_bytes(session.as_line(first_entry) + b'{"line": 2, "se')
    entries = session.read_answers(tmp_path)
    assert entries == [first_entry]
    owed, left = session.unfinished(entries, files, sets, 1, fixed=False)
    assert left == [files[1]]
    assert sorted((entry["set"], entry["why"], entry["position"] > 0) for entry in owed) == [
        ("bl", "skipped", True),
        ("ecn", "skipped", True),
    ]
    assert {(entry["quic_capable"], entry["no_quic"]) for entry in owed} == {(None, None)}
    # All rows after the warm-up have the result of HEAD.
    for capable in (Capable(), Capable("status 404")):
        second = session.order(sets, 1, files[0], fixed=False)[1]
        more = session.entry(files[0], second, 1, answer(), None, "curl/1", capable)
        (last,), _ = session.unfinished([first_entry, more], files, sets, 1, fixed=False)
        assert (last["quic_capable"], last["no_quic"]) == (capable.is_so, capable.why_not)
    # If its name was resolved again, the missing downloads have the new address.
    moved = replace(files[0], ip="192.0.2.9", resolved=Resolved("192.0.2.1", 5, "NOERROR"))
    assert session.order(sets, 1, moved, fixed=False)[0] == first
    owed, left = session.unfinished(
        [session.entry(moved, first, 0, answer(), None, "curl/1")], files, sets, 1, fixed=False
    )
    columns = ("ip", "drawn_ip", "resolved_at", "resolved_status")
    assert {tuple(entry[name] for name in columns) for entry in owed} == {
        ("192.0.2.9", "192.0.2.1", 5, "NOERROR")
    }
    assert (len(owed), left) == (2, [files[1]])
    edited = [
        [targets.of(2, "https://new.test/", "192.0.2.1"), targets.of(3, "https://a.test/", "192.0.2.1")],
        [targets.of(2, "https://a.test/", "192.0.2.2")],
        [targets.of(3, "https://b.test/", "192.0.2.1")],
    ]
    for changed in edited:
        with pytest.raises(InputError, match=r"has changed .*: line 2 was https://a\.test/ at 192\.0\.2\.1"):
            session.unfinished(entries, changed, sets, 1, fixed=False)
    (tmp_path / session.ANSWERS).write_bytes(b"{\n" + session.as_line(first_entry))
    with pytest.raises(InputError, match="line 1"):
        session.read_answers(tmp_path)


def test_an_opt_out_of_the_host_of_a_url_breaks_its_download_off(tmp_path: Path) -> None:
    """The name that the file was found for is `a.test`; no list has it."""
    listed = tmp_path / "optout"
    listed.write_text("# nobody yet\n")
    lists = [f"optout={listed}", "allow-net=127.0.0.0/8"]
    downloads = Session(option_sets.chosen("bl"), tmp_path, lists, Limits(), lambda: None)
    downloads._guard(targets.of(2, "https://www.a.test/", "127.0.0.1", "a.test"))
    downloads._look()
    listed.write_text("www.a.test\n")

    def is_broken_off() -> bool:
        try:
            downloads._look()
        except Withdrawn as error:
            return str(error) == "its name is on a list"
        return False

    until(is_broken_off, "the entry to be in force")


def test_an_address_of_another_operator_needs_a_contact(tmp_path: Path) -> None:
    """A name that is resolved again may have such an address, although no planned address needs a contact."""
    lists, target = ["allow-net=127.0.0.0/8"], targets.of(2, "https://a.test/", "8.8.8.8")
    for contact, why in (("", "its address needs a contact"), ("me@example.org", None)):
        downloads = Session(option_sets.chosen("bl"), tmp_path, lists, Limits(contact=contact), lambda: None)
        assert downloads._guard(target) == why
        assert downloads._guard(replace(target, ip="127.0.0.1")) is None


def test_no_client_requests_a_listed_target(tmp_path: Path) -> None:
    """This holds even if the entry has left the file: a client that starts now does not read the entry."""
    listed = tmp_path / "optout"
    listed.write_text("www.a.test\n")
    lists = [f"optout={listed}", "allow-net=127.0.0.0/8"]
    (quiche,) = option_sets.chosen("quiche")[1:]
    downloads = Session([quiche], tmp_path, lists, Limits(), lambda: None)
    target = targets.of(2, "https://www.a.test/", "127.0.0.1", "a.test")
    listed.write_text("# nobody any more\n")
    no_worker = cast(Worker, None)
    assert downloads._answer(no_worker, target, quiche) == ClientAnswer(
        "blocked", detail="its name is on a list"
    )
    assert downloads._target is None
    # It is not requested over HTTP/3 either, so a missing file is not detected.
    downloads._asker = cast(HeadClient, object())
    assert downloads._ask(target) is None and downloads._target is None


def test_a_target_is_chosen_when_its_first_request_may_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait for the lists may outlast the target's turn, so there is no wait after the choice."""
    target = targets.of(2, "https://www.a.test/", "127.0.0.1")
    happened: list[object] = []

    def following() -> targets.Target | float:
        happened.append("asked")
        return next(answers)

    answers: Iterator[targets.Target | float] = iter([0.01, target])
    monkeypatch.setattr(Session, "__enter__", lambda self: self)
    monkeypatch.setattr(Session, "ready", lambda _: happened.append("ready"))
    monkeypatch.setattr(Session, "run", lambda _, requested, *_more: happened.append(requested))
    sets = option_sets.chosen("bl")
    downloads.run(1, following, sets, tmp_path, [], Limits(), 1, lambda: None, happened.append)
    assert happened == [*("ready", "asked") * 2, target, target]
