"""Configuration of ClickHouse servers (deploy/clickhouse), as far as the engine of chDB can read it.

chDB reads the rendered users like a server: profiles, quotas, grants. Its only user is `default`, so the
tests check a user's rights with the user's entry under this name.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

from schemas import sharding
from store.errors import ACCESS_DENIED

TREE = Path(__file__).parents[3]
FOLDER = TREE / "deploy" / "clickhouse"
SINGLE = '[[server]]\nhost = "ch.example.org"\n'
REPLICAS = (
    'cluster = "c"\nkeepers = ["k"]\n[[server]]\nhost = "a"\n[[server]]\nhost = "b"\n[[server]]\nhost = "c"\n'
)
USERS = ("loader", "vantage", "analyst", "grafana", "dashboard")

# Connects to the engine with a configuration, and prints the answers to queries as JSON.
_ASK = """
import json, sys
from chdb.state.sqlitelike import Connection
one = Connection(f":memory:?config-file={sys.argv[1]}")
print(json.dumps([json.loads(one.query(text, "JSON").bytes())["data"] for text in json.load(sys.stdin)]))
"""
# Opens a store with the given configuration instead of the default one, and runs a function of this module.
# Only the embedded store purges the allocator. Users of a server do not need this right, and do not have it.
_OPEN = """
import sys
from store.backends import embedded
from store.engine import session as engine
embedded._PURGED_AFTER_S = float("inf")
engine._configuration = lambda role: sys.argv[1]
from tests.store.served import test_server_files
getattr(test_server_files, sys.argv[2])(sys.argv[3])
"""


@pytest.fixture(scope="module")
def render() -> ModuleType:
    """Import the program that renders the configuration."""
    spec = importlib.util.spec_from_file_location("render", FOLDER / "render.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["render"] = module
    spec.loader.exec_module(module)
    return module


def site(render: ModuleType, folder: Path, text: str) -> Any:
    (folder / "site.toml").write_text(text)
    return render.read(folder / "site.toml")


def configured(render: ModuleType, described: Any, folder: Path, as_user: str = "") -> Path:
    """Return a configuration with the rendered users; `default` has the entry of `as_user`, or all rights."""
    users = render.users(described)
    everything: dict[str, Any] = {
        "password": "",
        "networks": {"ip": "::/0"},
        "profile": "default",
        "quota": "default",
    }
    everything["access_management"] = 1
    entry = {**users["users"][as_user], "password": ""} if as_user else everything
    entry.pop("password_sha256_hex", None)
    if as_user == "vantage":
        # Only an embedded store needs these rights. A client of a server has a separate engine, and continues
        # without the first right (tests/store/served/test_loader.py).
        more = (
            *("CREATE DATABASE ON firstflight.*", "CREATE TEMPORARY TABLE ON *.*", "READ ON *"),
            "OPTIMIZE ON firstflight.load_file",
        )
        entry["grants"]["query"] += [f"GRANT {right}" for right in more]
    if as_user:  # an embedded store sets this itself
        users["profiles"][entry["profile"]].pop("readonly", None)
    users["users"]["default"] = entry
    users["profiles"]["default"] = {}
    users["quotas"]["default"] = {}
    (folder / "users.xml").write_text(render.as_xml(users))
    main = {"user_directories": {"users_xml": {"path": folder / "users.xml"}}, "timezone": "UTC"}
    (folder / "main.xml").write_text(render.as_xml(main))
    return folder / "main.xml"


def run(script: str, *arguments: object, given: str = "") -> subprocess.CompletedProcess[str]:
    secrets = {f"FIRSTFLIGHT_{name.upper()}_SHA256": "0" * 64 for name in USERS}
    argv = [sys.executable, "-c", script, *map(str, arguments)]
    environment = os.environ | secrets
    return subprocess.run(
        argv, input=given, env=environment, cwd=TREE, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("text", [SINGLE, REPLICAS, (FOLDER / "site.toml").read_text()])
def test_the_engine_reads_users_profiles_quotas_and_grants(
    render: ModuleType, tmp_path: Path, text: str
) -> None:
    described = site(render, tmp_path, text)
    questions = [
        "SELECT name, auth_type FROM system.users WHERE name != 'default' ORDER BY name",
        "SELECT DISTINCT user_name, access_type FROM system.grants WHERE user_name != 'default'",
        "SELECT profile_name, setting_name, value, max FROM system.settings_profile_elements "
        "WHERE profile_name LIKE 'firstflight%'",
        "SELECT quota_name, max_queries FROM system.quota_limits",
    ]
    done = run(_ASK, configured(render, described, tmp_path), given=json.dumps(questions))
    assert done.returncode == 0, done.stderr
    users, grants, settings, quotas = json.loads(done.stdout)
    assert [user["name"] for user in users] == sorted(USERS)
    assert all("sha256_password" in str(user["auth_type"]) for user in users)
    of = {name: {row["access_type"] for row in grants if row["user_name"] == name} for name in USERS}
    assert of["vantage"] - of["analyst"] >= {"INSERT", "ALTER DELETE"}
    assert not {"DROP TABLE", "CREATE TABLE", "TRUNCATE", "ALTER DROP COLUMN"} & of["vantage"]
    for reader in USERS[2:]:
        assert of[reader] == {"SHOW", "SELECT", "dictGet"}
    assert {"INSERT", "CREATE TABLE", "TRUNCATE"} <= of["loader"]
    assert (
        ("CLUSTER" in of["loader"])
        == ("SYSTEM SYNC REPLICA" in of["loader"])
        == (described.cluster is not None)
    )
    found = {(row["profile_name"], row["setting_name"]): row for row in settings}
    assert found["firstflight_public", "max_execution_time"]["max"] == "10"
    assert found["firstflight_reader", "readonly"]["value"] == "2"
    for name in sharding.SETTINGS:
        assert (("firstflight_reader", name) in found) == described.is_sharded
    assert {row["quota_name"] for row in quotas} >= {"firstflight_readers", "firstflight_public"}


def test_the_engine_says_what_is_wrong(render: ModuleType, tmp_path: Path) -> None:
    """Shows that the test above can fail."""
    described = site(render, tmp_path, SINGLE)
    for right, wrong, shown in (
        ("max_result_rows", "max_result_row", "max_result_row"),
        ("SELECT, SHOW", "SELECT, SHOWS", "parse grant query"),
    ):
        path = configured(render, described, tmp_path)
        users = tmp_path / "users.xml"
        assert right in users.read_text()
        users.write_text(users.read_text().replace(right, wrong))
        done = run(_ASK, path, given=json.dumps(["SELECT 1"]))
        assert done.returncode != 0 and shown in done.stderr


def migrates(url: str) -> None:
    """Create all tables in a new store, and insert a row; run by `_OPEN`."""
    from store import open_store
    from store.tables import migrate

    with open_store(url, write=True) as store:
        migrate.migrate(store)
        database = store.dialect.database
        store.execute(f"INSERT INTO {database}.target (domain) VALUES ('a.example')")
        store.execute(f"TRUNCATE TABLE {database}.target")


def loads(url: str) -> None:
    """Load a record file and replace it, then fail to drop its table; run by `_OPEN`."""
    import tempfile

    from store import open_store
    from store.errors import StoreError
    from store.load import loader
    from tests.store.rows import many, write

    with tempfile.TemporaryDirectory() as folder:
        for count in (30, 20):
            path = write(Path(folder) / "quic_probe.parquet", many(count))
            (result,) = loader.load_files([path], url)
            assert isinstance(result, loader.Loaded) and result.in_store == count, result
    with open_store(url, write=True) as store:
        for statement in ("DROP TABLE", "TRUNCATE TABLE", "DETACH TABLE", "OPTIMIZE TABLE"):
            try:
                store.execute(f"{statement} {store.dialect.database}.quic_probe")
            except StoreError as error:
                assert error.code == ACCESS_DENIED, error
            else:
                raise AssertionError(statement)


def reads(url: str) -> None:
    """Run every panel's query on a store; run by `_OPEN`."""
    from reports import panel, query
    from store import open_store

    with open_store(url) as store:
        for name in panel.names():
            query.rows(store, panel.load(name).query, {"domain": "a"} if name.startswith("name_") else {})


