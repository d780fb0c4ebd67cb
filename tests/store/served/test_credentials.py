"""User and password for a server are read from the environment or a file, and never written anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from firstflight import settings
from firstflight.errors import UsageError
from store import open_store
from store.address.url import ServerLocation, parse
from store.location import find
from tests import minimal
from tests.store.rows import many, write
from tests.store.served.serving import FIRSTFLIGHT, Served, serving
from tests.waiting import PATIENCE_S

PASSWORD = "hidden/secret?%#@ü"
USER = "some.body"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("credentials")
    shutil.copytree(template, folder / "store", symlinks=True)
    (folder / "password").write_text(PASSWORD + "\n", encoding="utf-8")
    with serving(folder / "store", "--user", USER, "--password-file", str(folder / "password")) as found:
        yield found
    assert "hidden" not in found.log.read_text(encoding="utf-8")


def with_password(served: Served, password: str = PASSWORD) -> str:
    return f"clickhouse://{USER}:{quote(password, safe='')}@{served.host}:{served.port}/firstflight"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [FIRSTFLIGHT, *arguments],
        env={k: v for k, v in os.environ.items() if not k.startswith("FIRSTFLIGHT_STORE")} | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    for text in (done.stdout, done.stderr):
        assert "hidden" not in text
        assert quote(PASSWORD, safe="") not in text
    return done


def test_by_the_environment_by_a_file_and_by_a_file_for_the_password(served: Served, tmp_path: Path) -> None:
    url = tmp_path / "url"
    url.write_text(with_password(served) + "\n", encoding="utf-8")
    (tmp_path / "password").write_text(PASSWORD + "\nsecond line", encoding="utf-8")
    without = (
        f"clickhouse://{USER}@{served.host}:{served.port}/firstflight?password_file={tmp_path / 'password'}"
    )
    path = write(tmp_path / "quic_probe.parquet", many(3))
    done = run("load", str(path), FIRSTFLIGHT_STORE=with_password(served))
    assert done.returncode == 0, done.stderr
    for given in ({"FIRSTFLIGHT_STORE_FILE": str(url)}, {"FIRSTFLIGHT_STORE": without}):
        done = run("db", "status", **given)
        assert done.returncode == 0, done.stderr
        assert f"store: clickhouse://{served.host}:{served.port}/firstflight\n" in done.stdout
        assert "quic_probe: 3 rows" in done.stdout


def test_nothing_in_the_store_holds_them(served: Served) -> None:
    """For example, the message about a lease contains the holder's command line."""
    place = find(with_password(served))
    assert "hidden" not in repr(place)
    assert USER not in place.public_url if isinstance(place, ServerLocation) else False
    with open_store(with_password(served)) as store:
        for row in store.rows("SELECT holder FROM lease"):
            assert "hidden" not in row["holder"]
            assert USER not in row["holder"]


def test_wrong_credentials_are_not_printed(served: Served, tmp_path: Path) -> None:
    done = run("sql", "SELECT 1", FIRSTFLIGHT_STORE=with_password(served, "hidden and wrong"))
    location = f"clickhouse://{served.host}:{served.port}/firstflight"
    message = f"firstflight: {location} refuses the user or the password of FIRSTFLIGHT_STORE\n"
    assert (done.returncode, done.stderr) == (2, message)
    for url in (
        "clickhouse://u:hidden@[::1/db",
        "clickhouse://u:hidden@host:port/db",
        "clickhouse://u:hidden@host:99999/db",
        "clickhouse://u:hidden@/db",
        "clickhouse://u:hidden@host/d-b",
        "clickhouse://u:hidden@host/db?timeout=3",
        "clickhouse://u:hidden@host/db?secure=maybe",
        "clickhouse://u:hidden@host/db?connect_timeout=-1",
        "clickhouse://u:hidden@host/db?compression=gzip",
        f"clickhouse://u:hidden@host/db?ca_certs={tmp_path / 'none'}",
        f"clickhouse://u@host/db?password_file={tmp_path / 'none'}",
        "postgres://u:hidden@host/db",
    ):
        with pytest.raises(UsageError) as caught:
            find(url)
        assert "hidden" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_credentials_of_a_url() -> None:
    place = parse(
        "clickhouses://u%40x:p%2Fw@db.example:9441/rows?cluster=all&compression=zstd&retry_for=5", "d"
    )
    assert place == ServerLocation(
        "db.example",
        9441,
        "rows",
        "u@x",
        "p/w",
        cluster="all",
        secure=True,
        compression="zstd",
        retry_for=5.0,
    )
    assert parse("clickhouse://[2001:db8::1]", "d") == ServerLocation("2001:db8::1", 9000, "d")
    assert parse("clickhouse://host?secure=1", "d") == ServerLocation("host", 9440, "d", secure=True)


def test_settings_of_a_run_hold_none(tmp_path: Path) -> None:
    minimal.write(tmp_path)
    config = tmp_path / "c.toml"
    for url in ("clickhouse://u:hidden@host/db", "clickhouses://u:hidden@host", "http://u:hidden@host"):
        config.write_text(f'{minimal.CONFIG}\n[store]\nurl = "{url}"\n', encoding="utf-8")
        with pytest.raises(UsageError, match=r"store\.url: ") as caught:
            settings.load(config, [])
        assert "hidden" not in str(caught.value)
    config.write_text(minimal.CONFIG, encoding="utf-8")
    stored_settings, _ = settings.load(
        config, ['store.url="clickhouse://u@host/db?password_file=/etc/firstflight/password"']
    )
    assert stored_settings.store.url is not None
    done = run(
        "campaign", "run", "--config", str(config), "--store", "clickhouse://u:hidden@host/db", "--dry-run"
    )
    assert done.returncode == 2
    assert "store.url: must not have a password, which the run would store" in done.stderr
