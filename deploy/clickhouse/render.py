"""Writes the configuration of ClickHouse servers that hold the store: a single one, or a replicated cluster.

    python deploy/clickhouse/render.py SITE.toml OUT

writes OUT/HOST/config.d/firstflight.xml (network, TLS, limits; in a cluster macros, shards, Keeper) and
OUT/HOST/users.d/firstflight.xml (users, profiles, quotas, grants), for /etc/clickhouse-server of each host.
They contain no secrets: the servers read secrets from their environment.

SITE.toml: database [firstflight], `[[server]]` with host and, in a cluster, shard (from 1); for a cluster
also `cluster`, its name, and `keepers`, the hosts of ClickHouse Keeper. README.md has the rest.
"""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from schemas import sharding

SECURE_PORT, INTERSERVER_PORT, KEEPER_PORT = 9440, 9010, 9281
_GIB = 1 << 30
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9]([A-Za-z0-9.:-]*[A-Za-z0-9])?")
_REMOVED = {"@remove": "1"}
_TLS = "/etc/clickhouse-server/tls"

# Rights on the database, by user. The loader migrates, too.
_READS = ("SELECT, SHOW, dictGet ON {database}.*",)
_LOADS = (
    "SELECT, SHOW, dictGet, INSERT, ALTER, CREATE, DROP, TRUNCATE, OPTIMIZE ON {database}.*",
    "CREATE FUNCTION, DROP FUNCTION ON *.*",
)
# A vantage point: it adds rows, deletes rows when it replaces them, and changes and drops no tables.
_ADDS = ("SELECT, SHOW, dictGet, INSERT, ALTER DELETE ON {database}.*",)
_IN_CLUSTERS = ("SYSTEM SYNC REPLICA ON {database}.*", "CLUSTER, REMOTE ON *.*")


class WrongSite(Exception):
    """SITE.toml describes no servers; the message is one sentence."""


@dataclass(frozen=True)
class Server:
    """A server; `shard` and `replica` count from 1."""

    host: str
    shard: int
    replica: int


@dataclass(frozen=True)
class Site:
    """The content of SITE.toml."""

    database: str
    cluster: str | None
    keepers: tuple[str, ...]
    servers: tuple[Server, ...]

    @property
    def is_sharded(self) -> bool:
        """Whether names are divided among several shards."""
        return len({server.shard for server in self.servers}) > 1


def read(path: Path) -> Site:
    """Return the file's content; WrongSite if it is invalid."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WrongSite(f"{path} cannot be read: {error}") from error
    for key in content:
        if key not in ("database", "cluster", "keepers", "server"):
            raise WrongSite(f"{path}: there is no key {key!r}")
    database, cluster = content.get("database", "firstflight"), content.get("cluster")
    for name in filter(None, (database, cluster)):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise WrongSite(f"{path}: {name!r} is no name: letters, digits and _")
    given = content.get("server", [])
    keepers = content.get("keepers", [])
    if not isinstance(given, list) or not given or not isinstance(keepers, list):
        raise WrongSite(f"{path}: name the servers, each by [[server]]")
    servers: list[Server] = []
    for entry in given:
        host, shard = entry.get("host"), entry.get("shard", 1)
        if set(entry) - {"host", "shard"} or type(shard) is not int or not 1 <= shard <= 1000:
            raise WrongSite(f"{path}: a [[server]] has only `host` and `shard`, a number from 1")
        replica = 1 + sum(other.shard == shard for other in servers)
        servers.append(Server(host, shard, replica))
    hosts = [*(server.host for server in servers), *keepers]
    for host in hosts:
        if not isinstance(host, str) or not _HOST.fullmatch(host):
            raise WrongSite(f"{path}: {host!r} is no host")
    if len({server.host for server in servers}) < len(servers):
        raise WrongSite(f"{path}: a host is named twice")
    shards = {server.shard for server in servers}
    if shards != set(range(1, len(shards) + 1)):
        raise WrongSite(f"{path}: shards are numbered from 1 without gaps")
    if cluster is None and len(servers) > 1:
        raise WrongSite(f"{path}: several servers are a cluster: name it by `cluster`")
    if cluster is not None and len(keepers) % 2 == 0:
        raise WrongSite(f"{path}: a cluster needs an odd number of `keepers`: three, or five")
    return Site(database, cluster, tuple(keepers), tuple(servers))


def server_settings(site: Site, server: Server) -> dict[str, Any]:
    """Return the content of a server's config.d."""
    configuration: dict[str, Any] = {
        "listen_host": "::",
        "tcp_port_secure": SECURE_PORT,
        # Clients can connect only to the port with TLS.
        **dict.fromkeys(("tcp_port", "http_port", "mysql_port", "postgresql_port"), _REMOVED),
        "openSSL": {
            "server": {
                "certificateFile": f"{_TLS}/chain.pem",
                "privateKeyFile": f"{_TLS}/key.pem",
                "disableProtocols": "sslv2,sslv3,tlsv1,tlsv1_1",
                "preferServerCiphers": True,
            },
            "client": {"loadDefaultCAFile": True, "verificationMode": "strict"},
        },
        "timezone": "UTC",
        "max_server_memory_usage_to_ram_ratio": 0.8,
        "max_connections": 512,
        "max_concurrent_queries": 100,
        "access_control_improvements": {
            "settings_constraints_replace_previous": True,
        },
        "query_log": {
            "database": "system",
            "table": "query_log",
            "ttl": "event_date + INTERVAL 30 DAY DELETE",
        },
    }
    if site.cluster is None:
        return configuration
    shards = sorted({server.shard for server in site.servers})
    configuration["interserver_http_port"] = _REMOVED
    configuration["interserver_https_port"] = INTERSERVER_PORT
    configuration["interserver_http_host"] = server.host
    configuration["macros"] = {"shard": f"{server.shard:02}", "replica": f"{server.replica:02}"}
    configuration["zookeeper"] = {
        "node": [{"host": h, "port": KEEPER_PORT, "secure": 1} for h in site.keepers]
    }
    configuration["distributed_ddl"] = {"path": f"/clickhouse/{site.cluster}/ddl"}
    configuration["remote_servers"] = {
        site.cluster: {
            # Servers ask each other as the user who asks; the secret proves that they are servers.
            "secret": {"@from_env": "FIRSTFLIGHT_CLUSTER_SECRET"},
            "shard": [
                {
                    "internal_replication": True,
                    "replica": [
                        {"host": replica.host, "port": SECURE_PORT, "secure": 1}
                        for replica in site.servers
                        if replica.shard == shard
                    ],
                }
                for shard in shards
            ],
        }
    }
    return configuration


