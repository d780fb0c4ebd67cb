"""Three namespaces: a vantage point that forwards, the lab's link, and a host with real web servers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from firstflight.system import binaries, children
from lab.declared.model import DnsRecord, Host
from lab.hosts import certificates
from lab.hosts.dns import dns_service
from lab.system.namespaces import MARK
from tests.waiting import until

VANTAGE_V4, VANTAGE_V6 = "198.18.9.1", "2001:db8:9::1"
SERVER_V4, SERVER_V6 = "198.18.9.2", "2001:db8:9::2"
RTT_US = 20_000
DOMAIN = "download.test"
NAME = f"files.{DOMAIN}"
TCP_ONLY = 8443  # a port without QUIC
SIZES = {"small": 150_000, "one": 1_000_000, "two": 2_000_000, "five": 5_000_000, "twenty": 20_000_000}
_GATEWAYS = {"v": "02:ff:01:00:00:01", "s": "02:ff:01:00:00:02"}
_OWN = {"v": "02:ff:00:00:00:01", "s": "02:ff:00:00:00:02"}
_PREPARE = """
ip link set lo alias {mark} up
ip link set eth0 up
ip address add {v4}/32 dev eth0
ip address add {v6}/128 dev eth0 nodad
ip neighbour replace 198.18.9.254 lladdr {gateway} nud permanent dev eth0
ip neighbour replace fe80::fe lladdr {gateway} nud permanent dev eth0
ip route add default via 198.18.9.254 dev eth0 onlink src {v4}
ip route add default via fe80::fe dev eth0 onlink src {v6}
ethtool -K eth0 tx off sg off tso off gso off gro off
"""
_FORWARD = """
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
"""
_NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr notice; {user} events {{ }}
http {{
  access_log {folder}/access.log combined; default_type application/octet-stream;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{
    listen {v4}:443 ssl http2; listen [{v6}]:443 ssl http2; listen {v4}:{tcp_only} ssl; server_name {name};
    root {folder}/www; ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.3;
    location /moved {{ return 301 https://elsewhere.test/; }}
    location /gone {{ return 410; }}
    location = /slow {{ alias {folder}/www/small; limit_rate 60k; }}
    location /human {{ add_header cf-mitigated challenge always; return 403; }}
    location = /tcp_only {{ alias {folder}/www/small; add_header alt-svc 'h3=":443"'; }}
  }}
}}
"""


