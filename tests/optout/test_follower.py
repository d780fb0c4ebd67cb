"""How a vantage point handles the centre's opt-out list, and how senders in Python use the copy."""

from __future__ import annotations

import json
import resource
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from firstflight.egress import current
from firstflight.egress.current import Current, Trust
from firstflight.egress.permitted import Permitted
from firstflight.errors import InputError, UsageError
from orchestration.site import centre_token, optout
from orchestration.site.centre_client import CentreUnreachable
from orchestration.site.optout import Follower

SECRET = "s" * 64
Answers = Callable[[str], bytes]


@pytest.fixture
def answers() -> Iterator[tuple[str, list[Answers]]]:
    """Serve an HTTP endpoint on loopback; yields its URL and a list of functions.

    The last function in the list computes each response from the request's nonce.
    """
    given: list[Answers] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            token = self.headers["Authorization"].removeprefix("Bearer ")
            centre_token.verify(SECRET, token, centre_token.OPTOUT)
            body = given[-1](parse_qs(urlsplit(self.path).query)["nonce"][0])
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", given
        server.shutdown()


def listing(*entries: str) -> Answers:
    return lambda nonce: json.dumps({"nonce": nonce, "entries": entries}).encode()


def test_an_invalid_list_changes_and_confirms_nothing(
    answers: tuple[str, list[Answers]], tmp_path: Path
) -> None:
    url, given = answers
    path = tmp_path / "list"
    messages: list[str] = []
    follower = Follower(url, lambda: SECRET, path, messages.append)
    with requests.Session() as session:
        given.append(listing("192.0.2.1", "*.example.org"))
        follower.once(session)
        assert (path.read_text(), messages) == ("192.0.2.1\n*.example.org\n", ["2 entries"])
        confirmed = current.confirmed_file(path).read_text()
        bad: list[Answers] = [
            listing("192.0.2.1", "192.0.2"),
            lambda nonce: listing("192.0.2.1")(nonce)[:-3],
            lambda _: listing("192.0.2.1")("another"),
            lambda nonce: json.dumps({"nonce": nonce}).encode(),
            lambda nonce: json.dumps({"nonce": nonce, "entries": [7]}).encode(),
            lambda nonce: json.dumps({"nonce": nonce, "entries": "192.0.2.1"}).encode(),
            lambda _: b"[]",
            lambda _: b"",
        ]
        for answer in bad:
            given.append(answer)
            with pytest.raises(CentreUnreachable):
                follower.once(session)
            assert path.read_text() == "192.0.2.1\n*.example.org\n"
            assert current.confirmed_file(path).read_text() == confirmed
        before = path.stat().st_mtime_ns
        given.append(listing("192.0.2.1", "*.example.org"))
        follower.once(session)
        assert path.stat().st_mtime_ns == before, "an unchanged list must not be written again"
        assert current.confirmed_file(path).read_text() != confirmed


@pytest.mark.parametrize(
    ("kept", "offered", "is_taken"),
    [
        ("", "", True),
        ("", "a", True),
        ("a", "", False),
        ("ab", "", False),
        ("ab", "c", False),
        ("abc", "a", False),
        ("ab", "a", True),
        ("abc", "ab", True),
        ("ab", "abcdef", True),
    ],
)
def test_a_list_without_most_of_its_entries_is_not_taken(
    answers: tuple[str, list[Answers]], tmp_path: Path, kept: str, offered: str, is_taken: bool
) -> None:
    """A list that lacks most entries may be the result of a new installation of the centre."""
    url, given = answers
    path = tmp_path / "list"
    follower = Follower(url, lambda: SECRET, path, lambda _: None)
    with requests.Session() as session:
        given.append(listing(*(f"*.{name}.test" for name in kept)))
        follower.once(session)
        before = path.read_text(), current.confirmed_file(path).read_text()
        given.append(listing(*(f"*.{name}.test" for name in offered)))
        if not is_taken:
            lacks = f"lacks . of the {len(kept)} entries that {path} had"
            with pytest.raises(CentreUnreachable, match=lacks):
                follower.once(session)
            assert (path.read_text(), current.confirmed_file(path).read_text()) == before
            path.unlink()
        follower.once(session)
        assert path.read_text() == "".join(f"*.{name}.test\n" for name in offered)
        assert current.confirmed_file(path).read_text() != before[1]


