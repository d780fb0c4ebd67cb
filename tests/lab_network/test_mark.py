"""The lab's mark is on its hosts, but not in its core or outside, and has an effect on `--here`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from firstflight import settings
from firstflight.run.run import Run
from lab import enter
from tests import minimal
from tests.lab_network.running import Lab

ALIAS = "alias firstflight-lab"


def in_core(lab: Lab, *argv: str) -> str:
    """Run a program in the supervisor's network namespace."""
    pid = json.loads((lab.state / "lab.json").read_text())["pid"]
    user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
    command = ["nsenter", "-t", str(pid), *user, "-n", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_hosts_are_marked_and_the_core_is_not(lab: Lab) -> None:
    for host in ("hamburg", "centre", "odd"):
        assert ALIAS in lab.run("exec", host, "ip", "link", "show", "lo")
    assert ALIAS not in in_core(lab, "ip", "link", "show", "lo")


def test_nothing_leads_out_of_the_core(lab: Lab) -> None:
    assert in_core(lab, "ip", "route") == "unreachable 198.18.0.0/15 \n"
    assert "unreachable 2001:db8::/32" in in_core(lab, "ip", "-6", "route")
    for family in ("-4", "-6"):  # the caller's namespace is unchanged
        outside = subprocess.run(["ip", family, "route"], capture_output=True, text=True, check=True)
        assert "unreachable 198.18" not in outside.stdout and "2001:db8" not in outside.stdout


def test_a_host_is_distinguished_from_another(lab: Lab) -> None:
    code = "from lab import enter; print([enter.is_on_host(h) for h in ('hamburg', 'centre', 'berlin')])"
    assert lab.python("hamburg", code) == "[True, False, None]\n"
    assert lab.python("centre", code) == "[False, True, None]\n"


def test_the_host_in_a_command() -> None:
    for command, host in (
        ("firstflight lab exec hamburg", "hamburg"),
        ("sudo -E .venv/bin/firstflight lab exec --state var/lab hamburg env A=1", "hamburg"),
        ("firstflight lab exec --state=var/lab centre", "centre"),
        ("ssh hamburg.example.org", None),
        ("firstflight lab exec", None),
        ("", None),
    ):
        assert enter.host_in(command.split()) == host, command


def test_here_on_another_host_is_refused(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = minimal.write(tmp_path)
    config.write_text(minimal.CONFIG + 'command = ["firstflight", "lab", "exec", "hamburg"]\n')
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    run = Run.create(*settings.load(config))
    stage = [
        "firstflight",
        "stage",
        "probe",
        "--run",
        str(run.path),
        "--vantage",
        "here",
        "--repetition",
        "1",
    ]
    elsewhere = lab.call("exec", "los_angeles", *stage, "--here")
    assert (elsewhere.returncode, "but this is another host" in elsewhere.stderr) == (2, True), (
        elsewhere.stderr
    )
    in_hamburg = lab.call("exec", "hamburg", *stage, "--here")
    assert "run the resolve stage" in in_hamburg.stderr, in_hamburg.stderr
