"""The limits of the engine when all checks before it are bypassed: the kernel's confinement, its grants."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from store import open_store
from store.confine import landlock, seccomp
from tests.attack.store.statements import sql
from tests.store.served.serving import serving
from tests.waiting import PATIENCE_S

# A process as of `store serve`, but statements bypass the guard.
UNGUARDED = """
import sys
from pathlib import Path
from store.confine.process import confine
store = Path(sys.argv[1])
assert confine(store) == []
from store.engine import access
from store.engine.session import EngineSession, EngineError
engine = EngineSession(str(store), getattr(access, sys.argv[2]))
for statement in sys.argv[3:]:
    try:
        print("done", repr(engine.run(statement))[:200])
    except EngineError as error:
        print("refused", " ".join(str(error).split())[:300])
engine.close()
"""


def ask(store: Path, role: str, *statements: str) -> list[str]:
    """Return a confined engine's answer to each statement."""
    store.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", UNGUARDED, str(store), role, *statements],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_this_kernel_has_both_walls() -> None:
    assert landlock.abi() > 0
    assert seccomp.supported()


def test_an_engine_thread_reads_no_file_and_finds_no_name(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.5)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        answers = ask(
            tmp_path / "store", "SERVER",
            f"SELECT file('{secret}')",
            "SELECT file('/etc/hostname')",
            "SELECT file('/proc/self/environ')",
            "SELECT file('/proc/1/environ')",
            "SELECT * FROM file('/etc/hostname', 'LineAsString')",
            f"SELECT 1 INTO OUTFILE '{tmp_path}/out'",
            f"SELECT * FROM url('{url}', 'LineAsString')",
            "CREATE DATABASE d",
            "CREATE TABLE d.t (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = 'web', "
            f"endpoint = '{url}x/')",
            "CREATE TABLE d.u (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk("
            "type = 'object_storage', object_storage_type = 'local', metadata_type = 'local', "
            f"path = '{tmp_path}/elsewhere/')",
            "SELECT 1",
        )  # fmt: skip
        with pytest.raises(TimeoutError):
            listener.accept()
    assert [line.split()[0] for line in answers] == ["refused"] * 7 + ["done"] + ["refused"] * 2 + ["done"]
    for line in answers[:6]:
        assert "Permission denied" in line or "denied" in line, line
    assert "READ ON URL" in answers[6]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["secret", "store"]


def test_names_are_not_looked_up_even_with_the_grant(tmp_path: Path) -> None:
    script = UNGUARDED.replace(
        "engine = EngineSession(",
        "role = access.Role(('GRANT ALL ON *.* WITH GRANT OPTION',))\nengine = EngineSession(",
    ).replace("getattr(access, sys.argv[2])", "role")
    (tmp_path / "store").mkdir()
    text = "SELECT * FROM url('http://name.example:9/', 'LineAsString') SETTINGS http_max_tries = 1"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store"), "", text, "SELECT file('/etc/hostname')"],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    name, file = done.stdout.splitlines()
    assert name.startswith("refused") and ("address of host" in name or "DNS error" in name), name
    assert "Permission denied" in file


@pytest.mark.parametrize("role", ["READER", "LOADER", "SERVER", "FORMATTER"])
def test_grants_hold_in_every_role(tmp_path: Path, role: str) -> None:
    answers = ask(
        tmp_path / "store", role,
        "SELECT * FROM url('http://127.0.0.1:9/', 'LineAsString')",
        "SELECT * FROM remote('127.0.0.1:9', 'system.one')",
        "INSERT INTO FUNCTION file('out', 'CSV', 'a Int8') SELECT 1",
        "CREATE USER x",
        "SYSTEM SHUTDOWN",
        "SELECT * FROM format(Values, 'x String', '(concat(''a'', ''b''))')",
        "SET input_format_values_interpret_expressions = 1",
        "SET format_schema = 'x'",
        "SET max_memory_usage = 0",
    )  # fmt: skip
    for line in answers:
        assert line.startswith("refused"), line


def test_every_thread_of_a_server_is_bound(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as served, served.client() as client:
        slow = served.client()
        thread = threading.Thread(
            target=slow.execute, args=("SELECT sum(sleepEachRow(0.5)) FROM numbers(6)",)
        )
        thread.start()
        client.execute("SELECT sum(number) FROM numbers_mt(10000000)")
        tasks = list(Path(f"/proc/{served.process.pid}/task").iterdir())
        thread.join()
        assert len(tasks) > 3
        for task in tasks:
            if not task.exists():  # ended meanwhile
                continue
            status = dict(
                line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line
            )
            assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), status["Name"]


def test_sql_is_confined(tables: Path) -> None:
    """A process with the confinement of `firstflight sql`."""
    assert tables.is_dir()
    script = (
        "from store import ask\n"
        "from store import confined_command; confined_command.confine_to_reading()\n"
        "print(ask.formatted('SELECT 1', 'TSV').content);\n"
        "import pathlib, socket\n"
        "for attempt in (lambda: pathlib.Path('/etc/hostname').read_text(), socket.socket):\n"
        "    try:\n        attempt()\n    except OSError as error:\n        print(error.strerror)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "b'1\\n'\nPermission denied\nOperation not permitted\n", done.stderr


def test_missing_kernel_features_are_reported(tmp_path: Path) -> None:
    """A kernel without Landlock answers its calls with ENOSYS, as a filter does here."""
    script = (
        "import store.confine.landlock as l, store.confine.seccomp as s\n"
        "l.abi = lambda: 0\ns.supported = lambda: False\n"
        "import sys; sys.argv = ['firstflight', 'store', 'serve', '--port', '0']\n"
        "from cli.main import main; main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True,
        env=os.environ | {"FIRSTFLIGHT_STORE": f"chdb:{tmp_path / 'store'}"},
    )  # fmt: skip
    assert process.stderr is not None
    messages = [process.stderr.readline() for _ in range(4)]
    process.terminate()
    process.wait(60)
    process.stderr.close()
    assert " at 127.0.0.1:" in messages[0]
    assert "this kernel has no Landlock" in messages[2]
    assert "no seccomp filter on this kernel" in messages[3]


@pytest.mark.parametrize("zone", ["CET-1CEST", "Europe/Berlin", ":nonsense", ""])
def test_any_time_zone_of_the_machine_will_do(
    tables: Path, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    assert tables.is_dir()
    monkeypatch.setenv("TZ", zone)
    done = sql("SELECT toDateTime(0), timezone()")
    assert (done.returncode, done.stdout) == (0, "1970-01-01 00:00:00\tUTC\n"), done.stderr


def test_no_other_user_writes_a_store_made_with_any_umask(tmp_path: Path) -> None:
    store = tmp_path / "var" / "store"
    before = os.umask(0)
    try:
        with open_store(f"chdb:{store}", write=True) as opened:
            opened.execute("SELECT 1")
    finally:
        os.umask(before)
    assert store.stat().st_mode & 0o777 == 0o700
    assert store.parent.stat().st_mode & 0o002 == 0
    store.chmod(0o777)  # as an earlier version left it
    with open_store(f"chdb:{store}", write=True):
        pass
    assert store.stat().st_mode & 0o002 == 0
