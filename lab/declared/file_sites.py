"""The web sites with files to download, and a crawl's expected results.

nginx serves the sites of kind `files` as plain files (lab/hosts/file_host.py), over TLS 1.3 with HTTP/1.1 and
HTTP/2. lab/hosts/odd_files.py serves the sites of kind `odd`. Each site has a separate address, so that
limits per address delay no site. Sizes are in bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Literal

ZONE = "downloads.test"
_FIRST = IPv4Address("198.18.192.1")
# Listed in [blocklist] of the behaviour file. No host has this address.
_BLOCKED = "198.18.158.200"

MB = 1_000_000
FILE = "/files/download.bin"

Kind = Literal["files", "odd", "none"]


@dataclass(frozen=True)
class FileSite:
    """One name. `status` to `path` describe the file that a crawl finds, or are null if it finds no file.

    `pages` maps a page's path to the page's links, `files` a path to a size. `flaw`: the certificate is for
    another name.
    """

    label: str
    kind: Kind
    outcome: str
    status: int | None = None
    method: str | None = None
    size: int | None = None
    is_lower_bound: bool = False
    path: str | None = None
    depth: int | None = None
    robots: str | None = None  # robots.txt
    rules: str = ""  # nginx rules
    pages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    at_www: bool = False  # its pages are at www.NAME
    www_elsewhere: bool = False  # www.NAME has the address of the first site
    flaw: bool = False
    ip: str | None = None

    @property
    def name(self) -> str:
        """The domain name."""
        return f"{self.label}.{ZONE}"

    @property
    def is_unserved(self) -> bool:
        """Whether no host has the address."""
        return self.ip == _BLOCKED

    @property
    def url(self) -> str | None:
        """The URL of the file that a crawl finds."""
        if self.path is None:
            return None
        return f"https://{'www.' if self.at_www else ''}{self.name}{self.path}"


def _file(label: str, size: int, outcome: str = "found", **changes: object) -> FileSite:
    values: dict[str, object] = {
        "status": 200,
        "method": "head",
        "size": size,
        "path": FILE,
        "depth": 1,
        "pages": {"/": (FILE,)},
        "files": {FILE: size},
    }
    return FileSite(label, "files", outcome, **{**values, **changes})  # type: ignore[arg-type]


def _none(label: str, outcome: str, **changes: object) -> FileSite:
    return FileSite(label, "files", outcome, **changes)  # type: ignore[arg-type]


def _odd(label: str, outcome: str, **changes: object) -> FileSite:
    return FileSite(label, "odd", outcome, **changes)  # type: ignore[arg-type]


def _chain(links: int) -> dict[str, tuple[str, ...]]:
    """Return pages that each link to the next one, the last one to the file."""
    pages = {"/" if number == 0 else f"/page-{number}": (f"/page-{number + 1}",) for number in range(links)}
    return {**pages, f"/page-{links}": (FILE,)}


_FOUND = {"status": 200, "method": "head", "path": FILE, "depth": 1}
_TEXT = "User-agent: *\n"
_CHALLENGE = "add_header cf-mitigated challenge always;"

_SITES = (
    _file("one", 1 * MB),
    _file("two", 2 * MB),
    _file("five", 5 * MB),
    _file("ten", 10 * MB),
    _file("large", 12 * MB, "too_large"),
    _file("small", 100_000, "too_small"),
    _file("deep", 1 * MB, depth=3, pages=_chain(2)),
    _none("too-deep", "nothing_found", pages=_chain(6), files={FILE: MB}),
    _none("nothing", "nothing_found", pages={"/": ("https://one.downloads.test" + FILE,)}),
    _file("robots-allow", 1 * MB, robots=f"{_TEXT}Allow: /\n"),
    _file("robots-ours", 1 * MB, robots=f"{_TEXT}Disallow: /\n\nUser-agent: Firstflight\nAllow: /\n"),
    _none("robots-forbid", "robots", robots=f"{_TEXT}Disallow: /\n", files={FILE: MB}, pages={"/": (FILE,)}),
    _none(
        "robots-files",
        "robots",
        robots=f"{_TEXT}Disallow: /files/\n",
        files={FILE: MB},
        pages={"/": (FILE,)},
    ),
    _none(
        "robots-503",
        "robots",
        rules="location = /robots.txt { return 503; }",
        files={FILE: MB},
        pages={"/": (FILE,)},
    ),
    _none("redirect", "elsewhere", rules=f"location = / {{ return 302 https://one.{ZONE}/; }}"),
    _file("redirect-www", 1 * MB, at_www=True),
    _none("missing", "http_error", files={FILE: MB}),
    _none("other-name", "failed", flaw=True, files={FILE: MB}, pages={"/": (FILE,)}),
    FileSite("refused", "none", "failed"),
    FileSite("blocked", "none", "blocked", ip=_BLOCKED),
    _odd("robots-endless", "found", size=MB, **_FOUND),
    _odd("trap", "limit"),
    _odd("no-length", "found", status=200, method="get", size=MB, is_lower_bound=True, path=FILE, depth=1),
    _odd("ranges", "found", status=206, method="range", size=3 * MB, path=FILE, depth=1),
    _odd("breaks", "no_size", status=200, method="get", path=FILE, depth=1),
    _odd("wrong-length", "found", size=2 * MB, **_FOUND),
    _odd("slow", "found", size=MB, **_FOUND),
    _odd("changes", "found", size=1_500_000, **_FOUND),
    _odd("bomb", "nothing_found"),
    _odd("giant-page", "found", status=200, method="get", size=MB, is_lower_bound=True, path="/", depth=0),
    _odd("hostile-links", "nothing_found"),
    _odd("endless-fields", "failed"),
    _odd("redirects", "failed"),
    _odd("walls", "robots"),
    _none("www-elsewhere", "elsewhere", at_www=True, www_elsewhere=True),
    _odd("packed", "found", size=MB, **_FOUND),
    _odd("unknown-coding", "nothing_found"),
    _odd("umlauts", "found", size=MB, **{**_FOUND, "path": "/%C3%BC.bin"}),
    _odd("costly", "found", size=MB, **{**_FOUND, "depth": 3}),
    _none("challenge", "challenge", rules=f"location = / {{ {_CHALLENGE} return 403; }}"),
    _none("challenge-robots", "challenge", rules=f"location = /robots.txt {{ {_CHALLENGE} return 503; }}"),
    _odd("captcha", "challenge"),
    _odd("interstitial", "challenge"),
)


def truth() -> Iterator[dict[str, object]]:
    """Yield the expected result of a crawl of each site, by columns of download_file.

    A lower bound in `size` is a minimum: a client stores a little more than the range it requests.
    """
    return map(line, sites())


def line(site: FileSite) -> dict[str, object]:
    """Return the expected result of crawling a site."""
    return {
        "domain": site.name,
        "ip": site.ip,
        "url": site.url,
        "outcome": site.outcome,
        "status": site.status,
        "method": site.method,
        "size": site.size,
        "size_is_lower_bound": site.is_lower_bound,
        "depth": site.depth,
    }


def sites(first: str = str(_FIRST)) -> list[FileSite]:
    """Return all sites; sites without a fixed address get the addresses from `first` on."""
    begin = IPv4Address(first)
    return [
        site if site.ip else FileSite(**{**site.__dict__, "ip": str(begin + index)})
        for index, site in enumerate(_SITES)
    ]
