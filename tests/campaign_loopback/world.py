"""A world on loopback for whole campaigns: BIND, a QUIC server, a routing table, a target list, settings."""

from __future__ import annotations

import ipaddress
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests import stores
from tests.campaign_loopback.quic_server import ALIASED
from tests.engines import record_rows
from tests.free_port import free_port
from tests.processes import halt
from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).parent.parent.parent
FIRSTFLIGHT = [sys.executable, "-P", "-m", "cli"]
ANSWERING = 20  # names with a server at their address
SILENT = 60  # names without a server at their address: the kernel refuses
OPTED_OUT = "optout.camp.test"
ALIAS = f"{ALIASED}.alias.camp.test"  # this alias and the certificate assign the name to the CDN "Loop"
RULES = """
[[rule]]
cdn = "Loop"
source = "this test"
cname = ["alias.camp.test"]
[[rule]]
cdn = "Loop"
source = "this test"
subject = ["CN=edge.camp.test"]
"""


def mrt_table(prefixes: dict[str, int]) -> bytes:
    """Return a table dump (RFC 6396, TABLE_DUMP_V2) of IPv4 prefixes with their origin AS, one peer."""

    def record(subtype: int, body: bytes) -> bytes:
        return struct.pack("!IHHI", 1_700_000_000, 13, subtype, len(body)) + body

    peer = struct.pack("!B4s4sI", 2, bytes(4), bytes(4), 64496)
    out = record(1, struct.pack("!4sHH", bytes(4), 0, 1) + peer)
    for number, (prefix, asn) in enumerate(prefixes.items()):
        network = ipaddress.ip_network(prefix)
        octets = network.network_address.packed[: (network.prefixlen + 7) // 8]
        path = struct.pack("!BBII", 2, 2, 64496, asn)
        attributes = b"\x40\x01\x01\x00" + struct.pack("!BBB", 0x40, 2, len(path)) + path
        entry = struct.pack("!HIH", 0, 1_700_000_000, len(attributes)) + attributes
        out += record(
            2, struct.pack("!IB", number, network.prefixlen) + octets + struct.pack("!H", 1) + entry
        )
    return out


def addresses() -> dict[str, str]:
    """Return name -> address; the first ANSWERING ones have a server."""
    names = {f"edge{n}.camp.test": f"127.9.1.{n + 1}" for n in range(ANSWERING)}
    names |= {f"closed{n}.camp.test": f"127.9.2.{n + 1}" for n in range(SILENT)}
    return names | {OPTED_OUT: "127.9.3.1"}


@dataclass
class CampaignWorld:
    """All files and servers for a campaign, in a folder. `more`: names with addresses that have no server."""

    folder: Path
    more: Mapping[str, str] = field(default_factory=dict)
    dns_port: int = field(default_factory=free_port)
    quic_port: int = field(default_factory=free_port)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def raise_it(self) -> None:
        """Start the servers and write the files."""
        self._named()
        self._quic()
        (self.folder / "names.csv").write_text(
            "".join(f"{name}\n" for name in [*self.names(), "none.camp.test"])
        )
        (self.folder / "rib.mrt").write_bytes(mrt_table({"127.9.1.0/24": 13335, "127.9.2.0/24": 3320}))
        (self.folder / "rules.toml").write_text(RULES)
        (self.folder / "optout.conf").write_text(f"{OPTED_OUT}\n")
        stores.with_tables(self.folder / "store")

    def names(self) -> dict[str, str]:
        """Return name -> address for all names of the list with an address."""
        return {**addresses(), **self.more}

    def end(self) -> None:
        """Stop the servers."""
        for process in self._processes:
            process.kill()
            process.wait()

    def settings(self, name: str = "c.toml", *, rate: float = 100, vantages: str | None = None) -> Path:
        """Write a settings file for this world, with two local vantage points unless `vantages` is given."""
        default_vantages = "".join(
            f'[[vantage]]\nname = "{v}"\ninterface = "lo"\nports = "{first}-{first + 31}"\n'
            for v, first in (("east", 61000), ("west", 62000))
        )
        path = self.folder / name
        path.write_text(
            f"""
[campaign]
name = "loopback"
repetition_interval_s = 0
shared_limits = false
before_repetition = ["sh", "-c", "echo {{repetition}} >> {self.folder}/hook"]
[targets]
source = "file"
file = "names.csv"
[as_data]
rib = "file"
files = ["rib.mrt"]
cache_dir = "cache"
cdn_rules_extra = ["rules.toml"]
[resolve]
resolver = "127.0.0.1"
port = {self.dns_port}
rate = 5000
timeout_s = 30
[probe]
port = {self.quic_port}
rate = {rate}
per_prefix_rate = 0
timeout_s = 30
allow_net = ["127.9.0.0/16"]
optout = ["optout.conf"]
[store]
url = "{self.store}"
{default_vantages if vantages is None else vantages}
"""
        )
        return path

    @property
    def store(self) -> str:
        """Return the address of the store that campaigns load into."""
        return f"chdb:{self.folder}/store"

    def sql(self, query: str) -> str:
        """Return the store's answer, as lines of tab-separated values."""
        return stores.asked(self.store, query)

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment for a campaign in this world."""
        return {**os.environ, "FIRSTFLIGHT_RUNS": str(self.folder / "runs"), "FIRSTFLIGHT_STORE": self.store}

    def campaign(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `firstflight campaign run ARGUMENTS` until it exits, with any exit status."""
        return self.firstflight("campaign", "run", *arguments, expect=None)

    def firstflight(self, *words: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        """Run `firstflight WORDS` until it exits; check its exit status unless `expect` is null."""
        done = subprocess.run(
            [*FIRSTFLIGHT, *words],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.folder,
            timeout=PATIENCE_S,
        )
        assert expect is None or done.returncode == expect, done.stderr
        return done

    def start_campaign(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a campaign and return immediately."""
        return subprocess.Popen(
            [*FIRSTFLIGHT, "campaign", "run", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
        )

    def stop_server(self) -> subprocess.Popen[bytes]:
        """Stop the QUIC server's process: its ports stay bound without answers."""
        (server,) = [process for process in self._processes if "quic_server.py" in str(process.args)]
        halt(server.pid)
        return server

    def go_on(self, server: subprocess.Popen[bytes]) -> None:
        """Continue the QUIC server's process."""
        server.send_signal(signal.SIGCONT)

    def runs(self) -> list[Path]:
        """Return all run folders, oldest first; the same folder has the locks of watches."""
        root = self.folder / "runs"
        return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []

    def rows(self, run: Path, vantage: str, repetition: int) -> list[dict[str, object]]:
        """Return the rows in a quic_probe.parquet."""
        path = run / vantage / str(repetition) / "probe" / "quic_probe.parquet"
        rows: list[dict[str, object]] = record_rows.read(path)
        return rows

    def _named(self) -> None:
        program = shutil.which("named", path="/usr/sbin:/usr/bin")
        assert program, "the tests need BIND: apt-get install bind9"
        folder = self.folder / "named"
        folder.mkdir()
        records = "".join(
            f"{ALIAS if name == ALIASED else name}. IN A {address}\n"
            for name, address in self.names().items()
        )
        records += f"{ALIASED}. IN CNAME {ALIAS}.\n"
        head = "$TTL 60\n@ IN SOA ns hostmaster 1 3600 600 86400 60\n@ IN NS ns\nns IN A 127.0.0.1\n"
        (folder / "zone").write_text(head + records)
        (folder / "named.conf").write_text(
            f'options {{ directory "{folder}"; pid-file none; session-keyfile none; recursion no; '
            f'managed-keys-directory "{folder}"; dnssec-validation no; notify no; '
            f"listen-on port {self.dns_port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; }};\n"
            'controls { }; zone "camp.test" { type primary; file "zone"; };\n'
        )
        self._start([program, "-g", "-n", "1", "-c", str(folder / "named.conf")], "running")

    def _quic(self) -> None:
        served = list(addresses().values())[:ANSWERING]
        script = Path(__file__).with_name("quic_server.py")
        self._start([sys.executable, str(script), str(self.quic_port), *served], "ready")

    def _start(self, argv: list[str], ready: str) -> None:
        log = self.folder / f"{Path(argv[0]).name}-{len(self._processes)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(argv, stdout=output, stderr=output)
        self._processes.append(process)

        def is_ready() -> bool:
            assert process.poll() is None, log.read_text()
            return ready in log.read_text().split()

        until(is_ready, f"{argv[0]} is ready")


def interrupt(process: subprocess.Popen[str]) -> None:
    """Send SIGINT, as Ctrl-C does."""
    process.send_signal(signal.SIGINT)
