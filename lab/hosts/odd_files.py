"""An HTTPS server of sites that misbehave, each in a different way, for crawls and downloads.

`python -m lab.hosts.odd_files FILE` reads a JSON file with `listen` (addresses), `port`, `chain` and `key`
(PEM for all names), and prints READY. The function with the name of the first label implements a host;
`plain` behaves correctly. Only HTTP/1.1 is served, because HTTP/2 would hide odd lengths and header fields.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from lab.declared.file_sites import FILE, MB

# Maximum size of an endless answer, in case a client never stops reading.
MOST_BYTES = 64 << 20
_BLOCK = bytes(range(256)) * 256
_VERSIONS = count(1)

Body = AsyncIterator[bytes]


@dataclass
class Reply:
    """An answer. `length`: the Content-Length to send (`None`: no such field), for a body of any length."""

    status: int = 200
    fields: dict[str, str] = field(default_factory=dict)
    body: Callable[[], Body] | None = None
    length: int | None = None


@dataclass(frozen=True)
class FileRequest:
    """A request."""

    method: str
    host: str
    path: str
    fields: dict[str, str]


async def _bytes(size: int) -> Body:
    remaining = size
    while remaining > 0:
        yield _BLOCK[: min(remaining, len(_BLOCK))]
        remaining -= len(_BLOCK)


async def _text(content: bytes) -> Body:
    yield content


async def _drip(size: int) -> Body:
    """A kilobyte, then a byte every tenth of a second."""
    yield _BLOCK[:1024]
    for _ in range(size - 1024):
        await asyncio.sleep(0.1)
        yield b"x"


async def _endless(piece: bytes) -> Body:
    block = piece * (65_536 // len(piece) + 1)
    for _ in range(MOST_BYTES // len(block)):
        yield block


def _page(*links: str, fields: dict[str, str] | None = None) -> Reply:
    rows = "".join(f'<p><a href="{link}">a link</a></p>\n' for link in links)
    content = f"<!doctype html><title>files</title>\n{rows}".encode()
    return Reply(200, {"Content-Type": "text/html", **(fields or {})}, lambda: _text(content), len(content))


def _download(size: int, fields: dict[str, str] | None = None) -> Reply:
    sent = {"Content-Type": "application/octet-stream", "ETag": f'"{size}"', **(fields or {})}
    return Reply(200, sent, lambda: _bytes(size), size)


def _missing() -> Reply:
    return Reply(404, {"Content-Type": "text/html"}, lambda: _text(b"none"), 4)


def plain(question: FileRequest) -> Reply:
    """A page that links to a file of 1 MB; there is no robots.txt."""
    if question.path == "/":
        return _page(FILE)
    return _download(MB) if question.path == FILE else _missing()


def robots_endless(question: FileRequest) -> Reply:
    """Robots.txt is endless; the readable part allows everything."""
    if question.path == "/robots.txt":
        return Reply(200, {"Content-Type": "text/plain"}, lambda: _endless(b"User-agent: *\nAllow: /\n"))
    return plain(question)


def trap(question: FileRequest) -> Reply:
    """Each page links to two new pages."""
    if question.path == "/robots.txt":
        return _missing()
    folder = question.path.rstrip("/")
    return _page(f"{folder}/a", f"{folder}/b", *(f"/calendar/{number}" for number in range(400)))


def no_length(question: FileRequest) -> Reply:
    """A file of 2 MB without length, neither for HEAD nor for ranges."""
    if question.path == FILE:
        return Reply(200, {"Content-Type": "application/octet-stream"}, lambda: _bytes(2 * MB))
    return plain(question)


def ranges(question: FileRequest) -> Reply:
    """HEAD is refused; the answer to a range contains the size."""
    if question.path != FILE:
        return plain(question)
    if question.method == "HEAD":
        return Reply(405, {"Allow": "GET"}, None, 0)
    if question.fields.get("range") == "bytes=0-0":
        return Reply(206, {"Content-Range": f"bytes 0-0/{3 * MB}"}, lambda: _bytes(1), 1)
    return _download(3 * MB)


def wrong_length(question: FileRequest) -> Reply:
    """The Content-Length of the file is 2 MB, but the body is only 1.5 MB."""
    if question.path == FILE:
        return Reply(200, {"Content-Type": "video/mp4"}, lambda: _bytes(1_500_000), 2 * MB)
    return plain(question)


def breaks(question: FileRequest) -> Reply:
    """A file that breaks off. Neither HEAD nor ranges show the length."""
    if question.path == FILE:
        return Reply(200, {"Transfer-Encoding": "chunked"}, lambda: _text(b"1000\r\nless than that"))
    return plain(question)


def slow(question: FileRequest) -> Reply:
    """A file that arrives at ten bytes a second."""
    if question.path == FILE:
        return Reply(200, {"Content-Type": "application/pdf"}, lambda: _drip(MB), MB)
    return plain(question)


def changes(question: FileRequest) -> Reply:
    """A file with another ETag at each request."""
    if question.path == FILE:
        return _download(1_500_000, {"ETag": f'"version-{next(_VERSIONS)}"'})
    return plain(question)


def bomb(question: FileRequest) -> Reply:
    """An unrequested gzip coding: 100 kB that expand to a page of 100 MB."""
    if question.path != "/":
        return _missing()
    packed = gzip.compress(b"<p>" * (100 * MB // 3), 9)
    fields = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    return Reply(200, fields, lambda: _text(packed), len(packed))


def packed(question: FileRequest) -> Reply:
    """All texts have an unrequested gzip coding."""
    if question.path == "/":
        return _encoded(gzip.compress(f'<a href="{FILE}">'.encode()), "gzip")
    if question.path == "/robots.txt":
        return _encoded(gzip.compress(b"User-agent: *\nAllow: /\n"), "gzip")
    return plain(question)


def unknown_coding(question: FileRequest) -> Reply:
    """The start page has an unknown content coding."""
    return _encoded(b"\x01\x02\x03", "x-lab") if question.path == "/" else plain(question)


def _encoded(body: bytes, coding: str) -> Reply:
    fields = {"Content-Type": "text/html", "Content-Encoding": coding}
    return Reply(200, fields, lambda: _text(body), len(body))


def umlauts(question: FileRequest) -> Reply:
    """The start page redirects to a path with an umlaut, which links to a file with an umlaut (UTF-8)."""
    page, file = "/\u00e4".encode(), "/\u00fc.bin".encode()
    if question.path == "/":
        return Reply(302, {"Location": page.decode("latin-1")}, None, 0)
    if question.path == "/%C3%A4":
        body = b"<title>\xc3\xa4</title><a href='" + file + b"'>"
        return Reply(200, {"Content-Type": "text/html; charset=utf-8"}, lambda: _text(body), len(body))
    return _download(MB) if question.path == "/%C3%BC.bin" else _missing()


def costly(question: FileRequest) -> Reply:
    """Three pages with an element of 150,000 attributes, a minute for libxml2; the third links to a file."""
    links = {"/": "/2", "/2": "/3", "/3": FILE}
    if question.path not in links:
        return plain(question)
    attributes = " ".join(f"a{number:x}" for number in range(150_000))
    body = f'<a href="{links[question.path]}"><a {attributes}>'.encode()
    return Reply(200, {"Content-Type": "text/html"}, lambda: _text(body), len(body))


def giant_page(question: FileRequest) -> Reply:
    """An endless page."""
    if question.path == "/robots.txt":
        return _missing()
    return Reply(200, {"Content-Type": "text/html"}, lambda: _endless(b"<p>more</p>\n"))


def hostile_links(question: FileRequest) -> Reply:
    """Links that no crawler should follow. A file would answer each of them."""
    if question.path == "/robots.txt":
        return _missing()
    if question.path != "/":
        return _download(MB)
    host = question.host
    return _page(
        "javascript:alert(1)",
        "data:application/octet-stream,xxxx",
        "file:///etc/passwd",
        "ftp://files.example/x.pdf",
        f"https://{host}:8443{FILE}",
        f"https://user:secret@{host}{FILE}",
        f"https://198.18.192.1{FILE}",
        f"https://[2001:db8::1]{FILE}",
        f"https://0x7f.1{FILE}",
        f"https://{host}.elsewhere.test{FILE}",
        f"https://elsewhere.test/{host}{FILE}",
        f"https://{host}/{'long/' * 20_000}",
        "https://[",
        f"//elsewhere.test{FILE}",
    )


def endless_fields(question: FileRequest) -> Reply:
    """The header section of the start page is endless."""
    if question.path == "/robots.txt":
        return _missing()
    return Reply(-1, {}, lambda: _endless(b"X-More: and more\r\n"))


def redirects(question: FileRequest) -> Reply:
    """The start page redirects to itself, with a longer path each time."""
    if question.path == "/robots.txt":
        return _missing()
    return Reply(302, {"Location": f"{question.path}a"}, None, 0)


def walls(question: FileRequest) -> Reply:
    """Pages with many links that robots.txt forbids, and some to more such pages."""
    if question.path == "/robots.txt":
        rules = b"User-agent: *\nDisallow: /closed\n"
        return Reply(200, {"Content-Type": "text/plain"}, lambda: _text(rules), len(rules))
    folder = question.path.strip("/")
    return _page(
        *(f"/closed/{folder}/{number}" for number in range(90)),
        *(f"/open/{folder}-{number}" for number in range(5)),
    )


def captcha(question: FileRequest) -> Reply:
    """The start page is plain; the file has a puzzle for people in front of it, as AWS WAF sends it."""
    if question.path != FILE:
        return plain(question)
    return Reply(405, {"x-amzn-waf-action": "captcha"}, None, 0)


def interstitial(question: FileRequest) -> Reply:
    """All answers except the file, also for robots.txt, are pages with a script that looks for a browser."""
    if question.path == FILE:
        return plain(question)
    body = b"<!doctype html><title>checking</title>"
    fields = {"Content-Type": "text/html", "x-amzn-waf-action": "challenge"}
    return Reply(202, fields, lambda: _text(body), len(body))


async def _silence() -> Body:
    await asyncio.sleep(600)
    yield b""


def tarpit(question: FileRequest) -> Reply:
    """The start page sends only its status line. Not a site of the lab: it costs a crawl half a minute."""
    return _missing() if question.path == "/robots.txt" else Reply(-1, {}, _silence)


def drips(question: FileRequest) -> Reply:
    """The start page arrives at ten bytes a second. Not a site of the lab either."""
    if question.path == "/robots.txt":
        return _missing()
    return Reply(200, {"Content-Type": "text/html"}, lambda: _drip(MB), MB)


BEHAVIOURS: dict[str, Callable[[FileRequest], Reply]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(plain, robots_endless, trap, no_length, ranges, wrong_length, breaks, slow, changes),
        *(packed, unknown_coding, umlauts, costly),
        *(bomb, giant_page, hostile_links, endless_fields, redirects, walls, tarpit, drips),
        *(captcha, interstitial),
    )
}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError, ValueError):
        while await _serve_request(reader, writer):
            pass
    with suppress(OSError, ssl.SSLError):
        writer.close()


async def _serve_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request; return whether the connection stays open."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
    }
    host = fields.get("host", "")
    print(json.dumps([host, method, path, fields]), flush=True)
    label = host.removeprefix("www.").partition(".")[0]
    reply = BEHAVIOURS.get(label, plain)(FileRequest(method, host, path, fields))
    goes_on = reply.length is not None
    if reply.status > 0:
        sent = dict(reply.fields)
        if reply.length is None:
            sent["Connection"] = "close"
        else:
            sent["Content-Length"] = str(reply.length)
        lines = [f"HTTP/1.1 {reply.status} Lab", *(f"{name}: {value}" for name, value in sent.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    else:
        writer.write(b"HTTP/1.1 200 Lab\r\n")
    if reply.body is not None and method != "HEAD":
        written = 0
        async for piece in reply.body():
            writer.write(piece)
            await writer.drain()
            written += len(piece)
        goes_on = goes_on and written == reply.length
    await writer.drain()
    return goes_on


async def _main(path: Path) -> None:
    config = json.loads(path.read_text(encoding="utf-8"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(config["chain"], config["key"])
    server = await asyncio.start_server(_serve, config["listen"], config["port"], ssl=context, backlog=512)
    print("READY", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_main(Path(sys.argv[1])))
