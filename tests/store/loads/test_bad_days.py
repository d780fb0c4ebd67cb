"""A server that refuses, disconnects, fails, has a full disk or dies: no row is lost or duplicated."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clickhouse_driver import Client

from store import open_store
from store.errors import StoreUnreachable
from store.load import loader
from tests.store.rows import many, write
from tests.store.served.proxy import Proxy
from tests.store.served.serving import FIRSTFLIGHT, Served, serving
from tests.waiting import PATIENCE_S

ROWS = 1_000


@pytest.fixture
def served(tables: Path) -> Iterator[Served]:
    """A server with all tables and no rows."""
    with serving(tables, "--no-password") as found:
        yield found


@pytest.fixture
def proxy(served: Served) -> Iterator[Proxy]:
    with Proxy(served.port) as found:
        yield found


def load(url: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FIRSTFLIGHT, "load", *map(str, paths)],
        env=os.environ | {"FIRSTFLIGHT_STORE": url},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def through(proxy: Proxy, retry_for: float) -> str:
    return f"clickhouse://127.0.0.1:{proxy.port}/firstflight?retry_for={retry_for}"


def rows(client: Client) -> tuple[int, int, int]:
    """Return the numbers of rows, distinct probes, and unfinished units in the load log."""
    (found,) = client.execute("SELECT count(), uniqExact(vantage, repetition, domain) FROM quic_probe")
    ((unfinished,),) = client.execute("SELECT count() FROM load_file FINAL WHERE state != 'loaded'")
    return (*found, unfinished)


def make(folder: Path, number: int, **changes: object) -> Path:
    return write(folder / str(number) / "quic_probe.parquet", many(ROWS, repetition=number, **changes))


def one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return the error message, the last line of standard error."""
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("firstflight: ")
    return last


def test_no_server_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    began = time.monotonic()
    done = load(f"clickhouse://127.0.0.1:{port}/firstflight?retry_for=1", make(tmp_path, 1))
    assert done.returncode == 2
    assert f"clickhouse://127.0.0.1:{port}/firstflight does not answer (Connection refused" in one_sentence(
        done
    )
    assert "trying again" in done.stderr
    assert time.monotonic() - began > 0.5


def test_a_silent_server() -> None:
    """A machine that accepts connections but never answers."""
    with socket.create_server(("127.0.0.1", 0)) as stuck:
        url = f"clickhouse://127.0.0.1:{stuck.getsockname()[1]}/firstflight"
        began = time.monotonic()
        with (
            pytest.raises(StoreUnreachable, match=r"does not answer \(no answer in time\)") as caught,
            open_store(f"{url}?send_receive_timeout=0.2&retry_for=0.5", write=True),
        ):
            pass
        assert caught.value.exit_status == 2
        assert time.monotonic() - began < 60, "by default it tries for 60 s"


