"""The HTTPS server on host `web`: nginx with the real names of the list and routing-table hosts.

Each name has a certificate from the lab's authority. STATE/web holds all files: configuration, document
roots, keys, access log.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.declared.model import Host, Service
from lab.system.programs import program


@dataclass(frozen=True)
class VirtualHost:
    """One virtual host: its name, document root, certificate, and nginx rules beyond plain files."""

    name: str
    root: Path
    chain: Path
    key: Path
    before: str = ""  # rules in nginx's http block
    locations: str = ""  # rules in its server block


def nginx_config(sites: Sequence[VirtualHost], host: Host, *, as_root: bool) -> str:
    """Return nginx's configuration; relative paths are relative to STATE/web."""
    lines = [
        "daemon off;",
        "worker_processes 1;",
        "pid nginx.pid;",
        "error_log stderr notice;",
        # As root, the worker would switch to a user without read access to STATE.
        *(["user root;"] if as_root else []),
        "events { worker_connections 256; }",
        "http {",
        "access_log access.log;",
        "sendfile on;",
        "types { text/html html; application/x-bzip2 bz2; }",
        "default_type application/octet-stream;",
        *(f"{kind}_temp_path tmp/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")),
    ]
    for site in sites:
        lines += [
            *([site.before] if site.before else []),
            "server {",
            f"listen {host.v4}:80; listen [{host.v6}]:80;",
            f"listen {host.v4}:443 ssl http2; listen [{host.v6}]:443 ssl http2;",
            f"server_name {site.name};",
            f'root "{site.root}";',
            f'ssl_certificate "{site.chain}";',
            f'ssl_certificate_key "{site.key}";',
            "ssl_protocols TLSv1.2 TLSv1.3;",
            *([site.locations] if site.locations else []),
            "}",
        ]
    return "\n".join([*lines, "}"]) + "\n"


def nginx_service(state: Path, host: Host, sites: Sequence[VirtualHost]) -> Service:
    """Write the configuration and return nginx as a service; the sites' files must exist."""
    folder = state / "web"
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    config = folder / "nginx.conf"
    config.write_text(nginx_config(sites, host, as_root=os.geteuid() == 0))
    argv = (program("nginx", "nginx-light"), "-e", "stderr", "-p", f"{folder}/", "-c", str(config))
    return Service(name="nginx", host=host.name, argv=argv, ready=r"start worker process \d+", cwd=folder)
