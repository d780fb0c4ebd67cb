"""An HTTPS server of sites that misbehave, each in its own way, for crawls and downloads.

`python -m lab.odd_files FILE` takes a JSON file: `listen` (addresses), `port`, `chain` and `key` (PEM of all
names), and prints READY. What a host does is the function of its first label; `plain` does nothing wrong.
HTTP/1.1 alone: HTTP/2 would hide what is odd in lengths and header fields.
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

from lab.file_sites import FILE, MB

# What an endless answer sends at most, to a client that never stops reading.
MOST_BYTES = 64 << 20
_BLOCK = bytes(range(256)) * 256
_VERSIONS = count(1)

Body = AsyncIterator[bytes]


@dataclass
class Reply:
    """An answer: `length` is the Content-Length to send (None: none), whatever the body's is."""

    status: int = 200
    fields: dict[str, str] = field(default_factory=dict)
    body: Callable[[], Body] | None = None
    length: int | None = None


@dataclass(frozen=True)
class Question:
    """A request."""

    method: str
    host: str
    path: str
    fields: dict[str, str]


async def _bytes(size: int) -> Body:
    left = size
    while left > 0:
        yield _BLOCK[: min(left, len(_BLOCK))]
        left -= len(_BLOCK)


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


def plain(question: Question) -> Reply:
    """A page that links to a file of 1 MB; there is no robots.txt."""
    if question.path == "/":
        return _page(FILE)
    return _download(MB) if question.path == FILE else _missing()


def robots_endless(question: Question) -> Reply:
    """Robots.txt never ends; what can be read of it allows all."""
    if question.path == "/robots.txt":
        return Reply(200, {"Content-Type": "text/plain"}, lambda: _endless(b"User-agent: *\nAllow: /\n"))
    return plain(question)


def trap(question: Question) -> Reply:
    """Each page links to two that nobody has seen."""
    if question.path == "/robots.txt":
        return _missing()
    here = question.path.rstrip("/")
    return _page(f"{here}/a", f"{here}/b", *(f"/calendar/{number}" for number in range(400)))


def no_length(question: Question) -> Reply:
    """A file of 2 MB without length, neither for HEAD nor for ranges."""
    if question.path == FILE:
        return Reply(200, {"Content-Type": "application/octet-stream"}, lambda: _bytes(2 * MB))
    return plain(question)


def ranges(question: Question) -> Reply:
    """HEAD is refused, and a range says the size."""
    if question.path != FILE:
        return plain(question)
    if question.method == "HEAD":
        return Reply(405, {"Allow": "GET"}, None, 0)
    if question.fields.get("range") == "bytes=0-0":
        return Reply(206, {"Content-Range": f"bytes 0-0/{3 * MB}"}, lambda: _bytes(1), 1)
    return _download(3 * MB)


def wrong_length(question: Question) -> Reply:
    """A file of 2 MB by its length, of which 1.5 MB come."""
    if question.path == FILE:
        return Reply(200, {"Content-Type": "video/mp4"}, lambda: _bytes(1_500_000), 2 * MB)
    return plain(question)


def breaks(question: Question) -> Reply:
    """A file without length, neither for HEAD nor for ranges, that breaks off."""
    if question.path == FILE:
        return Reply(200, {"Transfer-Encoding": "chunked"}, lambda: _text(b"1000\r\nless than that"))
    return plain(question)


def slow(question: Question) -> Reply:
    """A file that comes at ten bytes a second."""
    if question.path == FILE:
        return Reply(200, {"Content-Type": "application/pdf"}, lambda: _drip(MB), MB)
    return plain(question)


def changes(question: Question) -> Reply:
    """A file with another ETag at each request."""
    if question.path == FILE:
        return _download(1_500_000, {"ETag": f'"version-{next(_VERSIONS)}"'})
    return plain(question)


