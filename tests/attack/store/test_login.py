"""Before the login of `store serve`: silent and slow clients, password guessing, and the store's owner."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from clickhouse_driver.errors import ServerException

from store import open_store
from store.address import served_address
from store.clickhouse import admission, connection
from store.clickhouse.admission import Admission
from store.errors import StoreHeld
from store.protocol.wire import varint
from tests.store.served.serving import FIRSTFLIGHT, Served, serving
from tests.waiting import PATIENCE_S, until


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("login") / "store") as found:
        yield found


def test_a_password_is_required_by_default(served: Served) -> None:
    for password in ("", "guess"):
        began = time.monotonic()
        with pytest.raises(ServerException) as caught, served.client(password=password) as client:
            client.execute("SELECT 1")
        assert caught.value.code == 516
        assert time.monotonic() - began >= admission.WRONG_PASSWORD_S
    assert len(served.password) >= 32


def test_wrong_passwords_leave_a_line(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "store") as found,
        pytest.raises(ServerException),
        found.client(user="some\nbody", password="guess") as client,
    ):
        client.execute("SELECT 1")
    log = found.log.read_text(encoding="utf-8")
    assert "wrong user or password from 127.0.0.1, user 'some\\nbody'" in log
    assert "guess" not in log


def test_many_unauthenticated_connections_block_no_client(served: Served) -> None:
    """More connections than allowed, each sending a hello byte by byte."""
    crowd = [socket.create_connection((served.host, served.port)) for _ in range(150)]
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.5):
            for client_socket in crowd:
                try:
                    client_socket.send(b"x")
                except OSError:
                    continue

    for client_socket in crowd:
        client_socket.send(varint(0) + varint(4000))
    thread = threading.Thread(target=drip)
    thread.start()
    try:
        for _ in range(3):
            with served.client() as client:
                assert client.execute("SELECT 1") == [(1,)]
    finally:
        over.set()
        thread.join()
        for client_socket in crowd:
            client_socket.close()


def test_guessing_passwords_blocks_no_client(served: Served) -> None:
    """More parallel connections than allowed; each client reconnects as soon as it has its answer."""
    over = threading.Event()
    answered = []

    def guess() -> None:
        while not over.is_set():
            try:
                with served.client(password="guess") as client:
                    client.execute("SELECT 1")
            except ServerException:
                answered.append(time.monotonic())
            except (OSError, EOFError):
                continue

    began = time.monotonic()
    crowd = [threading.Thread(target=guess) for _ in range(admission.MAX_PENDING * 3 // 2)]
    for thread in crowd:
        thread.start()
    try:
        until(lambda: len(answered) >= admission.MAX_PENDING, "answers to all who guess")
        for _ in range(10):
            with served.client() as client:
                assert client.execute("SELECT 1") == [(1,)]
    finally:
        over.set()
        for thread in crowd:
            thread.join()
    # The server answers at most MAX_PENDING guesses in parallel, each after a second.
    lasted = max(answered) - began
    assert len(answered) <= admission.MAX_PENDING * (lasted / admission.WRONG_PASSWORD_S + 1)


def test_a_slow_hello_is_closed_at_its_timeout(served: Served) -> None:
    with socket.create_connection((served.host, served.port), timeout=60) as slow:
        slow.sendall(varint(0) + varint(4000))
        slow.settimeout(0.5)  # between two bytes, so the hello is far from complete at the timeout

        def cut_off() -> bool:
            try:
                slow.send(b"x")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        # A server with only a timeout per byte would read forever.
        until(cut_off, "the end of an endless hello", connection.HELLO_S + PATIENCE_S)


def test_places_before_the_login() -> None:
    """The longest waiting connection is closed. New connections, and connections that are delayed after a
    wrong password, stay open."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ends = [(socket.create_connection(listener.getsockname()), listener.accept()[0]) for _ in range(4)]
    pairs = [(near, far) for far, near in ends]
    limits = Admission(seconds=60, slots=2, delay_s=0, protected_s=0.5)
    limits.enter(0, pairs[0][0])
    limits.enter(1, pairs[1][0])
    limits.wrong_password(0, "user")
    began = time.monotonic()
    limits.enter(2, pairs[2][0])
    assert time.monotonic() - began > 0.25, "a new connection is kept for a while"
    assert pairs[1][1].recv(1) == b"", "the connection that only waited is closed"
    limits.wrong_password(2, "user")
    waits = threading.Thread(target=limits.enter, args=(3, pairs[3][0]))
    waits.start()
    waits.join(0.7)
    assert waits.is_alive(), "all places are held"
    limits.leave(0)
    waits.join(60)
    assert not waits.is_alive()
    pairs[3][1].setblocking(False)
    with pytest.raises(BlockingIOError):
        pairs[3][1].recv(1)
    for pair in pairs:
        for end in pair:
            end.close()


