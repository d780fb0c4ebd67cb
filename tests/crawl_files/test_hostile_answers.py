"""Answers that are no HTTP, or odd HTTP: each gives its name an outcome, and the crawl continues."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from crawler.files.spider import _is_of_library
from firstflight.errors import UsageError
from firstflight.host_names import normalise
from tests.attack.servers.evil_https import serving
from tests.waiting import PATIENCE_S

SCRIPT = """
import json, sys
from crawler.files import crawl
from crawler.files.limits import Limits
from crawler.files.rows import file_row, page_row
from crawler.files.fetching.pace import Pace
from crawler.files.spider import Task
from pathlib import Path

class Lookup:
    async def addresses(self, name):
        return ["127.0.0.1"]
def show(result):
    print(json.dumps([file_row(result), page_row(result)]))
names = [f"name-{number}.test" for number in range(int(sys.argv[1]))]
limits = Limits(request_seconds=5.0, requests=20)
task = Task(names, Lookup, lambda *_: None, show, limits, 1, port=int(sys.argv[2]))
crawl.run(task, contact="crawl@example.org", pace=Pace(1000, 0), roots=Path(sys.argv[3]))
"""
OK = b"HTTP/1.1 200 OK\r\n"
END = b"Connection: close\r\n\r\n"
LINK = b'<a href="/x.pdf">x</a>'

# The answer for the start page, and the correct outcomes.
REPLIES: list[tuple[bytes, set[str]]] = [
    (b"", {"failed"}),
    (b"\x00" * 1000, {"failed"}),
    (b"HTTP/1.1\r\n\r\n", {"failed"}),
    (b"HTTP/9.9 999999999999999999999 x\r\n\r\n", {"failed", "http_error"}),
    (b"HTTP/1.1 -200 OK\r\n" + END, {"failed", "http_error"}),
    (b"HTTP/1.1 099 OK\r\n" + END, {"failed", "http_error"}),
    (b"HTTP/1.1 1000 OK\r\n" + END, {"failed", "http_error"}),
    (b"ICY 200 OK\r\n" + END, {"failed", "nothing_found"}),
    (b"HTTP/1.1 204 No Content\r\n" + END, {"http_error"}),
    (b"HTTP/1.1 101 Switching Protocols\r\n" + END, {"failed", "http_error"}),
    (b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + OK + END, {"failed", "nothing_found"}),
    (OK + b"Content-Length: " + b"9" * 5000 + b"\r\n" + END, {"failed"}),
    (OK + b"Content-Length: -5\r\n" + END, {"failed"}),
    (OK + b"Content-Length: 5\r\nContent-Length: 6\r\n" + END + b"hello!", {"failed"}),
    (OK + b"Content-Length: 2_000_000\r\n" + END, {"failed", "nothing_found"}),
    (OK + b"Transfer-Encoding: chunked\r\n" + END + b"zz\r\n", {"failed", "nothing_found"}),
    (OK + b"Transfer-Encoding: chunked\r\n" + END + b"F" * 5000, {"failed", "nothing_found"}),
    (OK + b"Transfer-Encoding: \xff\r\n" + END, {"failed", "nothing_found"}),
    (OK + b"Content-Type: \xff\xfe;charset=\x00\r\n" + END + LINK, {"failed", "too_small"}),
    (OK + b"Content-Type: text/html; charset=no-such\r\n" + END + LINK, {"nothing_found"}),
    (OK + b"Content-Type: text/html; charset=utf-7\r\n" + END + LINK, {"nothing_found"}),
    (OK + b"Content-Disposition: ;;=;\r\nContent-Type: text/html\r\n" + END + LINK, {"nothing_found"}),
    (
        OK + b"Content-Encoding: gzip, gzip, br\r\nContent-Type: text/html\r\n" + END,
        {"nothing_found", "no_size"},
    ),
    (OK + b"no colon\r\n: no name\r\n \r\n" + END, {"failed", "nothing_found"}),
    (OK + b"X: " + b"a" * 100_000 + b"\r\n" + END, {"failed", "nothing_found"}),
    (OK + b"X: a\r\n" * 5_000 + END, {"failed", "nothing_found"}),
    (b"HTTP/1.1 302 Found\r\n" + END, {"http_error"}),
    (b"HTTP/1.1 302 Found\r\nLocation:\r\n" + END, {"failed", "http_error"}),
    (b"HTTP/1.1 302 Found\r\nLocation: https://[\r\n" + END, {"failed"}),
    (b"HTTP/1.1 302 Found\r\nLocation: \xff\xfe\r\n" + END, {"failed", "http_error", "nothing_found"}),
    (b"HTTP/1.1 302 Found\r\nLocation: https://" + b"a" * 9_000 + b"/\r\n" + END, {"failed"}),
    (b"HTTP/1.1 302 Found\r\nLocation: javascript:0\r\n" + END, {"failed"}),
    (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.test/\r\n" + END, {"elsewhere"}),
    (b"HTTP/1.1 429 Too Many Requests\r\n" + END, {"http_error"}),
    (OK + b"Age: -1\r\nETag: \x1b[2J\r\n" + END + b"<p>", {"nothing_found"}),
]


def test_each_reply_is_an_outcome(tmp_path: Path) -> None:
    left, replies = iter(REPLIES), [b""]

    def answer(path: str) -> Iterable[bytes]:
        """A name's first request is for robots.txt. Several requests for the start page may follow."""
        if path == "/robots.txt":
            replies.append(next(left)[0])
        if path == "/":
            return [replies[-1]]
        return [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n" + END]

    names = [f"name-{number}.test" for number in range(len(REPLIES))]
    with serving(tmp_path, answer, *names) as host:
        port = host.url.rpartition(":")[2]
        argv = [sys.executable, "-c", SCRIPT, str(len(REPLIES)), port, str(host.authority)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [file["domain"] for file, _ in rows] == names
    wrong = [
        (reply[:60], file["outcome"], file["reason"])
        for (reply, right), (file, _) in zip(REPLIES, rows, strict=True)
        if file["outcome"] not in right
    ]
    assert not wrong, "\n".join(map(str, wrong))
    assert all(len(file["reason"] or "") <= 300 for file, _ in rows)


def _usage_error() -> None:
    raise UsageError("nothing was sent")


@pytest.mark.parametrize(
    ("does", "is_of_library"),
    [
        (lambda: ipaddress.ip_address("x"), True),  # a ValueError raised in a library
        (lambda: normalise(None), False),  # type: ignore[arg-type]
        (_usage_error, False),
    ],
)
def test_faults_of_ours_are_no_outcomes(does: Callable[[], Any], is_of_library: bool) -> None:
    with pytest.raises(Exception) as caught:
        does()
    assert _is_of_library(caught.value) == is_of_library