def bomb(question: Question) -> Reply:
    """A page of 100 MB in 100 kB of gzip, which nobody asked for."""
    if question.path != "/":
        return _missing()
    packed = gzip.compress(b"<p>" * (100 * MB // 3), 9)
    fields = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    return Reply(200, fields, lambda: _text(packed), len(packed))


def packed(question: Question) -> Reply:
    """All texts are in gzip, which nobody asked for."""
    if question.path == "/":
        return _coded(gzip.compress(f'<a href="{FILE}">'.encode()), "gzip")
    if question.path == "/robots.txt":
        return _coded(gzip.compress(b"User-agent: *\nAllow: /\n"), "gzip")
    return plain(question)


def unknown_coding(question: Question) -> Reply:
    """The start page is in a content coding that nobody knows."""
    return _coded(b"\x01\x02\x03", "x-lab") if question.path == "/" else plain(question)


def _coded(body: bytes, coding: str) -> Reply:
    fields = {"Content-Type": "text/html", "Content-Encoding": coding}
    return Reply(200, fields, lambda: _text(body), len(body))


def umlauts(question: Question) -> Reply:
    """The start page redirects to one with an umlaut, which links to a file with one: bytes of UTF-8."""
    page, file = "/\u00e4".encode(), "/\u00fc.bin".encode()
    if question.path == "/":
        return Reply(302, {"Location": page.decode("latin-1")}, None, 0)
    if question.path == "/%C3%A4":
        body = b"<title>\xc3\xa4</title><a href='" + file + b"'>"
        return Reply(200, {"Content-Type": "text/html; charset=utf-8"}, lambda: _text(body), len(body))
    return _download(MB) if question.path == "/%C3%BC.bin" else _missing()


def costly(question: Question) -> Reply:
    """Pages with one element of 150,000 attributes, a minute for libxml2; a file is behind the third."""
    links = {"/": "/2", "/2": "/3", "/3": FILE}
    if question.path not in links:
        return plain(question)
    attributes = " ".join(f"a{number:x}" for number in range(150_000))
    body = f'<a href="{links[question.path]}"><a {attributes}>'.encode()
    return Reply(200, {"Content-Type": "text/html"}, lambda: _text(body), len(body))


def giant_page(question: Question) -> Reply:
    """A page that never ends."""
    if question.path == "/robots.txt":
        return _missing()
    return Reply(200, {"Content-Type": "text/html"}, lambda: _endless(b"<p>more</p>\n"))


def hostile_links(question: Question) -> Reply:
    """Links that no crawler should follow; each would be answered by a file."""
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


def endless_fields(question: Question) -> Reply:
    """The header section of the start page never ends."""
    if question.path == "/robots.txt":
        return _missing()
    return Reply(-1, {}, lambda: _endless(b"X-More: and more\r\n"))


def redirects(question: Question) -> Reply:
    """The start page redirects to itself, a bit longer each time."""
    if question.path == "/robots.txt":
        return _missing()
    return Reply(302, {"Location": f"{question.path}a"}, None, 0)


def walls(question: Question) -> Reply:
    """Pages with many links that robots.txt forbids, and some to more such pages."""
    if question.path == "/robots.txt":
        rules = b"User-agent: *\nDisallow: /closed\n"
        return Reply(200, {"Content-Type": "text/plain"}, lambda: _text(rules), len(rules))
    here = question.path.strip("/")
    return _page(
        *(f"/closed/{here}/{number}" for number in range(90)),
        *(f"/open/{here}-{number}" for number in range(5)),
    )


async def _silence() -> Body:
    await asyncio.sleep(600)
    yield b""


def tarpit(question: Question) -> Reply:
    """The start page begins and never comes: of no site of the lab, since it costs a crawl half a minute."""
    return _missing() if question.path == "/robots.txt" else Reply(-1, {}, _silence)


def drips(question: Question) -> Reply:
    """The start page comes by ten bytes a second: of no site of the lab, either."""
    if question.path == "/robots.txt":
        return _missing()
    return Reply(200, {"Content-Type": "text/html"}, lambda: _drip(MB), MB)


BEHAVIOURS: dict[str, Callable[[Question], Reply]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(plain, robots_endless, trap, no_length, ranges, wrong_length, breaks, slow, changes),
        *(packed, unknown_coding, umlauts, costly),
        *(bomb, giant_page, hostile_links, endless_fields, redirects, walls, tarpit, drips),
    )
}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ssl.SSLError, ValueError):
        while await _one(reader, writer):
            pass
    with suppress(OSError, ssl.SSLError):
        writer.close()


async def _one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer one request; return whether the connection goes on."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    fields = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])
    }
    host = fields.get("host", "")
    print(json.dumps([host, method, path, fields]), flush=True)
    label = host.removeprefix("www.").partition(".")[0]
    reply = BEHAVIOURS.get(label, plain)(Question(method, host, path, fields))
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
    wanted = json.loads(path.read_text(encoding="utf-8"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(wanted["chain"], wanted["key"])
    server = await asyncio.start_server(_serve, wanted["listen"], wanted["port"], ssl=context, backlog=512)
    print("READY", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(_main(Path(sys.argv[1])))