def test_the_address_is_in_a_file_that_only_the_owner_reads(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = served.log.with_name("store")
    path = served_address.path_of(store)
    assert path.stat().st_mode & 0o777 == 0o600
    log = served.log.read_text(encoding="utf-8")
    assert f"export FIRSTFLIGHT_STORE_FILE={path}\n" in log
    assert served.password not in log
    monkeypatch.delenv("FIRSTFLIGHT_STORE")
    for environment in ({"FIRSTFLIGHT_STORE_FILE": str(path)}, {"FIRSTFLIGHT_STORE": f"chdb:{store}"}):
        for command in (("db", "migrate"), ("sql", "SELECT count() FROM quic_probe", "--format", "TSV")):
            done = subprocess.run(
                [FIRSTFLIGHT, *command],
                env=os.environ | environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        assert done.stdout == "0\n"


def test_the_password_stays_from_start_to_start(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with serving(store) as first:
        pass
    with serving(store) as second:
        assert second.password == first.password
    address = served_address.path_of(store)
    assert second.password in address.read_text(encoding="utf-8")
    with open_store(f"chdb:{store}", write=True) as embedded:  # no server runs now
        assert embedded.location == str(store)
    address.chmod(0o644)  # readable by others, so no secret any more
    with serving(store) as third:
        assert third.password not in (first.password, "")


def test_a_chosen_password_is_not_mistaken_for_a_generated_one(tmp_path: Path) -> None:
    password_file = tmp_path / "password"
    password_file.write_text("chosen by a person\n", encoding="utf-8")
    store = tmp_path / "store"
    with serving(store, "--password-file", str(password_file)):
        pass
    with serving(store) as drawn:
        assert len(drawn.password) >= 32
    with serving(store) as restarted:
        assert restarted.password == drawn.password


@pytest.mark.parametrize("own", [True, False])
def test_a_folder_above_that_takes_no_file(tmp_path: Path, own: bool) -> None:
    """The address file is required with a generated password, and optional otherwise."""
    store = tmp_path / "store"
    store.mkdir()
    # A folder in place of the file stops root, too.
    (tmp_path / "store.address" / "in the way").mkdir(parents=True)
    options = ["--no-password"] if own else []
    process = subprocess.Popen(
        [FIRSTFLIGHT, "store", "serve", "--port", "0", *options], stderr=subprocess.PIPE, text=True,
        env=os.environ | {"FIRSTFLIGHT_STORE": f"chdb:{store}"},
    )  # fmt: skip
    assert process.stderr is not None
    messages = [process.stderr.readline(), process.stderr.readline() if own else ""]
    if own:
        process.terminate()
    status = process.wait(60)
    process.stderr.close()
    if own:
        assert status == 0 and " at 127.0.0.1:" in messages[0]
        assert (
            "cannot write the store's address" in messages[1]
            and "give the address to clients yourself" in messages[1]
        )
    else:
        assert status == 2 and "cannot write the store's address" in messages[0]


def test_an_address_of_another_process_is_not_used(tmp_path: Path) -> None:
    """A killed server's address file: another process may have its port now."""
    store = tmp_path / "store"
    with serving(store) as found:
        path = served_address.path_of(store)
        url, *_ = path.read_text(encoding="utf-8").splitlines()
        path.write_text(f"{url}\nprocess {os.getpid()}\n", encoding="utf-8")
        with pytest.raises(StoreHeld), open_store(f"chdb:{store}", wait_s=0.1):
            pass
        assert found.password
    assert served_address.of(store, "firstflight") is None


def test_by_tls_and_by_every_address(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    for host, secret, tls, url in (
        ("0.0.0.0", "p/w", False, "clickhouse://u%20x:p%2Fw@127.0.0.1:9000/db"),
        ("::", "p", True, "clickhouse://u%20x:p@[::1]:9000/db?secure=1&verify=0"),
        ("127.0.0.1", None, False, "clickhouse://127.0.0.1:9000/db"),
    ):
        path = served_address.write(store, host, 9000, "db", "u x", secret, tls=tls)
        assert path.read_text(encoding="utf-8").splitlines()[0] == url