def test_rights_are_enough_for_what_each_user_does(render: ModuleType, tmp_path: Path) -> None:
    described = site(render, tmp_path, SINGLE)
    url = f"chdb:{tmp_path / 'store'}"
    done = run(_OPEN, configured(render, described, tmp_path, "loader"), "migrates", url)
    assert done.returncode == 0, done.stderr
    done = run(_OPEN, configured(render, described, tmp_path, "vantage"), "loads", url)
    assert done.returncode == 0, done.stderr
    for reader in ("grafana", "dashboard"):
        done = run(_OPEN, configured(render, described, tmp_path, reader), "reads", url)
        assert done.returncode == 0, (reader, done.stderr)
    shutil.rmtree(tmp_path / "store")
    done = run(_OPEN, configured(render, described, tmp_path, "grafana"), "migrates", url)
    assert done.returncode != 0 and "privileges" in done.stderr


def test_servers_of_a_cluster_agree(render: ModuleType) -> None:
    described = render.read(FOLDER / "site.toml")
    parts = {name: ElementTree.fromstring(text) for name, text in render.files(described).items()}
    configs = [root for name, root in parts.items() if "/config.d/" in name]
    assert len(configs) == len(described.servers) == 4
    for path in ("remote_servers", "zookeeper", "distributed_ddl"):
        assert len({ElementTree.tostring(root.find(path)) for root in configs}) == 1  # type: ignore[arg-type]
    assert len({ElementTree.tostring(root) for name, root in parts.items() if "/users.d/" in name}) == 1
    macros = [(root.findtext("macros/shard"), root.findtext("macros/replica")) for root in configs]
    assert sorted(macros) == [("01", "01"), ("01", "02"), ("02", "01"), ("02", "02")]
    shards = configs[0].findall("remote_servers/firstflight/shard")
    assert [shard.findtext("internal_replication") for shard in shards] == ["1", "1"]
    hosts = [[replica.findtext("host") for replica in shard.findall("replica")] for shard in shards]
    assert hosts == [["ch-1.example.org", "ch-2.example.org"], ["ch-3.example.org", "ch-4.example.org"]]
    for name, text in render.files(described).items():
        assert "Not run" in text, name
        assert "password" not in text or "from_env" in text