def users(site: Site) -> dict[str, Any]:
    """Return the content of users.d, the same on every server."""
    of_shards = dict(sharding.SETTINGS) if site.is_sharded else {}
    in_clusters = _IN_CLUSTERS if site.cluster else ()

    def profile(readonly: int, seconds: int, memory: int, rows: int) -> dict[str, Any]:
        limits = {"max_execution_time": seconds, "max_memory_usage": memory, "max_result_rows": rows}
        most = {name: {"min": 1, "max": value} for name, value in limits.items()}
        return {**of_shards, "readonly": readonly, **limits, "constraints": most}

    def user(name: str, profile: str, quota: str, grants: tuple[str, ...]) -> dict[str, Any]:
        return {
            "password_sha256_hex": {"@from_env": f"FIRSTFLIGHT_{name.upper()}_SHA256"},
            "networks": {"ip": "::/0"},
            "profile": profile,
            "quota": quota,
            "grants": {"query": [f"GRANT {grant.format(database=site.database)}" for grant in grants]},
        }

    hour = {"duration": 3600, "queries": 36_000, "errors": 0, "result_rows": 0, "execution_time": 0}
    return {
        "profiles": {
            "firstflight_loader": {**of_shards, "max_memory_usage": 16 * _GIB},
            # 2: settings may be changed, within the constraints: Grafana and the dashboard do that.
            "firstflight_reader": profile(2, 3600, 8 * _GIB, 100_000_000),
            "firstflight_public": profile(2, 10, 2 * _GIB, 100_000),
        },
        "quotas": {
            "firstflight_unlimited": {"interval": {"duration": 3600}},
            "firstflight_readers": {"interval": hour},
            # All users of the public dashboard share this quota. The dashboard limits each user.
            "firstflight_public": {"interval": {**hour, "execution_time": 7200}},
        },
        "users": {
            "default": _REMOVED,
            "loader": user("loader", "firstflight_loader", "firstflight_unlimited", _LOADS + in_clusters),
            "vantage": user("vantage", "firstflight_loader", "firstflight_unlimited", _ADDS + in_clusters),
            "analyst": user("analyst", "firstflight_reader", "firstflight_readers", _READS),
            "grafana": user("grafana", "firstflight_reader", "firstflight_readers", _READS),
            "dashboard": user("dashboard", "firstflight_public", "firstflight_public", _READS),
        },
    }


def files(site: Site) -> dict[str, str]:
    """Return all files: path below OUT -> content."""
    head = "<!-- Made by deploy/clickhouse/render.py. Not run against a real server (README.md). -->\n"
    contents = {}
    for server in site.servers:
        parts = {"config": server_settings(site, server), "users": users(site)}
        for part, content in parts.items():
            contents[f"{server.host}/{part}.d/firstflight.xml"] = head + as_xml(content)
    return contents


def as_xml(content: dict[str, Any]) -> str:
    """Return settings as ClickHouse reads them: lists are repeated elements, `@KEY` is an attribute."""
    root = ElementTree.Element("clickhouse")
    _add(root, content)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _add(parent: ElementTree.Element, content: dict[str, Any]) -> None:
    for name, value in content.items():
        if name.startswith("@"):
            parent.set(name.removeprefix("@"), str(value))
            continue
        for item in value if isinstance(value, list) else [value]:
            child = ElementTree.SubElement(parent, name)
            if isinstance(item, dict):
                _add(child, item)
            else:
                child.text = str(int(item)) if isinstance(item, bool) else str(item)


def main(arguments: list[str]) -> int:
    """Write the files; status 2 with one sentence for an invalid site."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python deploy/clickhouse/render.py SITE.toml OUT\n")
        return 2
    try:
        contents = files(read(Path(arguments[0])))
    except WrongSite as error:
        sys.stderr.write(f"render: {error}\n")
        return 2
    for name, content in contents.items():
        path = Path(arguments[1]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