class DownloadWorld:
    """Context manager for namespaces, link and servers; `run` runs a program at the vantage point."""

    def __init__(
        self, folder: Path, rtt_us: int = RTT_US, bottlenecks: Sequence[Mapping[str, object]] = ()
    ) -> None:
        """Prepare a world with the link's round-trip time and the configured bottlenecks."""
        self.folder = folder
        self.rtt_us = rtt_us
        self.bottlenecks = list(bottlenecks)
        self.roots = Path()
        self._stack = ExitStack()
        self._holders: dict[str, int] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for name in ("core", "v", "s"):
                self._holders[name] = self._keep_open(stack)
            for end in ("v", "s"):
                self.inside(
                    "core",
                    f"ip link add {end} address {_GATEWAYS[end]} type veth peer name eth0 "
                    f"address {_OWN[end]} netns {self._holders[end]} && ip link set {end} arp off up",
                )
            self._prepare("v", VANTAGE_V4, VANTAGE_V6)
            self.inside("v", _FORWARD)
            self._prepare("s", SERVER_V4, SERVER_V6)
            self._link(stack)
            self._servers(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def lateness(self) -> Path:
        """Return the link's log."""
        return self.folder / "lateness"

    def enter(self, name: str, argv: Sequence[str]) -> list[str]:
        """Return the argument list that runs a program in a namespace: core, v(antage point) or s(erver)."""
        return ["nsenter", f"--net=/proc/{self._holders[name]}/ns/net", "--", *argv]

    def inside(self, name: str, script: str) -> str:
        """Run a shell script in a namespace; return the output."""
        argv = self.enter(name, ["sh", "-e", "-c", script])
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def run(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run `firstflight` at the vantage point until it exits."""
        argv = self.enter("v", [str(Path(".venv/bin/firstflight").absolute()), *map(str, arguments)])
        return subprocess.run(argv, capture_output=True, text=True, check=False, **options)

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[bytes]:
        """Start `firstflight` at the vantage point."""
        argv = self.enter("v", [str(Path(".venv/bin/firstflight").absolute()), *map(str, arguments)])
        return children.start(argv, **options)

    def download(
        self, folder: Path, files: Iterable[tuple[str, str]], sets: str, *more: object
    ) -> tuple[list[dict[str, Any]], subprocess.CompletedProcess[str]]:
        """Run `firstflight download` for (URL or path, address); return the rows and the finished process."""
        folder.mkdir(exist_ok=True)
        targets = folder / "targets.csv"
        targets.write_text("url,ip\n" + "".join(f"{self.url(path)},{ip}\n" for path, ip in files))
        arguments = ("--targets", targets, "--sets", sets, "--roots", self.roots, "--rate", 20, *more)
        allowed = ("--allow-net", "198.18.0.0/15", "--allow-net", "2001:db8::/32")
        done = self.run("download", *arguments, *allowed)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done

    def url(self, path: str) -> str:
        """Return the URL of a file of the server; a whole one stays."""
        return path if "//" in path else f"https://{NAME}/{path}"

    @contextmanager
    def names(self, addresses: Mapping[str, str], broken: Collection[str] = ()) -> Iterator[None]:
        """Serve the addresses of these names, separated by spaces, by the lab's name server at SERVER_V4.

        Names in `broken` zones are SERVFAIL.
        """
        host = Host("s", "dns", SERVER_V4, SERVER_V6)
        records = [
            DnsRecord(name, "A", 60, address)
            for name, found in addresses.items()
            for address in found.split()
        ]
        with ExitStack() as stack:
            service = dns_service(self.folder, host, records, broken)
            self._serve(stack, "s", service.argv, b"running")
            yield

    def _keep_open(self, stack: ExitStack) -> int:
        holder = children.start(
            ["unshare", "--net", "sh", "-c", "echo; exec cat"],
            own_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stack.callback(children.stop, holder)
        assert holder.stdout is not None
        assert holder.stdout.readline(), "no network namespace: run the tests by tests/isolated"
        return holder.pid

    def _prepare(self, end: str, v4: str, v6: str) -> None:
        self.inside(end, _PREPARE.format(mark=MARK, v4=v4, v6=v6, gateway=_GATEWAYS[end]))

    def _link(self, stack: ExitStack) -> None:
        hosts = [
            {
                "name": end,
                "interface": end,
                "mac": _OWN[end],
                "gateway": _GATEWAYS[end],
                "addresses": addresses,
            }
            for end, addresses in (("v", (VANTAGE_V4, VANTAGE_V6)), ("s", (SERVER_V4, SERVER_V6)))
        ]
        config = {
            "lateness": str(self.lateness),
            "default_rtt_us": 0,
            "hosts": hosts,
            "rtt_us": [("v", "s", self.rtt_us)],
            "drops": [],
            "bottlenecks": self.bottlenecks,
        }
        file = self.folder / "link.json"
        file.write_text(json.dumps(config))
        argv = [str(binaries.find("firstflight-link")), "--config", str(file)]
        self._serve(stack, "core", argv, b"READY")

    def _servers(self, stack: ExitStack) -> None:
        www = self.folder / "www"
        www.mkdir()
        for name, size in SIZES.items():
            (www / name).write_bytes(os.urandom(size))
        authority = certificates.make_authority(self.folder)
        self.roots = authority.path
        issued = certificates.issue(authority, "files", [NAME, f"*.{DOMAIN}"])
        (self.folder / "nginx.conf").write_text(
            _NGINX.format(
                folder=self.folder,
                user="user root;" if os.geteuid() == 0 else "",
                tcp_only=TCP_ONLY,
                v4=SERVER_V4,
                v6=SERVER_V6,
                name=NAME,
                chain=issued.chain,
                key=issued.key,
            )
        )
        nginx = ["nginx", "-e", "stderr", "-p", str(self.folder), "-c", str(self.folder / "nginx.conf")]
        self._serve(stack, "s", nginx, b"start worker process ")
        files = [str(binaries.find("firstflight-files")), "--root", str(www)]
        files += ["--certificate", str(issued.chain), "--key", str(issued.key)]
        files += ["--listen", f"{SERVER_V4}:443", f"[{SERVER_V6}]:443"]
        self._serve(stack, "s", files, b"READY")

    def _serve(self, stack: ExitStack, where: str, argv: Sequence[str], ready: bytes) -> None:
        log = self.folder / f"{Path(argv[0]).name}.log"
        with log.open("wb") as out:
            process = children.start(self.enter(where, argv), own_session=True, stdout=out, stderr=out)
        stack.callback(children.stop, process)
        until(lambda: ready in log.read_bytes() or process.poll() is not None, f"{argv[0]} to be ready")
        assert process.poll() is None, log.read_text()
