"""The lab is started, stopped and killed, and leaves the machine unchanged."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from firstflight.errors import FirstflightError
from lab import launch
from lab.state import StateFolder
from tests.lab_network.running import FIRSTFLIGHT, ROOT, Lab
from tests.waiting import PATIENCE_S, until


def machine() -> dict[str, str]:
    """Return the parts of the machine's state that a lab could change."""
    commands = {
        "links": ["ip", "-o", "link"],
        "routes": ["ip", "route"],
        "namespaces": ["ip", "netns", "list"],
    }
    state = {
        name: subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        for name, argv in commands.items()
    }
    state["mounts"] = Path("/proc/self/mounts").read_text(encoding="utf-8")
    state["resolver"] = Path("/etc/resolv.conf").read_text(encoding="utf-8")
    for file in [*sorted(Path("/proc/sys/net/ipv4").glob("tcp_*")), Path("/proc/sys/net/ipv4/ip_forward")]:
        try:
            state[file.name] = file.read_text(encoding="ascii")
        except OSError:
            continue  # some settings are write-only
    return state


def processes_of(lab: Lab) -> list[str]:
    """Return command lines of running processes that name the lab's state folder."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if str(lab.state).encode() in line:
                found.append(line.replace(b"\0", b" ").decode())
    return found


def test_up_and_down_leave_the_machine_as_it_was(other_lab: Lab) -> None:
    before = machine()
    other_lab.run("up")
    assert machine() == before
    other_lab.run("down")
    assert machine() == before
    # unshare, the supervisor's parent, exits after it.
    until(lambda: not processes_of(other_lab), lambda: processes_of(other_lab))
    assert other_lab.call("down").returncode == 0


def test_two_labs_do_not_meet(lab: Lab, other_lab: Lab) -> None:
    other_lab.run("up")
    other_lab.run("epoch", "2")
    assert json.loads(lab.run("status"))["epoch"] == 1
    assert json.loads(other_lab.run("status"))["epoch"] == 2


def test_folders_of_the_working_directory_do_not_hide_our_modules(other_lab: Lab, tmp_path: Path) -> None:
    """A lab's state named `lab` has folders with the names of this project's modules."""
    (tmp_path / "lab" / "certificates").mkdir(parents=True)
    (tmp_path / "firstflight").mkdir()
    up = other_lab.call("up", cwd=tmp_path)
    assert up.returncode == 0, up.stderr
    assert set(json.loads(other_lab.run("status"))["services"].values()) == {"up"}


def test_a_lab_that_is_up_is_not_raised_again(lab: Lab) -> None:
    second_up = lab.call("up")
    assert second_up.returncode == 2
    assert "up already" in second_up.stderr
    assert "Traceback" not in second_up.stderr


def test_of_two_that_start_a_lab_at_once_one_does(other_lab: Lab) -> None:
    argv = [FIRSTFLIGHT, "lab", "up"]
    pipe = subprocess.PIPE
    both = [subprocess.Popen(argv, env=other_lab.environment, cwd=ROOT, stderr=pipe) for _ in range(2)]
    errors = [process.communicate(timeout=PATIENCE_S)[1].decode() for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], errors
    (refused,) = [error for process, error in zip(both, errors, strict=True) if process.returncode == 2]
    assert "is being started by another process" in refused or "is up already" in refused
    assert set(json.loads(other_lab.run("status"))["services"].values()) == {"up"}
    other_lab.run("down")
    until(lambda: not processes_of(other_lab), lambda: processes_of(other_lab))


def test_a_state_folder_that_cannot_be_locked_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("lab.launch.fcntl.flock", refuse)
    why = rf"the lab cannot lock {tmp_path}/\S+: No locks available; put its state on another file system"
    with pytest.raises(FirstflightError, match=why):
        launch.up(
            StateFolder(tmp_path), tmp_path / "none.toml", capture_edges=False, realtime=False, progress=print
        )


def test_a_killed_lab_is_cleared_by_the_next_one(other_lab: Lab) -> None:
    other_lab.run("up")
    os.kill(json.loads((other_lab.state / "lab.json").read_text())["pid"], signal.SIGKILL)
    until(lambda: processes_of(other_lab) == [], "the exit of all its processes")
    refused = other_lab.call("exec", "hamburg", "true")
    assert (refused.returncode, "not up" in refused.stderr) == (2, True)
    other_lab.run("up")
    assert other_lab.run("exec", "hamburg", "echo", "back") == "back\n"


def test_a_part_that_cannot_start_is_named_and_nothing_stays(other_lab: Lab, tmp_path: Path) -> None:
    behaviour = tmp_path / "internet.toml"
    text = (ROOT / "lab" / "internet.toml").read_text(encoding="utf-8")
    behaviour.write_text(text.replace('mode = "sh_first"', 'mode = "small_ack"'), encoding="utf-8")
    failed = other_lab.call("up", "--behaviour", str(behaviour))
    assert failed.returncode == 1
    assert "rogue on odd" in failed.stderr
    assert "mode `small_ack` needs a `delay_us` above 0" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert processes_of(other_lab) == []
    assert other_lab.call("status").returncode == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be without this right")
def test_a_root_without_the_right_to_make_namespaces_gets_a_message(other_lab: Lab) -> None:
    bounded = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all"]
    failed = subprocess.run(
        [*bounded, FIRSTFLIGHT, "lab", "up"],
        env=other_lab.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (failed.returncode, failed.stderr.count("\n")) == (2, 1), failed.stderr
    assert "may not create namespaces" in failed.stderr and "give root CAP_SYS_ADMIN here" in failed.stderr
    assert processes_of(other_lab) == []


def test_a_service_that_ends_shows_in_the_status(other_lab: Lab) -> None:
    other_lab.run("up")
    pid = next(
        folder.name
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit()
        and (line := _cmdline(folder))
        and b"firstflight-rogue" in line
        and str(other_lab.state).encode() in line
    )
    os.kill(int(pid), signal.SIGKILL)
    report = until(lambda: (status := other_lab.call("status")).returncode == 1 and status, "a status of 1")
    assert report and "ended" in json.loads(report.stdout)["services"]["rogue on odd"]


def _cmdline(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def test_wrong_behaviour_file(other_lab: Lab, tmp_path: Path) -> None:
    missing = other_lab.call("up", "--behaviour", str(tmp_path / "nothing.toml"))
    assert missing.returncode == 2
    assert "nothing.toml" in missing.stderr
