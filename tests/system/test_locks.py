"""Lock files: holders, waiting processes, and checks for a lock that do not disturb others."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import lock


@pytest.mark.parametrize("holders", [0, 1, 2])
def test_a_shared_lock_is_seen_while_any_process_holds_it(tmp_path: Path, holders: int) -> None:
    path = tmp_path / "folder" / "lock"
    assert not lock.is_shared(path), "there is no file"
    with lock.shared(path):
        pass
    with ExitStack() as locks:
        for _ in range(holders):
            locks.enter_context(lock.shared(path))
        assert [lock.is_shared(path) for _ in range(3)] == [holders > 0] * 3
    assert not lock.is_shared(path)


def test_checking_a_lock_does_not_take_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    seen: list[bool] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.append(lock.is_shared(path))

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    seen += [lock.is_shared(path) for _ in range(2_000)]
    stop.set()
    for looker in lookers:
        looker.join()
    assert not any(seen)


def test_a_check_is_waited_for_and_a_holder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    looked = threading.Event()
    with path.open("rb") as looking:
        # A process that checks for the lock and is suspended during the check.
        fcntl.flock(looking, fcntl.LOCK_SH)

        def end() -> None:
            looked.set()
            fcntl.flock(looking, fcntl.LOCK_UN)

        threading.Timer(0.3, end).start()
        refused = pytest.raises(UsageError, match="the thing is in use by process")
        with lock.locked(path, "the thing"):
            assert looked.is_set()
            assert lock.is_locked(path)
            with refused, lock.locked(path, "the thing"):
                pass
    assert not lock.is_locked(path)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_program_holds_the_lock_that_it_was_handed_until_it_ends(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    path.touch() if kind == "file" else path.mkdir()
    with lock.locked_descriptors(path) as descriptors:
        assert lock.is_locked(path)
        program = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=descriptors)
    assert lock.is_locked(path), "the program must hold the lock"
    program.communicate()
    assert not lock.is_locked(path)


def test_a_lock_is_free_after_its_block(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), lock.locked_descriptors(tmp_path):
        _ = 1 / 0
    assert not lock.is_locked(tmp_path)
    none = tmp_path / "none"
    with (
        pytest.raises(FirstflightError, match=f"cannot write {none}: No such file"),
        lock.locked_descriptors(none),
    ):
        pass


def test_a_wait_of_more_than_a_second_names_the_holder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lock"
    with (
        lock.locked(path, "the store"),
        pytest.raises(UsageError, match=r"for more than 1\.1 s"),
        lock.locked(path, "the store", wait_s=1.1),
    ):
        pass
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith(f"waiting at most 1.1 s for the store, in use by process {os.getpid()} (")