def test_a_server_that_restarts_in_time(tables: Path, tmp_path: Path) -> None:
    """The server is killed during a load and restarts on the same port. The loader continues."""
    path = write(tmp_path / "quic_probe.parquet", many(60_000))
    with serving(tables) as first:
        port = first.port
        process = subprocess.Popen(
            [FIRSTFLIGHT, "load", str(path)],
            env=os.environ | {"FIRSTFLIGHT_STORE": first.url},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with first.client() as client:
            while not client.execute("SELECT count() FROM load_file")[0][0]:
                time.sleep(0.01)
        first.process.kill()
    with serving(tables, "--port", str(port)) as second:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        assert "1 loaded" in out or "1 replaced" in out
        with second.client() as client:
            assert rows(client) == (60_000, 60_000, 0)


@pytest.mark.parametrize("side", ["client", "server"])
def test_connections_that_break_anywhere(served: Served, proxy: Proxy, tmp_path: Path, side: str) -> None:
    """Connections break after some bytes from the client or the server.

    The break may be within the rows, or after the server has written them.
    """
    url = through(proxy, 60)
    loader.load_files([make(tmp_path, 1)], url)
    sizes: list[int] = []
    with served.client() as client:
        for turn, part in enumerate([None, 0.2, 0.5, 0.7, 0.9], start=1):
            path = make(tmp_path, 1, port=turn)
            before = proxy.bytes[side]
            proxy.left[side] = None if part is None else int(part * sizes[0])
            (result,) = loader.load_files([path], url)
            assert isinstance(result, loader.Loaded)
            assert result.action in ("loaded", "replaced")
            sizes.append(proxy.bytes[side] - before)
            assert rows(client) == (ROWS, ROWS, 0)
            assert client.execute("SELECT DISTINCT port FROM quic_probe") == [(turn,)]
            assert proxy.cuts == turn - 1


def test_a_connection_that_stays_broken(served: Served, proxy: Proxy, tmp_path: Path) -> None:
    paths = [make(tmp_path, 1), write(tmp_path / "2" / "quic_probe.parquet", many(40_000, repetition=2))]
    assert load(through(proxy, 1), paths[0]).returncode == 0
    with served.client() as client:
        ((before,),) = client.execute("SELECT count() FROM quic_probe")
        assert before == ROWS
        proxy.left["client"] = 120_000  # within the rows of the second file
        stopper = _refuse_afterwards(proxy)
        done = load(through(proxy, 1), *paths)
        stopper.join()
        assert done.returncode == 1
        assert "does not answer" in one_sentence(done)
        assert "nothing is lost" in done.stderr
        found = rows(client)
        assert found[0] == found[1]
        assert found[2] == 1  # the second file is marked as started
    done = load(served.url, *paths)
    assert done.returncode == 0, done.stderr
    assert "1 unchanged" in done.stdout
    with served.client() as client:
        assert rows(client) == (ROWS + 40_000, ROWS + 40_000, 0)


def _refuse_afterwards(proxy: Proxy) -> threading.Thread:
    def wait() -> None:
        until = time.monotonic() + 120
        while not proxy.cuts and time.monotonic() < until:
            time.sleep(0.005)
        proxy.__exit__(None, None, None)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def test_an_error_for_one_file_of_ten(served: Served, tmp_path: Path) -> None:
    paths = [make(tmp_path, number) for number in range(10)]
    write(paths[6], [*many(ROWS, repetition=6), *many(1, repetition=6, vantage="poison")])
    with served.client() as client:
        client.execute("ALTER TABLE quic_probe ADD CONSTRAINT c CHECK vantage != 'poison'")
        done = load(served.url, *paths)
        assert done.returncode == 1, done.stderr
        assert "9 loaded, 0 replaced, 0 unchanged, 1 refused" in done.stdout
        (refused,) = (line for line in done.stderr.splitlines() if line.startswith("refused: "))
        assert "Constraint `c`" in refused
        assert str(paths[6]) in refused
        found = rows(client)
        assert found[:2] == (9 * ROWS, 9 * ROWS)
        client.execute("ALTER TABLE quic_probe DROP CONSTRAINT c")
        assert "1 loaded, 0 replaced, 9 unchanged, 0 refused" in load(served.url, *paths).stdout
        assert rows(client) == (10 * ROWS + 1, 10 * ROWS + 1, 0)


def test_loaders_killed_and_two_at_once(served: Served, tmp_path: Path) -> None:
    paths = [make(tmp_path, number) for number in (1, 2)]
    command = [FIRSTFLIGHT, "load", *map(str, paths)]
    environment = os.environ | {"FIRSTFLIGHT_STORE": served.url}
    moments = random.Random(7)
    with served.client() as client:
        for turn in range(2):
            for number in (1, 2):
                make(tmp_path, number, port=turn + 1)
            pair = [
                subprocess.Popen(
                    command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
                for _ in "ab"
            ]
            assert pair[0].stderr is not None
            while not client.execute("SELECT count() FROM load_file FINAL WHERE state != 'loaded'")[0][0]:
                if pair[0].poll() is not None:
                    break
            time.sleep(moments.uniform(0, 0.1))
            pair[0].send_signal(signal.SIGKILL)
            out, err = pair[1].communicate(timeout=PATIENCE_S)
            pair[0].communicate()
            assert pair[1].returncode == 0, err
            assert "0 refused" in out
            assert rows(client) == (2 * ROWS, 2 * ROWS, 0)
            assert client.execute("SELECT DISTINCT port FROM quic_probe") == [(turn + 1,)]


MOUNTED = 'mount -t tmpfs -o size=20m tmpfs "$1" && cp -a "$2" "$1"/store && shift 2 && exec "$@"'


def test_a_disk_that_fills_up(tables: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    first = write(tmp_path / "1" / "quic_probe.parquet", many(10_000))
    second = write(tmp_path / "2" / "quic_probe.parquet", many(40_000, repetition=2))
    wrap = ("unshare", "--map-root-user", "--mount", "bash", "-c", MOUNTED, "bash", str(small), str(tables))
    inside = small / "store"
    with serving(inside, "--no-password", wrap=wrap) as served:
        assert load(served.url, first).returncode == 0
        mounted = Path(f"/proc/{served.process.pid}/root") / inside.relative_to("/")
        fill = mounted.parent / "fill"
        with fill.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
        for spare in (0, 400_000):
            with fill.open("r+b") as file:
                file.truncate(max(0, fill.stat().st_size - spare))
            done = load(served.url, second)
            assert done.returncode == 3, done.stderr
            assert "no space left on the disk of the store" in done.stderr.splitlines()[-1]
            assert "Traceback" not in done.stderr
            with served.client() as client:
                found = rows(client)
                assert found[0] == found[1]
        fill.unlink()
        done = load(served.url, first, second)
        assert done.returncode == 0, done.stderr
        with served.client() as client:
            assert rows(client) == (50_000, 50_000, 0)


def test_a_half_written_file(served: Served, tmp_path: Path) -> None:
    good, broken = make(tmp_path, 1), make(tmp_path, 2)
    content = broken.read_bytes()
    broken.write_bytes(content[: len(content) // 2])
    done = load(served.url, broken, good)
    assert done.returncode == 3
    assert f"refused: {broken} is not a whole Parquet file" in done.stderr
    broken.write_bytes(content)
    assert "1 loaded, 0 replaced, 1 unchanged" in load(served.url, broken, good).stdout
    with served.client() as client:
        assert rows(client) == (2 * ROWS, 2 * ROWS, 0)
