"""Programs on the lab's hosts: their start and their environment."""

from __future__ import annotations

import importlib.metadata
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.lab_network.running import FIRSTFLIGHT, ROOT, Lab
from tests.waiting import PATIENCE_S, until

MANY_MODULES = 200  # `exec` imports about 150


def test_exec_is_the_program(lab: Lab, tmp_path: Path) -> None:
    assert lab.call("exec", "hamburg", "sh", "-c", "exit 7").returncode == 7
    done = lab.call("exec", "hamburg", "pwd", cwd=tmp_path)
    assert done.stdout.strip() == str(tmp_path)
    # Options after the program are passed to the program.
    assert lab.run("exec", "hamburg", "echo", "--state", "-n", "--help") == "--state -n --help\n"
    process = lab.start("hamburg", "sleep", "600")
    until(
        lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n",
        "the program to replace the command",
    )
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=PATIENCE_S) == -signal.SIGINT


def test_exec_imports_no_costly_module(lab: Lab) -> None:
    """Every stage of a lab campaign starts with `exec`, so `exec` must import no other package than click.

    Importing the settings would double its CPU time. `exec` becomes the program `true`, which is not Python.
    """

    def imported_by(*argv: str) -> set[str]:
        environment = {**lab.environment, "PYTHONPROFILEIMPORTTIME": "1"}
        done = subprocess.run(argv, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
        lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
        return {line.rpartition("|")[2].strip() for line in lines}

    imported = imported_by(FIRSTFLIGHT, "lab", "exec", "hamburg", "true")
    assert {"click", "lab.enter"} <= imported
    installed = importlib.metadata.packages_distributions()
    ours_and_hooks = {"cli", "firstflight", "lab", "_distutils_hack"}
    assert {name.partition(".")[0] for name in imported} & set(installed) - ours_and_hooks == {"click"}
    assert len(imported) < MANY_MODULES
    assert len(imported_by(sys.executable, "-c", "import firstflight.settings")) > MANY_MODULES


def test_exec_finds_firstflight_and_the_programs_of_an_administrator(lab: Lab) -> None:
    environment = {**lab.environment, "PATH": "/usr/bin:/bin"}
    for program in ("firstflight", "ethtool"):
        command = [FIRSTFLIGHT, "lab", "exec", "hamburg", program, "--version"]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert program in done.stdout


def test_exec_mistakes(lab: Lab) -> None:
    nowhere = lab.call("exec", "berlin", "true")
    assert nowhere.returncode == 2
    assert "hamburg" in nowhere.stderr
    nothing = lab.call("exec", "hamburg", "no-such-program")
    assert nothing.returncode == 2
    assert "no-such-program" in nothing.stderr


def test_hosts_see_the_lab_and_nothing_else(lab: Lab) -> None:
    links = lab.run("exec", "hamburg", "ip", "-o", "link")
    assert sorted(line.split(": ")[1].split("@")[0] for line in links.splitlines()) == ["eth0", "lo"]
    assert "198.18.0.53" in lab.run("exec", "hamburg", "cat", "/etc/resolv.conf")
    # The default route leads to the link emulator, which does not have this address, so there is no answer.
    code = "import socket; socket.create_connection(('203.0.113.1', 80), timeout=1)"
    outside = lab.call("exec", "hamburg", "python3", "-c", code)
    assert outside.returncode != 0
    assert "timed out" in outside.stderr
    forwarding = lab.run("exec", "akamai", "cat", "/proc/sys/net/ipv4/ip_forward")
    assert forwarding == "0\n"


def test_web_hosts_under_their_names(lab: Lab) -> None:
    code = (
        "import urllib.request as u\n"
        "print(u.urlopen('https://archive.routeviews.org/bgpdata/', timeout=60).status)\n"
        "print(u.urlopen('https://tranco-list.eu/daily_list_id?date=2024-08-07&subdomains=true').status)"
    )
    assert lab.python("centre", code) == "200\n200\n"


def test_epochs_move_names(other_lab: Lab) -> None:
    other_lab.run("up")
    lines = [json.loads(line) for line in other_lab.run("truth").splitlines()]
    name = next(t["domain"] for t in lines if t["epochs"] == [1] and "customers" not in t["domain"])
    address_in_epoch = {
        epoch: t["ip"] for t in lines if t["domain"] == name for epoch in t["epochs"] if ":" not in t["ip"]
    }
    assert address_in_epoch[1] != address_in_epoch[2]
    (other_lab.state / "internet.toml").unlink()  # the running lab does not need it
    for epoch in (1, 2, 3, 1):
        other_lab.run("epoch", str(epoch))
        code = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
        assert other_lab.python("hamburg", code, name).strip() == address_in_epoch[epoch]
    wrong = other_lab.call("epoch", "9")
    assert wrong.returncode == 2
    assert "1 to 3" in wrong.stderr
