"""Web sites with one file each in networks of CDNs, on hosts with individual TCP settings.

Each site has an address in a CDN's block that no other name of the lab has, so that the routing table gives
it an origin AS. `http3`: the file is also served over HTTP/3. Sizes are in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.declared.file_sites import FILE, MB, FileSite

ZONE = "mirrors.test"
# Sites of file_sites.py with a file that cannot be downloaded completely, or that changes each time.
ODD = ("slow", "changes", "wrong-length")


@dataclass(frozen=True)
class Mirror(FileSite):
    """One name below `ZONE` on `host`, a host of kind `mirror`."""

    host: str = ""
    http3: bool = False
    moves: bool = False  # HEAD finds the file, GET is redirected to another name

    @property
    def name(self) -> str:
        """The domain name."""
        return f"{self.label}.{ZONE}"


_PROMISE = "add_header Alt-Svc 'h3=\":443\"; ma=86400';"
_MOVES = f"location = {FILE} {{ if ($request_method = GET) {{ return 302 https://one.downloads.test/; }} }}"


def _mirror(label: str, ip: str, size: int, *, host: str = "mirrors", http3: bool = False) -> Mirror:
    return Mirror(
        label,
        "files",
        "found",
        status=200,
        method="head",
        size=size,
        path=FILE,
        depth=1,
        rules=_PROMISE * (http3 or label == "promise") + _MOVES * (label == "moves"),
        pages={"/": (FILE,)},
        files={FILE: size},
        ip=ip,
        host=host,
        http3=http3,
        moves=label == "moves",
    )


SITES = (
    _mirror("akamai-1", "198.18.31.1", 1 * MB, http3=True),
    _mirror("akamai-2", "198.18.31.2", 2 * MB),
    _mirror("amazon-1", "198.18.47.1", 1 * MB, http3=True),
    _mirror("amazon-5", "198.18.47.2", 5 * MB),
    _mirror("cloudflare-1", "198.18.63.1", 1 * MB, http3=True),
    _mirror("cloudflare-10", "198.18.63.2", 10 * MB, http3=True),
    _mirror("google-1", "198.18.95.1", 1 * MB, http3=True),
    _mirror("microsoft-2", "198.18.127.1", 2 * MB, http3=True),
    _mirror("others-5", "198.18.143.1", 5 * MB, http3=True),
    _mirror("promise", "198.18.143.2", 1 * MB),  # Alt-Svc lists HTTP/3, but there is no server
    _mirror("moves", "198.18.143.3", 1 * MB),
    _mirror("no-sack", "198.18.143.11", 1 * MB, host="no_sack"),
    _mirror("no-scaling", "198.18.143.12", 1 * MB, host="no_scaling"),
    _mirror("no-ecn", "198.18.143.13", 1 * MB, host="no_ecn"),
    _mirror("no-timestamps", "198.18.143.14", 1 * MB, host="no_timestamps"),
)


def sites_of_host(host: str) -> list[Mirror]:
    """Return a host's sites."""
    return [site for site in SITES if site.host == host]
