"""Hostile hosts of lists and tables: their files are refused with one sentence, at little cost."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import re
import resource
import socket
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import cache
from pathlib import Path

import pytest

from crawler import https
from crawler.lists import crux_list, tranco_list
from crawler.lists.target_list import data_lines, read_lines
from crawler.routing import as2org, rib, routeviews
from firstflight.errors import FirstflightError, InputError
from orchestration.site import offer
from tests import drawn
from tests.attack.files.mutation import mutations
from tests.attack.servers.evil_https import AnswerFunction, EvilHost, InPlaceOf, endless, serving, whole
from tests.crawl.conftest import RIB_4, RIB_6
from tests.crawl.test_as2org import TEXT
from tests.crawl.test_rib import whole_records
from tests.field.test_routing import record, to

DAY = date(2024, 8, 7)
JSONL = b"\n".join(
    json.dumps(entry).encode()
    for entry in (
        {"type": "Organization", "organizationId": "ORG-1", "name": "One", "country": "DE", "source": "RIPE"},
        {"type": "ASN", "asn": "64496", "name": "ONE", "organizationId": "ORG-1", "source": "RIPE"},
    )
)
CRUX = b"origin,rank\nhttps://www.example.com,1000\nhttp://b.example:8080,5000\n"
# Additional paths (RFC 8050) of both families, and a generic record.
PATHS = (
    record(8, "c63364/24", to(3), to(4), has_id=True)
    + record(10, "20010db8/32", to(5), has_id=True)
    + record(6, "cb0071/24", to(6), family="000101")
)
NAMES = b"rank,domain\n1,a.example\n2,m\xc3\xbcller.example # ours\n\nb.example\n"


@cache
def _first_records(path: Path, size: int) -> bytes:
    data, at = whole_records(path), 0
    while at < size:
        at += 12 + int.from_bytes(data[at + 8 : at + 12])
    return data[:at]


def _as2org(path: Path) -> list[str]:
    as2org.read(path)
    return []


def _crux(path: Path) -> list[str]:
    lines = crux_list._lines(path)
    return [line.reason for line in crux_list.parse("x", lines, None, path).rejected]


def _crux_lines(path: Path) -> list[str]:
    lines = iter(path.read_text("utf-8", "replace").split("\n"))
    return [line.reason for line in crux_list.parse("x", lines, None, path).rejected]


def _own_list(path: Path) -> list[str]:
    return [line.reason for line in read_lines("x", data_lines(io.BytesIO(path.read_bytes())), None).rejected]


def _rib(path: Path) -> list[str]:
    rib.convert([path], path.with_suffix(".pyasn"), "x")
    return []


def _offer(path: Path) -> list[str]:
    try:
        inputs = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return ["is not JSON"]  # the client's message
    offer.check(inputs, RUN)
    return []


RUN = "20260101T000000Z-000000"
OFFER = json.dumps(
    {
        "manifest": {
            "id": RUN, "name": "x", "tool_version": "1", "started_at": "2026-01-01T00:00:00+00:00",
            "repetitions": 1, "seed": 1, "cid_key": "0" * 32,
        },
        "files": [{"name": "targets/targets.parquet", "bytes": 5, "sha256": "0" * 64}],
    }
).encode()  # fmt: skip

# Each reads a file and returns the messages about single lines; samples, made only when a test needs them;
# mutations (`make test`: a fifth).
PARSERS: dict[str, tuple[Callable[[Path], list[str]], Callable[[], list[bytes]], int]] = {
    "as2org text": (_as2org, lambda: [TEXT.encode(), JSONL], 1500),
    "as2org gzip": (_as2org, lambda: [gzip.compress(TEXT.encode()), gzip.compress(JSONL)], 500),
    "crux": (_crux, lambda: [gzip.compress(CRUX)], 500),
    "crux lines": (_crux_lines, lambda: [CRUX], 1500),
    "own list": (_own_list, lambda: [NAMES], 1500),
    "rib": (_rib, lambda: [_first_records(RIB_4, 8000), _first_records(RIB_6, 8000), PATHS], 600),
    "rib bz2": (_rib, lambda: [bz2.compress(_first_records(RIB_4, 8000))], 200),
    "offer": (_offer, lambda: [OFFER], 2000),
}


@pytest.mark.drawn
@pytest.mark.parametrize("what", PARSERS)
def test_broken_files_are_refused_in_one_sentence(what: str, tmp_path: Path) -> None:
    parse, make_samples, most = PARSERS[what]
    samples = make_samples()
    count = most if drawn.are_all() else most // 5
    path = tmp_path / "x"
    refused = 0
    for sample in samples:
        path.write_bytes(sample)
        assert parse(path) == [], "the unbroken sample is refused"
    for number, content in enumerate(mutations(7, samples, count)):
        path.write_bytes(content)
        try:
            complaints = parse(path)
        except FirstflightError as error:
            complaints = [str(error)]
        refused += bool(complaints)
        for complaint in complaints:
            assert complaint.isprintable() and len(complaint) < 2000, (what, number, complaint)
    assert refused > count / 20, "too few mutations are refused"


BOMB = bytes(1 << 20)


def _gzip_bomb(size: int) -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1) as stream:
        for _ in range(size >> 20):
            stream.write(BOMB)
    return out.getvalue()


def _zip_bomb(size: int) -> bytes:
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("top-1m.csv", "w", force_zip64=True) as member,
    ):
        for _ in range(size >> 20):
            member.write(BOMB)
    return out.getvalue()


def _in_little_memory(code: str, *arguments: Path) -> subprocess.CompletedProcess[str]:
    """A separate process limited to 1.5 GiB, half of the bombs' contents."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))

    program = (
        "import sys\nfrom pathlib import Path\nfrom firstflight.errors import FirstflightError\n"
        f"try:\n    {code}\nexcept FirstflightError as error:\n    sys.exit(str(error))\n"
    )
    argv = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, preexec_fn=limit, check=False)


