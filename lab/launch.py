"""Starts and stops the lab from outside: starts the supervisor, finds it again, kills it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError, InputError, UsageError
from lab import control
from lab.declared import internet
from lab.state import Record, StateFolder, boot_id, kill, start_ticks
from lab.system.programs import program


def up(
    state: StateFolder,
    behaviour: Path,
    *,
    capture_edges: bool,
    realtime: bool,
    progress: Callable[[str], None],
) -> None:
    """Start the lab and return when everything in it is ready.

    First clears the remains of a killed lab in the state folder. Raises UsageError if the lab is already up
    or being started, or if the behaviour file is wrong. Raises FirstflightError if a part does not start,
    after stopping all other parts.
    """
    # Without the lock, `up` could clear the files of a lab that another process is starting and has not
    # recorded.
    with _locked(state):
        _raise_lab(state, behaviour, capture_edges=capture_edges, realtime=realtime, progress=progress)


@contextmanager
def _locked(state: StateFolder) -> Iterator[None]:
    """Hold the lock of the state folder. The kernel releases it with this process."""
    try:
        state.folder.mkdir(parents=True, exist_ok=True)
        file = state.lock.open("wb")
    except OSError as error:
        raise FirstflightError(
            f"the lab cannot write its state to {state.folder}: {error.strerror}"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"the lab in {state.folder} is being started by another process: wait until it is up"
            ) from error
        except OSError as error:
            raise FirstflightError(
                f"the lab cannot lock {state.lock}: {error.strerror}; put its state on another file system"
            ) from error
        yield


def _raise_lab(
    state: StateFolder,
    behaviour: Path,
    *,
    capture_edges: bool,
    realtime: bool,
    progress: Callable[[str], None],
) -> None:
    if (running := state.running()) is not None:
        raise UsageError(
            f"the lab is up already (process {running.pid}); remove it with `firstflight lab down`"
        )
    net = internet.load(behaviour)
    text = behaviour.read_bytes()  # before clearing, which may remove this file
    _clear(state)
    _prepare(state, text, net)
    hosts = tuple(host.name for host in net.hosts)
    process = _start(state, capture_edges=capture_edges, realtime=realtime)
    try:
        seconds = _until_ready(process, state, hosts, progress)
    except BaseException:
        record = state.running()
        if record is not None:
            kill(record)
        else:
            process.kill()
        process.wait()
        state.record_file.unlink(missing_ok=True)
        raise
    progress(f"lab: up after {seconds} s")


def _start(state: StateFolder, *, capture_edges: bool, realtime: bool) -> subprocess.Popen[str]:
    """Start the supervisor in new namespaces; it waits for a line on standard input before it acts."""
    with (state.logs / "supervisor.log").open("wb") as log:
        return subprocess.Popen(
            [
                *unshare(),
                sys.executable,
                "-P",
                "-m",
                "lab.supervisor",
                "--state",
                str(state.folder),
            ]
            + ["--capture-edges"] * capture_edges
            + ["--realtime"] * realtime,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            text=True,
        )


def _until_ready(
    process: subprocess.Popen[str],
    state: StateFolder,
    hosts: tuple[str, ...],
    progress: Callable[[str], None],
) -> float:
    """Follow the supervisor's reports until the lab is ready; return the seconds that it took.

    Writes the supervisor's record before it continues, so that `lab down` can always find it. Raises the
    error that the supervisor reports, or FirstflightError with the last output if it stops.
    """
    assert process.stdin is not None
    for report in _reports(process):
        if report.get("step") == "started":
            pid = int(report["pid"])
            ticks = start_ticks(pid)
            if ticks is None:
                break
            state.write_record(Record(pid, ticks, boot_id(), _rootless(), hosts))
            process.stdin.write("go\n")
            process.stdin.flush()
        elif "error" in report:
            kinds = {UsageError.exit_status: UsageError, InputError.exit_status: InputError}
            raise kinds.get(report["status"], FirstflightError)(report["error"])
        elif report.get("step") == "ready":
            return float(report["seconds"])
        else:
            progress("lab: " + ", ".join(f"{k} {v}" for k, v in report.items()))
    process.wait()
    tail = (state.logs / "supervisor.log").read_text(encoding="utf-8", errors="replace").strip()
    if tail.startswith("unshare:"):
        remedy = "allow user namespaces" if _rootless() else "give root CAP_SYS_ADMIN here"
        raise UsageError(f"the lab may not create namespaces ({tail.splitlines()[0]}): {remedy}")
    raise FirstflightError(f"the lab's supervisor ended with status {process.returncode}: {tail[-1500:]}")


def _rootless() -> bool:
    return os.geteuid() != 0


def down(state: StateFolder) -> bool:
    """Stop the lab; return whether it was up. Logs, captures and the behaviour file stay for reading."""
    record = state.running()
    if record is not None:
        kill(record)
    state.record_file.unlink(missing_ok=True)
    state.control.unlink(missing_ok=True)
    return record is not None


def set_epoch(state: StateFolder, epoch: int) -> None:
    """Move the varying names to their addresses in that epoch; return when DNS serves them."""
    state.require()
    control.ask(state.control, {"do": "epoch", "epoch": epoch})


def status(state: StateFolder) -> dict[str, Any] | None:
    """Return epoch and services ("up", or their exit status) of the lab; `None` if the lab is not up."""
    if state.running() is None:
        return None
    return control.ask(state.control, {"do": "status"})


def unshare() -> list[str]:
    """Return the command that starts a program in new namespaces, which disappear with it."""
    argv = [program("unshare", "util-linux"), "--mount", "--net", "--pid", "--fork", "--kill-child"]
    if _rootless():
        # Not as root inside: programs that drop root's privileges would fail, because there are no other
        # users.
        argv += ["--user", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}", "--keep-caps"]
    return argv


def _reports(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout
    for line in process.stdout:
        report = json.loads(line)
        assert isinstance(report, dict)
        yield report


def _clear(state: StateFolder) -> None:
    """Remove the files of an earlier lab, except the authority, which clients may already trust."""
    for name in (
        "lab.json",
        "lab.part",
        "control.sock",
        "lateness.csv",
        "epoch",
        "link.json",
        "internet.toml",
    ):
        (state.folder / name).unlink(missing_ok=True)
    for folder in (state.logs, state.captures, state.folder / "lists"):
        shutil.rmtree(folder, ignore_errors=True)


def _prepare(state: StateFolder, behaviour: bytes, net: internet.Internet) -> None:
    try:
        for folder in (state.logs, state.captures, state.folder / "lists"):
            folder.mkdir(parents=True, exist_ok=True)
        state.behaviour_file.write_bytes(behaviour)
        (state.folder / "lists" / "blocklist.conf").write_text(
            "\n".join(net.blocklist) + "\n", encoding="utf-8"
        )
        (state.folder / "lists" / "optout.conf").write_text("\n".join(net.optout) + "\n", encoding="utf-8")
    except OSError as error:
        raise FirstflightError(
            f"the lab cannot write its state to {state.folder}: {error.strerror}"
        ) from error