def test_settings_of_servers_are_known_to_the_engine(render: ModuleType, tmp_path: Path) -> None:
    described = render.read(FOLDER / "site.toml")
    (tmp_path / "main.xml").write_text("<clickhouse/>")
    questions = ["SELECT name FROM system.server_settings"]
    done = run(_ASK, tmp_path / "main.xml", given=json.dumps(questions))
    assert done.returncode == 0, done.stderr
    known = {row["name"] for row in json.loads(done.stdout)[0]}
    settings = render.server_settings(described, described.servers[0])
    plain = {name for name, value in settings.items() if type(value) in (int, float)}
    # A server only reads ports when it starts to listen.
    assert {name for name in plain if not name.endswith(("_port", "_port_secure"))} <= known


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", "name the servers"),
        ("[[server]]\nhost = 'a'\n[[server]]\nhost = 'b'\n", "are a cluster"),
        ("[[server]]\nhost = 'a'\n[[server]]\nhost = 'a'\n", "named twice"),
        ("[[server]]\nhost = 'a b'\n", "is no host"),
        ("[[server]]\nhost = 'a'\nport = 1\n", "has only `host` and"),
        ("cluster = 'c'\nkeepers = ['a', 'b']\n[[server]]\nhost = 'a'\n", "odd number"),
        ("cluster = 'c'\nkeepers = ['a']\n[[server]]\nhost = 'a'\nshard = 2\n", "without gaps"),
        ("database = 'a;b'\n[[server]]\nhost = 'a'\n", "is no name"),
        ("[[server]\n", "cannot be read"),
        ("server = 7\n", "name the servers"),
        ("hosts = 7\n", "no key 'hosts'"),
    ],
)
def test_invalid_site_files_are_one_sentence(tmp_path: Path, text: str, shown: str) -> None:
    (tmp_path / "site.toml").write_text(text)
    argv = [sys.executable, str(FOLDER / "render.py"), str(tmp_path / "site.toml"), str(tmp_path / "out")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and shown in done.stderr
    assert not (tmp_path / "out").exists()
