"""All other senders also wait while the list is not confirmed: resolver, queries from Python, the crawl."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.files.fetching.fetch import Blocked
from crawler.files.fetching.pace import Pace
from crawler.files.fetching.wire import Wire
from firstflight import settings
from firstflight.egress import current
from firstflight.egress.permitted import Permitted
from firstflight.errors import InputError, Interrupted
from firstflight.system import binaries, children
from scanner.resolver.addresses import Addresses
from scanner.resolver.configured import Resolver, configured_resolver, lists_for
from scanner.resolver.names import Name
from scanner.resolver.query import QueryClient
from tests import minimal
from tests.processes import handles
from tests.waiting import until


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """The socket for a name server that receives queries but never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server_socket:
        server_socket.bind(("127.0.0.1", 0))
        server_socket.setblocking(False)
        yield server_socket


def questions(server: socket.socket) -> int:
    """Return the number of queries that arrived since the last call."""
    count = 0
    while True:
        try:
            server.recv(4096)
        except BlockingIOError:
            return count
        count += 1


def confirm(path: Path) -> None:
    """Write a list and its confirmation, as the follower does."""
    path.write_text("192.0.2.1\n")
    current.confirmed_file(path).write_text(current.confirmation())


@pytest.mark.parametrize("program", ["prober", "handshake", "tcp-options"])
def test_a_dry_run_counts_what_the_copy_names(program: str, tmp_path: Path) -> None:
    copy, path = tmp_path / "optout", tmp_path / "targets.csv"
    confirm(copy)
    copy.write_text("127.0.0.3\nowner.test\n")
    targets = ["127.0.0.1,www.owner.test,443", *(f"127.0.0.{n},n{n}.test,443" for n in range(2, 6))]
    path.write_text("\n".join(["ip,domain,port", *targets]) + "\n")
    argv = [str(binaries.find(f"firstflight-{program}")), "--targets", str(path), "--dry-run"]
    done = subprocess.run(
        [*argv, "--allow-net", "127.0.0.0/8"],
        env=os.environ | {current.VARIABLE: f"{current.FOLLOWED}{copy}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "5 targets, 2 of them blocked" in done.stderr) == (0, True), done.stderr


def test_the_resolver_sends_nothing_before_the_list_is_confirmed(
    server: socket.socket, tmp_path: Path
) -> None:
    copy, state = tmp_path / "optout", tmp_path / "engine.json"
    (tmp_path / "names").write_text("a.test\n")
    argv = [str(binaries.find("firstflight-resolve")), "--names", str(tmp_path / "names")]
    argv += ["--resolver", f"127.0.0.1#{server.getsockname()[1]}", "--progress", str(state)]
    environment = os.environ | {current.VARIABLE: f"{current.FOLLOWED}{copy}"}
    process = children.start(
        argv, own_session=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: state.exists() or process.poll() is not None, "its state")
        assert json.loads(state.read_text())["limit"] == "confirmation of the opt-out list"
        assert questions(server) == 0 and process.poll() is None
        confirm(copy)
        until(lambda: questions(server) > 0, "a question")
    finally:
        children.stop(process)


def test_queries_from_python_wait(
    server: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "optout"
    monkeypatch.setenv(current.VARIABLE, f"{current.FOLLOWED}{copy}")
    turns: list[float] = []

    async def turn() -> None:
        turns.append(time.monotonic())

    async def ask() -> None:
        resolver = Resolver("127.0.0.1", server.getsockname()[1], timeout_s=0.1, attempts=1)
        asker = QueryClient(resolver, turn, Permitted([], []))
        await asker.ask("a.test", "A")
        await asker.close()

    thread = threading.Thread(target=lambda: asyncio.run(ask()))
    thread.start()
    until(lambda: turns, "its turn")
    time.sleep(2 * current.LOOK_S)
    assert questions(server) == 0 and thread.is_alive()
    confirm(copy)
    thread.join()
    assert questions(server) == 1


def test_a_watch_that_waits_for_the_list_can_be_stopped(
    server: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "optout"
    monkeypatch.setenv(current.VARIABLE, f"{current.FOLLOWED}{copy}")
    changes = ["resolve.resolver=127.0.0.1", f"resolve.port={server.getsockname()[1]}"]
    in_force, _ = settings.load(minimal.write(tmp_path), changes)
    resolver = configured_resolver(in_force.resolve)
    lists = lists_for(resolver, in_force)
    addresses = Addresses([Name(None, "a.test", "own")], [4], resolver, in_force.resolve, lists, {})
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 3:
            raise Interrupted("the run is stopped")

    with pytest.raises(Interrupted, match="the run is stopped"):
        addresses.await_lists(look)
    assert questions(server) == 0
    confirm(copy)
    addresses.await_lists(lambda: None)


@pytest.mark.parametrize("listed", ["127.0.0.1", "127.0.0.0/8", None])
def test_python_sends_nothing_to_a_listed_resolver(
    server: socket.socket, tmp_path: Path, listed: str | None
) -> None:
    changes = ["resolve.resolver=127.0.0.1", f"resolve.port={server.getsockname()[1]}"]
    changes += ["resolve.timeout_s=0.1", "resolve.attempts=1"]
    if listed is not None:
        (tmp_path / "optout").write_text(f"{listed}\n")
        changes.append(f'probe.optout=["{tmp_path}/optout"]')
    in_force, _ = settings.load(minimal.write(tmp_path), changes)
    resolver = configured_resolver(in_force.resolve)
    lists = lists_for(resolver, in_force)
    addresses = Addresses([Name(None, "a.test", "own")], [4], resolver, in_force.resolve, lists, {})
    why = "does not answer" if listed is None else "is on a block or opt-out list"
    with pytest.raises(InputError, match=why):
        addresses.resolve()
    assert questions(server) == (1 if listed is None else 0)


def test_a_crawl_resolves_no_name_before_the_list_is_confirmed_and_ends(
    server: socket.socket, tmp_path: Path
) -> None:
    copy, names = tmp_path / "optout", tmp_path / "names.csv"
    names.write_text("domain\n" + "".join(f"n{number}.test\n" for number in range(5)))
    port = server.getsockname()[1]
    argv = [
        sys.executable,
        "-P",
        "-m",
        "cli",
        "crawl",
        "--targets",
        str(names),
        "--contact",
        "me@example.org",
    ]
    process = children.start(
        [*argv, "--resolver", f"127.0.0.1:{port}"],
        own_session=True,
        env=os.environ | {current.VARIABLE: f"{current.FOLLOWED}{copy}"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(
            lambda: handles(process.pid, signal.SIGTERM) or process.poll() is not None, "the crawl to begin"
        )
        time.sleep(2 * current.LOOK_S)
        assert questions(server) == 0 and process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 130
        assert questions(server) == 0
    finally:
        children.stop(process)


def test_requests_of_a_crawl_wait_and_open_connections_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "optout"
    monkeypatch.setenv(current.VARIABLE, f"{current.FOLLOWED}{copy}")
    lists = Permitted([], [], ["127.0.0.0/8"])
    pace = Pace(1000, 0)
    pace.is_free = lambda: lists.look() == current.Trust.ALL

    async def crawl() -> bool:
        waiting = asyncio.create_task(pace.turn("127.0.0.1"))
        done, _ = await asyncio.wait([waiting], timeout=2 * current.LOOK_S)
        confirm(copy)
        await waiting
        return not done

    assert asyncio.run(crawl())
    wire = Wire("127.0.0.1", lists.why_not, 1000)
    wire.check("www.a.test")
    copy.with_suffix(".part").write_text("a.test\n")
    copy.with_suffix(".part").replace(copy)

    def is_refused() -> bool:
        try:
            wire.check("www.a.test")
        except Blocked:
            return True
        return False

    until(is_refused, "the entry to be in force")
