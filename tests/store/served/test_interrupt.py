"""Ctrl-C while the engine runs an endless query."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from firstflight.system import interrupt
from store import open_store
from tests.store.test_sql import FIRSTFLIGHT
from tests.waiting import PATIENCE_S, until

ENDLESS = "SELECT count() FROM system.numbers WHERE sipHash64(number) = 1"
# More than twice the time to start and open the store, so that the engine already runs the query.
CPU_S = 2.0


def cpu_s(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.usefixtures("tables")
def test_a_question_without_end_is_ended() -> None:
    with subprocess.Popen([FIRSTFLIGHT, "sql", ENDLESS], stderr=subprocess.PIPE, text=True) as asking:

        def at_work() -> bool:
            assert asking.poll() is None
            return cpu_s(asking.pid) >= CPU_S

        until(at_work, "the query")
        asking.send_signal(signal.SIGINT)
        try:
            # The query would take years.
            _, stderr = asking.communicate(timeout=PATIENCE_S)
        finally:
            asking.kill()
    assert (asking.returncode, stderr) == (130, "firstflight: interrupted\n")
    with open_store() as store:
        assert store.rows("SELECT 1 AS one") == [{"one": 1}], "no process may hold the store"


def test_where_python_hears_the_signal_nothing_is_different() -> None:
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    with pytest.raises(KeyboardInterrupt), interrupt.exit_on_sigint():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
    assert signal.set_wakeup_fd(before) == before, "the handler must be restored"
    with interrupt.exit_on_sigint():
        pass