def test_a_list_is_not_halved_again_and_again(answers: tuple[str, list[Answers]], tmp_path: Path) -> None:
    """Each list lacks about half of the previous one. The limit applies to all entries ever in the copy."""
    url, given = answers
    path = tmp_path / "list"
    names = [f"*.name{number}.test" for number in range(1024)]
    with requests.Session() as session:
        for count in (1024, 512):
            given.append(listing(*names[:count]))
            Follower(url, lambda: SECRET, path, lambda _: None).once(session)
        confirmed = current.confirmed_file(path).read_text()
        for count in (511, 256, 1, 0):
            given.append(listing(*names[:count]))
            with pytest.raises(CentreUnreachable, match=f"lacks {1024 - count} of the 1024 entries"):
                Follower(url, lambda: SECRET, path, lambda _: None).once(session)
            assert path.read_text().count("\n") == 512
            assert current.confirmed_file(path).read_text() == confirmed
        path.unlink()  # as the error message advises
        Follower(url, lambda: SECRET, path, lambda _: None).once(session)
        assert path.read_text() == ""


@pytest.mark.parametrize("name", ["list", "list.ever"])
@pytest.mark.parametrize("fault", ["no UTF-8", "a folder"])
def test_a_copy_that_cannot_be_read_is_not_an_empty_one(
    answers: tuple[str, list[Answers]], tmp_path: Path, name: str, fault: str
) -> None:
    url, given = answers
    path = tmp_path / "list"
    follower = Follower(url, lambda: SECRET, path, lambda _: None)
    with requests.Session() as session:
        given.append(listing("*.a.test", "*.b.test", "*.c.test"))
        follower.once(session)
        confirmed = current.confirmed_file(path).read_text()
        broken = tmp_path / name
        if fault == "a folder":
            broken.unlink()
            broken.mkdir()
        else:
            broken.write_bytes(b"\xff\n")
        given.append(listing())
        with pytest.raises(InputError, match=f"{broken} cannot be read: "):
            follower.once(session)
        assert current.confirmed_file(path).read_text() == confirmed


def test_the_centre_offers_all_lists_of_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = tmp_path / "entered"
    monkeypatch.setenv("FIRSTFLIGHT_SITE", str(tmp_path))
    monkeypatch.setenv(current.VARIABLE, str(entered))
    assert optout.add(["192.0.2.0/24", "a.test", "a.test"], "mail\nof May") == ["192.0.2.0/24", "a.test"]
    assert optout.add(["a.test", "b.test"]) == ["b.test"]
    assert entered.read_text().split("\n")[0].endswith("mail of May")
    for wrong in ("192.0.2", "c.test # no", "c.test\nd.test", ""):
        with pytest.raises(UsageError, match="nothing was added"):
            optout.add(["c.test", wrong])
    (tmp_path / "site.toml").write_text('[probe]\noptout = ["old.txt"]\n')
    (tmp_path / "old.txt").write_text("10.0.0.7\n2001:db8::/126\n*.x.test\n")
    offered = optout.offered()
    assert offered == sorted(
        ["192.0.2.0-192.0.2.255", "*.a.test", "*.b.test", "10.0.0.7", "2001:db8::-2001:db8::3", "*.x.test"]
    )
    # As in settings, a path is relative to the file itself, not to a link to it, and `~` is the home folder.
    (tmp_path / "real").mkdir()
    (tmp_path / "site.toml").rename(tmp_path / "real" / "site.toml")
    (tmp_path / "site.toml").symlink_to(tmp_path / "real" / "site.toml")
    (tmp_path / "old.txt").rename(tmp_path / "real" / "old.txt")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "watch.toml").write_text('[probe]\noptout = ["~/home.txt"]\n')
    (tmp_path / "home.txt").write_text("*.x.test\n")
    assert optout.offered() == offered
    (tmp_path / "copy").write_text("".join(f"{entry}\n" for entry in offered))
    read = Permitted([], [tmp_path / "copy"], ["10.0.0.0/8"])
    for address, name, is_free in (
        ("192.0.2.255", "", False),
        ("10.0.0.7", "", False),
        ("10.0.0.8", "", True),
        ("10.0.0.8", "www.x.test", False),
        ("10.0.0.8", "ax.test", True),
    ):
        assert (read.why_not(address, name) is None) == is_free, (address, name)
    (tmp_path / "real" / "old.txt").write_text("10.0.0\n")
    with pytest.raises(InputError):
        optout.offered()
    monkeypatch.setenv(current.VARIABLE, f"followed:{entered}")
    with pytest.raises(UsageError, match="copy of the centre's list"):
        optout.add(["d.test"])


