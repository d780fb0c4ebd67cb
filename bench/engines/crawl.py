"""Measure the crawl: `python -m bench crawl`.

`firstflight crawl` visits 1,000 and then 10,000 names, in a separate network namespace. Each name has a
different address on loopback, and needs a TLS handshake and three requests (robots.txt, the start page, HEAD
of the file). Limits per address are off, since no two names share an address. BIND serves the names;
lab/hosts/odd_files.py serves the pages. CPU time and memory are the kernel's account of the crawl's process
(user + system, peak resident memory).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import process, results
from bench.campaigns import campaign_world
from lab.declared.model import DnsRecord, Host
from lab.hosts import certificates
from lab.hosts.dns import zone_text

RESULT = "crawl"
ZONE = "bench.test"
NAMES = (1_000, 10_000)
# Requests per name: robots.txt, page, file.
REQUESTS = 3
# Limit for the growth of memory from the first to the second number of names, in millions of bytes.
LIMIT_MB = 15.0
_PORT, _DNS_PORT = 443, 5353
_READY_S = 120.0


@dataclass(frozen=True)
class Servers:
    """The addresses and files that a crawl of the names needs."""

    folder: Path
    names: list[str]
    authority: Path

    def argv(self, count: int) -> list[str]:
        """Return the command line that crawls the first `count` names."""
        targets = self.folder / f"targets-{count}.csv"
        targets.write_text("domain\n" + "".join(f"{name}\n" for name in self.names[:count]), encoding="ascii")
        return [
            *(sys.executable, "-P", "-m", "cli", "crawl", "--targets", str(targets)),
            *("--resolver", f"127.0.0.1:{_DNS_PORT}", "--roots", str(self.authority)),
            *("--allow-net", "127.0.0.0/8", "--rate", "100000", "--per-address-rate", "0"),
        ]


@contextmanager
def running(folder: Path, count: int) -> Iterator[Servers]:
    """Run servers for `count` names in this namespace until the block ends."""
    names = [f"name-{number}.{ZONE}" for number in range(count)]
    records = [
        DnsRecord(name, "A", 60, f"127.{10 + number // 62_500}.{number // 250 % 250}.{number % 250 + 1}")
        for number, name in enumerate(names)
    ]
    (folder / "zone").write_text(zone_text(ZONE, records, Host("dns", "dns", "127.0.0.1", "::1"), 1))
    options = [
        f'directory "{folder}"',
        *("pid-file none", "session-keyfile none", f'managed-keys-directory "{folder}"'),
        *(f"listen-on port {_DNS_PORT} {{ 127.0.0.1; }}", "listen-on-v6 { none; }"),
        *("recursion no", "allow-query { any; }", "dnssec-validation no"),
    ]
    (folder / "named.conf").write_text(
        f"options {{ {'; '.join(options)}; }};\ncontrols {{ }};\n"
        f'zone "{ZONE}" {{ type primary; file "zone"; }};\n'
    )
    authority = certificates.make_authority(folder)
    certificate = certificates.issue(authority, "bench", [f"*.{ZONE}"])
    given = {
        "listen": ["0.0.0.0"],
        "port": _PORT,
        "chain": str(certificate.chain),
        "key": str(certificate.key),
    }
    (folder / "odd.json").write_text(json.dumps(given))
    named_argv = ["/usr/sbin/named", "-g", "-n", "1", "-c", str(folder / "named.conf")]
    pages = [sys.executable, "-P", "-m", "lab.hosts.odd_files", str(folder / "odd.json")]
    started = []
    try:
        for name, argv, ready in (("named", named_argv, r" running$"), ("pages", pages, r"^READY$")):
            log = folder / f"{name}.log"
            with log.open("wb") as out:
                started.append(subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT))
            _wait(log, ready)
        yield Servers(folder, names, authority.path)
    finally:
        for server in started:
            server.terminate()
            server.wait()


def _wait(log: Path, ready: str) -> None:
    end = time.monotonic() + _READY_S
    while not re.search(ready, log.read_text(errors="replace"), re.MULTILINE):
        if time.monotonic() > end:
            raise SystemExit(f"bench: no server: {log.read_text(errors='replace')[-500:]}")
        time.sleep(0.05)


def found(out: Path) -> int:
    """Return the number of lines for found files in a crawl's output."""
    with out.open(encoding="utf-8") as lines:
        return sum(json.loads(line)["outcome"] == "found" for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if memory grows with the number of names by more than the limit."""
    parser = argparse.ArgumentParser(prog="bench crawl")
    parser.add_argument("--names", type=int, nargs=2, default=NAMES, help="of the first and the second crawl")
    parser.add_argument("--limit", type=float, default=LIMIT_MB, help="growth of memory, MB")
    results.add_option(parser)
    options = parser.parse_args(arguments)
    file = results.begin(parser, options.result, RESULT)
    campaign_world.enter_namespace("bench.engines.crawl", sys.argv[1:])
    values = results.Values()
    peaks = []
    with tempfile.TemporaryDirectory(prefix="firstflight-bench-") as name:
        folder = Path(name)
        with running(folder, max(options.names)) as servers:
            for count in options.names:
                out = folder / "out"
                used = process.run(servers.argv(count), out=out, quiet=True, env=dict(os.environ))
                peaks.append(used.peak_mb)
                per_s = count / used.cpu_s
                values.add(f"names per CPU second, {count:,} names", per_s)
                values.add(f"requests per CPU second, {count:,} names", REQUESTS * per_s)
                values.add(f"resident memory, {count:,} names", used.peak_mb, "MB")
                print(
                    f"{count:,} names: {per_s:,.0f} names and {REQUESTS * per_s:,.0f} "
                    f"requests per CPU second ({used.cpu_s:.1f} CPU s, {used.wall_s:.0f} s, "
                    f"{used.peak_mb:.0f} MB at most), {found(out):,} files found; {process.load()}",
                    flush=True,
                )
    growth = peaks[-1] - peaks[0]
    print(f"memory grew by {growth:.1f} MB; limit {options.limit:g} MB")
    met = values.add("growth of memory from the first to the second crawl", growth, "MB", most=options.limit)
    file.write(values.lines, results.packages("scrapy"))
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
