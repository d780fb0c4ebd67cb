"""A store with planted expressions that reach outside it, opened by the user's own commands."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attack.store.statements import sql
from tests.store.rows import probe, write
from tests.store.served.serving import FIRSTFLIGHT, serving

SECRET = "what the user alone can read"

# An engine without guard, grants or confinement, to plant the expressions.
PREPARE = """
import sys
from store.engine import access
from store.engine.session import EngineSession
engine = EngineSession(sys.argv[1], access.Role(("GRANT ALL ON *.* WITH GRANT OPTION",)))
engine.run("USE firstflight")
for statement in sys.argv[2:]:
    engine.run(statement)
engine.close()
"""

LEFT = {
    "a default that reads a file": (
        "ALTER TABLE quic_probe ADD COLUMN left String DEFAULT file('{secret}')",
        "firstflight.quic_probe",
    ),
    "a default that asks a dictionary": (
        "CREATE DICTIONARY asked (a UInt64, b String) PRIMARY KEY a LAYOUT(FLAT()) LIFETIME(0) "
        "SOURCE(HTTP(URL '{url}' FORMAT 'TSV'));"
        # The argument is no constant, because ClickHouse would evaluate that immediately.
        "ALTER TABLE quic_probe ADD COLUMN left String "
        "DEFAULT dictGet('firstflight.asked', 'b', toUInt64(length(domain)))",
        "firstflight.asked",
    ),
    "a view that reads a file": (
        "CREATE OR REPLACE VIEW newest_run AS SELECT file('{secret}') AS run",
        "firstflight.newest_run",
    ),
    "a view that asks a host": (
        "CREATE OR REPLACE VIEW newest_run AS SELECT * FROM url('{url}', 'TSV', 'run String')",
        "firstflight.newest_run",
    ),
    "a function that reads a file": (
        "CREATE FUNCTION left_here AS (x) -> file('{secret}')",
        "the function left_here",
    ),
}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket on loopback that must get no connection."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(0.5)
        yield made


def prepare(store: Path, statements: str) -> None:
    subprocess.run([sys.executable, "-c", PREPARE, str(store), *statements.split(";")], check=True)


def bytes_of(store: Path) -> bytes:
    """Return the contents of the store's files; rows are uncompressed if the engine writes them so."""
    return b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())


@pytest.mark.parametrize("left", LEFT)
def test_commands_do_not_open_it(tables: Path, tmp_path: Path, listener: socket.socket, left: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    statements, named = LEFT[left]
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    prepare(tables, statements.format(secret=secret, url=url))
    record = write(tmp_path / "quic_probe.parquet", [probe()])
    for command in (("load", str(record)), ("report", "table1"), ("db", "status")):
        done = subprocess.run([FIRSTFLIGHT, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1
        assert f"{named} in it is not safe to use" in done.stderr
        assert SECRET not in done.stdout + done.stderr
    with pytest.raises(TimeoutError):
        listener.accept()
    assert SECRET.encode() not in bytes_of(tables)


# The same without the check of stored expressions: only the confinement protects.
UNLOOKED = """
import sys
from store import confined_command as command
changing = command.confine_to_writing
def changing_without_a_look(*given, **named):
    changing(*given, **named)
    from store.statements import prepared  # brings the engine
    prepared.check = lambda *_: None
command.confine_to_writing = changing_without_a_look
sys.argv = ["firstflight", *sys.argv[1:]]
from cli.main import main
main()
"""


@pytest.mark.parametrize("left", ["a default that reads a file", "a default that asks a dictionary"])
def test_confinement_alone_stops_a_hostile_load(
    tables: Path, tmp_path: Path, listener: socket.socket, left: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    prepare(tables, LEFT[left][0].format(secret=secret, url=url))
    records = tmp_path / "elsewhere"
    records.mkdir()
    record = write(records / "quic_probe.parquet", [probe()])
    done = subprocess.run(
        [sys.executable, "-c", UNLOOKED, "load", str(record)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0, done.stdout
    assert "1 refused" in done.stdout, done.stderr
    with pytest.raises(TimeoutError):
        listener.accept()
    assert SECRET.encode() not in bytes_of(tables)


def test_a_client_can_take_it_out_again(tables: Path, tmp_path: Path) -> None:
    prepare(tables, "CREATE VIEW left_view AS SELECT file('/etc/hostname') AS a")
    with serving(tables) as served, served.client() as client:
        client.execute("DROP VIEW left_view")
    record = write(tmp_path / "quic_probe.parquet", [probe()])
    subprocess.run([FIRSTFLIGHT, "load", str(record)], check=True)


SEALED = """
import sys
from pathlib import Path
from store import confined_command as command
from store.confine import process
store = Path(sys.argv[1])
command.confine_to_reading()
process.seal(store)
for path in sorted(store.rglob("*")):
    if path.is_file() and "deduplication_logs" not in path.parts:
        try:
            with path.open("r+b"):
                print(path.relative_to(store))
        except PermissionError:
            pass
for folder in (store, store / "metadata", store / "user_defined", *(store / "store").glob("*/*")):
    try:
        (folder / "new.sql").write_text("")
        print(folder)
    except PermissionError:
        pass
"""


def test_reading_commands_write_no_table(tables: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tables.rglob("*.sql")}
    assert before
    done = subprocess.run(
        [sys.executable, "-c", SEALED, str(tables)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["firstflight.lock", "status"]
    assert {path: path.stat().st_mtime_ns for path in tables.rglob("*.sql")} == before


def test_a_store_is_read_after_a_writer_was_killed(tables: Path) -> None:
    """Opening tables removes its remains, which a sealed process may do."""
    folder = next(path.parent for path in tables.glob("store/*/*/format_version.txt"))
    for name in ("tmp_insert_all_99_99_0", "delete_tmp_all_98_98_0"):
        (folder / name).mkdir()
        (folder / name / "data.bin").write_bytes(b"x")
    (tables / "status").write_text("left by a process that was killed", encoding="utf-8")
    done = sql("SELECT count() FROM quic_probe")
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_read_only_server_cannot_be_made_to_write(tables: Path) -> None:
    with serving(tables, "--read-only") as served, served.client() as client:
        assert client.execute("SELECT count() FROM quic_probe") == [(0,)]
        status = Path(f"/proc/{served.process.pid}/status").read_text()
        assert "Seccomp:\t2" in status
    assert os.access(tables / "metadata" / "firstflight.sql", os.R_OK)
