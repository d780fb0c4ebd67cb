"""The host of sites with files: nginx with real files over TLS 1.3, HTTP/1.1 and HTTP/2, and the odd server.

STATE/files holds all of it: document roots, configurations, certificates' names, access log. All files of a
size are the same file on disk. The content is incompressible.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.declared.file_sites import ZONE, FileSite
from lab.declared.model import DnsRecord, Service
from lab.hosts.certificates import Authority, issue
from lab.hosts.odd_files import BEHAVIOURS
from lab.system.programs import program

PORT = 443
_TTL = 300


def records(sites: Sequence[FileSite]) -> list[DnsRecord]:
    """Return the address of each served name, including `www.` names."""
    dns_records = []
    for site in sites:
        assert site.ip is not None
        dns_records.append(DnsRecord(site.name, "A", _TTL, site.ip))
        if site.kind != "none":
            www_ip = sites[0].ip if site.www_elsewhere else site.ip
            assert www_ip is not None
            dns_records.append(DnsRecord(f"www.{site.name}", "A", _TTL, www_ip))
    return dns_records


def services(state: Path, host: str, sites: Sequence[FileSite], authority: Authority) -> list[Service]:
    """Write all files below STATE/files and return nginx and the odd server, to run on `host`."""
    folder = state / "files"
    served = [site for site in sites if site.kind == "files"]
    server = nginx(folder, "files-nginx", host, served, authority, as_root=os.geteuid() == 0)
    odd = [site for site in sites if site.kind == "odd"]
    names = [name for site in odd for name in (site.name, f"www.{site.name}")]
    names += [f"{label}.{ZONE}" for label in BEHAVIOURS if f"{label}.{ZONE}" not in names]
    certificate = issue(authority, "odd-files", names)
    config = {
        "listen": [site.ip for site in odd],
        "port": PORT,
        "chain": str(certificate.chain),
        "key": str(certificate.key),
    }
    (folder / "odd.json").write_text(json.dumps(config))
    return [
        server,
        Service("odd-files", host, _python("lab.hosts.odd_files", str(folder / "odd.json")), r"^READY$"),
    ]


def nginx(
    folder: Path, name: str, host: str, sites: Sequence[FileSite], authority: Authority, *, as_root: bool
) -> Service:
    """Write configuration and files of `sites` below `folder`; return nginx as service `name` on `host`."""
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    for site in sites:
        _write_tree(folder, site)
    config = folder / "nginx.conf"
    config.write_text(_nginx(folder, sites, authority, as_root=as_root))
    argv = (program("nginx", "nginx-light"), "-e", "stderr", "-p", f"{folder}/", "-c", str(config))
    return Service(name, host, argv, r"start worker process \d+", cwd=folder)


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", module, *arguments)


def _write_tree(folder: Path, site: FileSite) -> None:
    root = folder / "www" / site.label
    root.mkdir(parents=True, exist_ok=True)
    if site.robots is not None:
        (root / "robots.txt").write_text(site.robots)
    for path, links in site.pages.items():
        rows = "".join(f'<p><a href="{link}">a link</a></p>\n' for link in links)
        page = root / (path.strip("/") or "index.html")
        page.write_text(f"<!doctype html>\n<title>{site.name}</title>\n<h1>{site.name}</h1>\n{rows}")
    for path, size in site.files.items():
        target = root / path.strip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        os.link(_content(folder, size), target)


def _content(folder: Path, size: int) -> Path:
    """Return a file with `size` bytes. The content is always the same for a size."""
    path = folder / f"{size}.bin"
    if not path.exists() or path.stat().st_size != size:
        path.write_bytes(random.Random(size).randbytes(size))
    return path


def _nginx(folder: Path, sites: Sequence[FileSite], authority: Authority, *, as_root: bool) -> str:
    lines = [
        "daemon off;",
        "worker_processes 1;",
        "pid nginx.pid;",
        "error_log stderr notice;",
        *(["user root;"] if as_root else []),
        "events { worker_connections 1024; }",
        "http {",
        "log_format crawl '$host $request_method $request_uri $status \"$http_user_agent\"';",
        "access_log access.log crawl;",
        "sendfile on;",
        "server_tokens off;",
        "types { text/plain txt; application/octet-stream bin; }",
        "default_type text/html;",
        *(f"{kind}_temp_path tmp/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")),
    ]
    for site in sites:
        names = [site.name, f"www.{site.name}"]
        certificate = issue(authority, f"files-{site.label}", names, flaw="other_name" if site.flaw else None)
        listen = [f"listen {site.ip}:{PORT} ssl http2;"]
        keys = [
            f'ssl_certificate "{certificate.chain}";',
            f'ssl_certificate_key "{certificate.key}";',
            "ssl_protocols TLSv1.3;",
        ]
        if site.at_www:
            redirect = f"location / {{ return 301 https://www.{site.name}$request_uri; }}"
            lines += ["server {", *listen, f"server_name {site.name};", *keys, redirect, "}"]
        name = f"www.{site.name}" if site.at_www else " ".join(names)
        root = f'root "{folder / "www" / site.label}";'
        lines += ["server {", *listen, f"server_name {name};", *keys, root, site.rules, "}"]
    return "\n".join([*lines, "}"]) + "\n"