def changed(lists: Permitted) -> None:
    """Check the lists twice."""
    lists._current._next_look = 0.0
    lists.look_until_complete()


def test_lists_are_read_again_and_never_loosened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block, optout = tmp_path / "block", tmp_path / "optout"
    block.write_text("10.0.0.1\n")
    optout.write_text("a.test\n")
    lists = Permitted([block], [optout], ["10.0.0.0/8"])
    optout.write_text("b.test\n10.0.1.0/24\n")
    block.write_text("10.0.0.9\n")
    changed(lists)
    assert lists.why_not("10.0.0.9") is None, "block lists must only be read at the start"
    refused = [("10.0.0.1", ""), ("10.0.0.2", "a.test"), ("10.0.0.2", "www.b.test"), ("10.0.1.9", "")]
    assert (
        all(lists.why_not(*address_and_name) for address_and_name in refused)
        and lists.why_not("10.0.0.2") is None
    )
    optout.write_text("10.0.0.3\n10.0.0\n")
    changed(lists)
    assert lists.why_not("10.0.0.3") is None and lists.why_not("10.0.0.1") is not None
    assert "stays in force" in capsys.readouterr().err


@pytest.mark.parametrize("is_followed", [False, True])
def test_a_list_that_cannot_be_read_is_tried_until_it_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_followed: bool
) -> None:
    path = tmp_path / "list"
    path.write_text("10.0.0.1\n")
    lists = Current([], [], f"{current.FOLLOWED if is_followed else ''}{path}")

    def entries() -> list[str]:
        for _ in range(3):
            lists._next_look = 0.0
            lists.look()
        return [str(entry[0]) for entry in lists.take()]

    assert entries() == ["10.0.0.1"]
    path.write_text("10.0.0.22\n")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, files[1]))
    try:
        assert entries() == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
    assert capsys.readouterr().err.count("cannot be read: [Errno 24]") == 1
    assert entries() == ["10.0.0.22"]
    assert entries() == []


def test_a_copy_is_trusted_as_long_as_it_is_confirmed(tmp_path: Path) -> None:
    path = tmp_path / "list"
    lists = Current([], [], f"followed:{path}")

    def trust(ago_s: float | None = None) -> Trust:
        if ago_s is not None:
            content = json.loads(current.confirmation())
            content["at_ns"] -= int(ago_s * 1e9)
            current.confirmed_file(path).write_text(json.dumps(content))
        lists._next_look = 0.0
        return lists.look()

    assert trust() == Trust.NONE
    assert trust(0) == Trust.NONE, "there is no list"
    path.write_text("10.0.0.1\n")
    assert [trust(ago) for ago in (0, 45, 50, 60, 1)] == [2, 1, 1, 0, 2]
    assert trust(-3600) == Trust.NONE, "a time in the future"
    current.confirmed_file(path).write_text('{"boot": "another", "at_ns": 0}')
    assert trust() == Trust.NONE
    for broken in ("", "{", "[]", '{"boot": 1}', "7"):
        current.confirmed_file(path).write_text(broken)
        assert trust() == Trust.NONE
    assert trust(0) == Trust.ALL
    path.write_text("10.0.0\n")
    assert trust(0) == Trust.NONE, "a broken list"


@pytest.mark.parametrize("value", ["", current.FOLLOWED])
def test_a_variable_that_names_no_file_is_no_absent_list(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.delenv(current.VARIABLE, raising=False)
    assert Current([], []).look() == Trust.ALL
    monkeypatch.setenv(current.VARIABLE, value)
    for ask in (lambda: Current([], []), lambda: Permitted([], [], []), optout.own_list):
        with pytest.raises(UsageError, match=f"{current.VARIABLE}={value} names no file: name the list"):
            ask()