@pytest.mark.parametrize(
    "code",
    [
        "from crawler.routing import as2org; as2org.read(Path(sys.argv[1]))",
        "from crawler.lists import crux_list as c; p = Path(sys.argv[1]); next(c._lines(p))",
        "from crawler.routing import rib; p = Path(sys.argv[1]); rib.convert([p], p.with_suffix('.db'), 'x')",
    ],
    ids=["as2org", "crux", "rib"],
)
def test_a_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path, code: str) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(_gzip_bomb(3 << 30))
    done = _in_little_memory(code, path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "decompressed" in done.stderr or "is not an MRT table dump" in done.stderr


def tranco_from(folder: Path, answer: AnswerFunction) -> EvilHost:
    """Read a day's list from such a host; return the requests that it received."""
    with serving(folder / "host", answer, "tranco-list.eu") as host:
        session = https.Session(host.authority)
        session.mount("https://tranco-list.eu", InPlaceOf("tranco-list.eu", host))
        try:
            tranco_list.read(date=DAY, list_id=None, top=10, cache_dir=folder / "cache", session=session)
        except FirstflightError as error:
            assert "\n" not in str(error) and str(error).isprintable()
            raise
        return host


def _list_zip(content: bytes = b"1,a.example\r\n2,b.example\r\n") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("top-1m.csv", content)
    return out.getvalue()


def _listed(archive: Iterable[bytes], list_id: str = "K2X9W") -> AnswerFunction:
    return lambda path: [whole(list_id.encode())] if "daily_list_id" in path else archive


def test_a_valid_list_host_is_accepted(tmp_path: Path) -> None:
    host = tranco_from(tmp_path, _listed([whole(_list_zip())]))
    assert [path.name for path in sorted((tmp_path / "cache").iterdir())] == ["K2X9W.csv", f"daily-{DAY}.id"]
    assert len(host.asked) == 2


@pytest.mark.parametrize(
    "list_id",
    [
        "../../../evil",
        "/tmp/evil",
        "..",
        "",
        "a/b",
        "x\0yz",
        "K2X9W\n",
        "K2X9W/../../evil",
        "<html>",
        "\u0661" * 5,
    ],
    ids=ascii,
)
def test_a_list_id_writes_no_file_outside_the_cache(tmp_path: Path, list_id: str) -> None:
    """The package uses the id from the host as a file name."""
    folder = tmp_path / "in" / "the" / "depth"
    folder.mkdir(parents=True)
    with pytest.raises(FirstflightError, match=r"is no list \(.* is no id of a list\)"):
        tranco_from(folder, _listed([whole(_list_zip())], list_id))
    assert list((folder / "cache").iterdir()) == []
    outside = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert outside == {"ca.pem", "ca.key", "evil.pem", "evil.key"}


@pytest.mark.parametrize(
    "archive",
    [
        [whole(b"PK")],
        [whole(_list_zip()[:-30])],
        [whole(_list_zip().replace(b"top-1m.csv", b"top-2m.csv"))],
        [whole(_list_zip(b""))],
        [whole(_list_zip(b"no comma\r\n"))],
        [whole(_list_zip(b"1,\xff\xfe\r\n"))],
        [whole(_list_zip(b"1,a.example\r\nno comma\r\n"))],
        [whole(_list_zip(b"1,a.example\r\n" * 5_000 + b"2,\xff\xfe\r\n"))],
        [whole(_zip_bomb(1 << 29))],
        [whole(b"", "Location: http://127.0.0.1:9/", status="302 Found")],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nPK"],
        [whole(gzip.compress(b"x"), "Content-Encoding: gzip")],
        [whole(b"x", "Content-Encoding: gzip")],
        [whole(b"", status="403 Forbidden")],
    ],
    ids=range(14),
)
def test_a_file_that_is_not_an_archive(tmp_path: Path, archive: list[bytes]) -> None:
    with pytest.raises(FirstflightError):
        tranco_from(tmp_path, _listed(archive))
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_list_that_broke_in_the_cache_is_named(tmp_path: Path) -> None:
    tranco_from(tmp_path, _listed([whole(_list_zip(b"1,a.example\r\n"))]))
    (cached,) = (tmp_path / "cache").glob("*.csv")
    cached.write_text("1,a.example\nno comma\n")
    with pytest.raises(InputError, match=f"remove {re.escape(str(cached))} to fetch it again"):
        tranco_from(tmp_path, _listed([whole(b"")]))


def test_broken_archives(tmp_path: Path) -> None:
    """Over HTTPS, as in real use."""
    broken = mutations(3, [_list_zip(b"".join(b"%d,a%d.example\r\n" % (n, n) for n in range(50)))], 60)
    refused = 0
    for number, content in enumerate(broken):
        (tmp_path / str(number)).mkdir()
        try:
            tranco_from(tmp_path / str(number), _listed([whole(content)]))
        except FirstflightError:
            refused += 1
    assert refused > 30


def test_bodies_without_end_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages, downloads, package fetches and redirections; with lower limits, to be quick."""
    monkeypatch.setattr(https, "MAX_PAGE_BYTES", 1 << 20)
    with serving(tmp_path / "host", lambda _: endless(b"x" * 65536)) as host:
        session = https.Session(host.authority)
        with pytest.raises(https.FetchError, match="more than 1048576 bytes"):
            https.get_text(session, host.url)
        with pytest.raises(https.FetchError, match="more than 100000 bytes"):
            https.download(session, host.url, tmp_path / "kept" / "x", 100_000)
        assert list((tmp_path / "kept").iterdir()) == []
        session.max_bytes = 1000
        with pytest.raises(https.FetchError, match="more than 1000 bytes"), https.explained("x"):
            session.get(host.url)
    packed = [whole(gzip.compress(bytes(1 << 24)), "Content-Encoding: gzip")]
    redirection = [b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1:9/\r\n\r\n", *[b"x" * 65536] * 100]
    for answer in (packed, redirection):
        with serving(tmp_path / "host", lambda _, answer=answer: answer) as host:  # type: ignore[misc]
            session = https.Session(host.authority)
            session.max_bytes = 1 << 20
            with pytest.raises(https.FetchError, match="more than 1048576 bytes"), https.explained("x"):
                session.get(host.url, allow_redirects=True)


def test_a_body_that_drips_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https, "MAX_BODY_S", 0.0)
    with (
        serving(tmp_path / "host", lambda _: endless(b"x" * 65536)) as host,
        pytest.raises(https.FetchError, match="no answer in time"),
    ):
        https.get_text(https.Session(host.authority), host.url)


def test_a_body_of_single_bytes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte restarts a read's timeout."""
    monkeypatch.setattr(https, "MAX_BODY_S", 0.5)

    def dripping(_: str) -> Iterator[bytes]:
        yield whole(b"x", "X: y").replace(b"Content-Length: 1", b"Content-Length: 65536")
        for _number in range(100):
            time.sleep(0.05)
            yield b"x"

    with (
        serving(tmp_path / "host", dripping) as host,
        pytest.raises(https.FetchError, match="no answer in time"),
    ):
        https.get_text(https.Session(host.authority), host.url)


@pytest.mark.parametrize(
    ("status", "after", "slept", "says"),
    [
        ("503 Busy", "3600", [60, 60, 60], "the host answered 503 Busy, with Retry-After: 3600"),
        ("429 Slow", "7", [7, 7, 7], "the host answered 429 Slow, with Retry-After: 7"),
        ("429 Slow", "Fri, 31 Dec 9999 23:59:59 GMT", [60, 60, 60], "with Retry-After: Fri, 31 Dec 9999"),
        # No valid time: the pauses are the same as between attempts without an answer.
        ("503 Busy", "soon", [1, 2], "with Retry-After: soon"),
        ("503 Busy", "9" * 5000, [1, 2], "with Retry-After: 999"),
    ],
)
def test_a_host_that_asks_for_long_pauses_gets_short_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, after: str, slept: list[float], says: str
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("urllib3.util.retry.time.sleep", pauses.append)
    with (
        serving(tmp_path / "host", lambda _: [whole(b"", f"Retry-After: {after}", status=status)]) as host,
        pytest.raises(https.FetchError, match=re.escape(says)) as caught,
    ):
        https.get_text(https.Session(host.authority), host.url)
    assert (pauses, len(host.asked)) == (slept, 1 + https.RETRIES)
    assert len(str(caught.value)) < 200


def test_a_redirect_to_http_is_not_followed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:
        plain.setblocking(False)
        location = f"Location: http://127.0.0.1:{plain.getsockname()[1]}/"
        with (
            serving(tmp_path / "host", lambda _: [whole(b"", location, status="302 Found")]) as host,
            pytest.raises(https.FetchError, match="cannot fetch"),
        ):
            https.get_text(https.Session(host.authority), host.url)
        with pytest.raises(BlockingIOError):
            plain.accept()


def test_lines_of_as_organisations_are_made_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"\n" * (2 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(FirstflightError, match="names no AS"):
            as2org.read(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * (2 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "link",
    [
        "../../rib.20240807.0200.bz2",
        "rib.20240807.0200.bz2/../x",
        "/etc/rib.20240807.0200.bz2",
        "rib.20240807.02\n00.bz2",
    ],
)
def test_links_of_a_directory_page_are_plain_names(link: str) -> None:
    assert routeviews._newest(f'<a href="{link}">x</a>', DAY) is None
    assert routeviews._newest('<a href="rib.20240807.0200.bz2">x</a>', DAY) == "rib.20240807.0200.bz2"
    assert not as2org._LINK.findall(
        f'<a href="{link.replace("rib.", "").replace(".0200.bz2", ".as-org2info.txt.gz")}">'
    )
