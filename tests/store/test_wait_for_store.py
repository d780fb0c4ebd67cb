"""Commands that wait for an embedded store: a `store serve` that takes it first answers them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from firstflight.run.run import Run
from firstflight.system import lock
from store import location, open_store
from store.errors import StoreHeld
from store.location import EmbeddedLocation, locked_store
from store.served_address import LOCK
from tests.waiting import PATIENCE_S, until

from .rows import many, write
from .serving import FIRSTFLIGHT, serving
from .test_run import run as run


def waits(pid: int, path: Path) -> bool:
    """Return whether a process has the lock file open for writing: to take the lock, not to look at it."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                if one.readlink() == path:
                    flags = (
                        Path(f"/proc/{pid}/fdinfo/{one.name}").read_text().partition("flags:")[2].split()[0]
                    )
                    return bool(int(flags, 8) & os.O_RDWR)
    return False


@pytest.mark.parametrize(
    ("reads", "output"), [(True, "0\n"), (False, "1 files: 1 loaded")], ids=["sql", "load"]
)
def test_a_server_that_takes_the_store_during_the_wait_answers(
    tables: Path, tmp_path: Path, reads: bool, output: str
) -> None:
    asked = ("sql", "SELECT count() FROM quic_probe", "--format", "TSV")
    loaded = ("load", str(write(tmp_path / "quic_probe.parquet", many(10))))
    with locked_store(EmbeddedLocation(tables), 0):
        waiting = subprocess.Popen(
            [FIRSTFLIGHT, *(asked if reads else loaded)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        until(lambda: waiting.poll() is not None or waits(waiting.pid, tables / LOCK), "the wait")
        # Otherwise it might take the store before the server.
        waiting.send_signal(signal.SIGSTOP)
    try:
        with serving(tables):
            waiting.send_signal(signal.SIGCONT)
            printed, messages = waiting.communicate(timeout=PATIENCE_S)
    finally:
        waiting.kill()
    assert waiting.returncode == 0, messages
    assert printed.startswith(output)


CONFINED = """
import sys
from store import confined_command as command, open_store
getattr(command, sys.argv[1])()
print("confined", flush=True)
sys.stdin.readline()
for _ in range(2):
    with open_store(write=sys.argv[1] == "changing") as store:
        pass
    print("closed", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize(("how", "kept"), [("asking", False), ("changing", True)])
def test_a_confined_process_has_the_store_before_it_opens_it(tables: Path, how: str, kept: bool) -> None:
    """No server can take it meanwhile, to which the process could not connect."""
    process = subprocess.Popen(
        [sys.executable, "-c", CONFINED, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdin is not None and process.stdout is not None
        for line, held in (("confined", True), ("closed", kept), ("closed", kept)):
            assert process.stdout.readline() == f"{line}\n"
            assert lock.holder_pid(tables / LOCK) == (process.pid if held else None)
            process.stdin.write("\n")
            process.stdin.flush()
    assert process.returncode == 0


def test_who_cannot_reserve_it_says_so_when_it_opens_it(
    tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.location.WAIT_S", 0.1)
    monkeypatch.setattr("store.location._reserved", {})
    place = EmbeddedLocation(tables)
    with locked_store(place, 0):
        assert location.reserve(place, once=True)
        message = rf"has been held for more than 0.1 s by process {os.getpid()}"
        with pytest.raises(StoreHeld, match=message), open_store():
            pass
    with open_store() as store:
        assert store.rows("SELECT 1 AS one") == [{"one": 1}]


def test_a_stage_that_waits_for_the_store_is_stopped_in_order(tables: Path, run: Run) -> None:
    with locked_store(EmbeddedLocation(tables), 0):
        command = [FIRSTFLIGHT, "stage", "load", "--run", run.id]
        waiting = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        until(lambda: waiting.poll() is not None or waits(waiting.pid, tables / LOCK), "the wait")
        waiting.terminate()
        _, messages = waiting.communicate(timeout=PATIENCE_S)
    assert (waiting.returncode, messages.count("\n")) == (130, 1), messages
