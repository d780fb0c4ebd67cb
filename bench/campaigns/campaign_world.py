"""The inputs and peers for a measured campaign: a network namespace, two responders, a list, a routing table.

All traffic is on loopback, in a network namespace without another interface. The responders
(bench/responder) answer queries for any name with an address in 127.0.0.0/8, and QUIC Initials to any of
these addresses.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from firstflight.egress import lab
from firstflight.system import binaries

VANTAGE = "here"
PREFIXES = 100_000
# Capture buffer. At 20,000 probes per second, the default one fills in 50 ms while tcpdump waits for a core.
BUFFER_KIB = 131_072
# Origin ASes of five in ten prefixes: three, one and one prefix per CDN. The other five have any AS.
_CDN_ORIGINS = (13335, 13335, 13335, 16509, 15169)
_TOP_LEVEL = ("com", "net", "org", "de", "io", "co.uk")
_DUMPED_AT = 1_722_988_800  # 2024-08-07 UTC, the day of the lab's list


def enter_namespace(module: str, arguments: Sequence[str]) -> None:
    """Make sure that this process runs in a lab namespace that has only `lo`.

    Returns if it does. Otherwise starts `module` again in a new namespace and does not return. Raises
    SystemExit if it cannot create a namespace.
    """
    if [name for _, name in socket.if_nameindex()] == ["lo"] and lab.is_lab():
        return
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    raise_lo = f'ip link set lo up && ip link set lo alias {lab.MARK} && exec "$@"'
    argv = [sys.executable, "-m", module, *arguments]
    try:
        os.execvp("unshare", ["unshare", *user, "--net", "sh", "-c", raise_lo, "sh", *argv])
    except OSError as error:
        raise SystemExit(f"bench: cannot start unshare: {error.strerror}; install util-linux") from error


@contextmanager
def responders() -> Iterator[None]:
    """Run the two responders: DNS at 127.0.0.1:53, QUIC at port 443 of all addresses."""
    program = binaries.find("firstflight-responder")
    started: list[subprocess.Popen[bytes]] = []
    try:
        for options in (["--listen", "0.0.0.0:443"], ["--dns", "--listen", "127.0.0.1:53"]):
            responder = subprocess.Popen([program, *options], stdout=subprocess.PIPE)
            started.append(responder)
            assert responder.stdout is not None
            if responder.stdout.readline() != b"READY\n":
                raise SystemExit(f"bench: the responder did not start with {' '.join(options)}")
        yield
    finally:
        for responder in started:
            responder.kill()
            responder.wait()


@dataclass(frozen=True)
class BenchWorld:
    """A folder with a campaign's inputs, its runs, its store and its report page.

    `rate`: new probes per second; `resolve_rate`: queries per second; `rib`: an MRT file to use instead of
    a made-up routing table.
    """

    folder: Path
    names: int
    rate: float
    resolve_rate: float
    rib: Path | None = None

    @property
    def store(self) -> Path:
        """Folder of the embedded store."""
        return self.folder / "store"

    @property
    def page(self) -> Path:
        """Folder of the report page."""
        return self.folder / "page"

    @property
    def cache(self) -> Path:
        """Folder of converted routing tables; empty before the campaign."""
        return self.folder / "cache"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the campaign's commands."""
        return {
            **os.environ,
            "FIRSTFLIGHT_RUNS": str(self.folder / "runs"),
            "FIRSTFLIGHT_STORE": f"chdb:{self.store}",
        }

    def write(self) -> Path:
        """Write the inputs; return the settings file."""
        self.folder.mkdir(parents=True)
        with (self.folder / "names.csv").open("w", encoding="ascii") as out:
            out.writelines(f"{name}\n" for name in made_names(self.names))
        rib = self.rib or self.folder / "rib.mrt"
        if self.rib is None:
            with rib.open("wb") as table:
                table.writelines(made_table(PREFIXES))
        path = self.folder / "campaign.toml"
        path.write_text(
            f"""[campaign]
name = "bench"
[targets]
source = "file"
file = "names.csv"
[as_data]
rib = "file"
files = ["{rib.resolve()}"]
cache_dir = "{self.cache}"
[resolve]
resolver = "127.0.0.1"
rate = {self.resolve_rate:g}
[probe]
rate = {self.rate:g}
allow_net = ["127.0.0.0/8"]
[capture]
buffer_kib = {BUFFER_KIB}
[store]
url = "chdb:{self.store}"
[[vantage]]
name = "{VANTAGE}"
interface = "lo"
""",
            encoding="utf-8",
        )
        return path


def made_names(count: int) -> Iterator[str]:
    """Yield `count` distinct names of 13 to 24 characters that do not exist; every call yields the same."""
    for number in range(count):
        digits = hashlib.sha256(number.to_bytes(4)).hexdigest()
        label = digits[: 5 + number % 8].translate(_LETTERS)
        yield f"{label}{number:x}.{_TOP_LEVEL[number % len(_TOP_LEVEL)]}.test"


_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def made_table(prefixes: int) -> Iterator[bytes]:
    """Yield the records in a table dump (RFC 6396, TABLE_DUMP_V2): IPv4 prefixes with one route each.

    The first prefixes are all /24 networks of 127.0.0.0/8; the others start at 20.0.0.0.
    """
    peer = struct.pack("!B4s4sI", 2, bytes(4), bytes(4), 64496)
    yield table_record(1, struct.pack("!4sHH", bytes(4), 0, 1) + peer)
    for number in range(prefixes):
        network = (127 << 16) + number if number < 1 << 16 else (20 << 16) + number - (1 << 16)
        kind = number % 10
        asn = _CDN_ORIGINS[kind] if kind < len(_CDN_ORIGINS) else 1 + number * 2_654_435_761 % 60_000
        path = struct.pack("!BBII", 2, 2, 64496, asn)
        attributes = b"\x40\x01\x01\x00" + struct.pack("!BBB", 0x40, 2, len(path)) + path
        entry = struct.pack("!HIH", 0, _DUMPED_AT, len(attributes)) + attributes
        head = struct.pack("!IB", number, 24) + network.to_bytes(3) + struct.pack("!H", 1)
        yield table_record(2, head + entry)


def table_record(subtype: int, body: bytes) -> bytes:
    """Return a record of type TABLE_DUMP_V2 (RFC 6396)."""
    return struct.pack("!IHHI", _DUMPED_AT, 13, subtype, len(body)) + body
