"""`firstflight doctor` and the checks before a campaign, on this machine as it is and with faults."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.run import doctor
from firstflight import settings
from firstflight.errors import UsageError
from firstflight.settings import Settings
from orchestration.checks import every, interface, machine, network, ntp, stored
from orchestration.checks.finding import CheckStatus, Finding
from tests import minimal, stores

FIRSTFLIGHT = [sys.executable, "-P", "-m", "cli"]
WITHOUT_RAW_SOCKETS = ["setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw"]


def load(folder: Path, *overrides: str, vantage: str = 'interface = "lo"') -> Settings:
    path = minimal.write(folder)
    path.write_text(path.read_text() + vantage + "\n")
    return settings.load(path, overrides)[0]


def vantage_of(in_force: Settings) -> settings.Vantage:
    return in_force.vantage[0]


Check = Callable[[Settings], Finding]
CHECKS: dict[str, Check] = {
    "capture": lambda s: interface.capturing(s, vantage_of(s)),
    "stamps": lambda s: interface.stamps(vantage_of(s)),
    "offloads": lambda s: interface.offloads(vantage_of(s)),
    "ports": lambda s: machine.ports(s, vantage_of(s)),
    "programs": machine.programs,
    "disk": lambda _: machine.disk(),
    "files": lambda _: machine.files(),
    "lists": stored.rules,
    "store": lambda s: stored.load_target(s, may_send=True),
    "resolver": lambda s: network.resolver(s, may_send=True),
}


@pytest.mark.parametrize(
    ("name", "state", "says", "overrides", "vantage"),
    [
        ("capture", CheckStatus.OK, "tcpdump captures on lo", (), 'interface = "lo"'),
        ("capture", CheckStatus.FAILED, "nowhere0", (), 'interface = "nowhere0"'),
        ("capture", CheckStatus.FAILED, "no default route", (), ""),
        ("capture", CheckStatus.NOT_CHECKED, "capture.enabled is false", ("capture.enabled=false",), ""),
        ("stamps", CheckStatus.OK, "also on lo", (), 'interface = "lo"'),
        ("offloads", CheckStatus.WARNING, "ethtool -K lo gro off", (), 'interface = "lo"'),
        ("ports", CheckStatus.OK, "61000-61063 are free", (), ""),
        ("ports", CheckStatus.WARNING, "overlap the ports", ("probe.ports=40000-40010",), ""),
        ("ports", CheckStatus.FAILED, "192.0.2.1 is not an address", (), 'sources = ["192.0.2.1"]'),
        ("programs", CheckStatus.OK, "4 native programs", (), ""),
        ("programs", CheckStatus.OK, "5 native programs", ("handshake.enabled=true",), ""),
        ("disk", CheckStatus.OK, "GB are free", (), ""),
        ("files", CheckStatus.OK, "at a time", (), ""),
        ("lists", CheckStatus.WARNING, "no opt-out list is in force", (), ""),
        ("store", CheckStatus.FAILED, "is not a folder", ("store.url=chdb:/dev/null/x",), ""),
        ("store", CheckStatus.OK, "the first load makes", ("store.url=chdb:/tmp/nothing/x",), ""),
        ("store", CheckStatus.WARNING, "does not answer", ("store.url=clickhouse://127.0.0.1:9/x",), ""),
        (
            "resolver",
            CheckStatus.FAILED,
            "does not answer",
            ("resolve.resolver=127.0.0.1", "resolve.port=9"),
            "",
        ),
    ],
)
def test_a_check_prints_what_it_found(
    tmp_path: Path, name: str, state: CheckStatus, says: str, overrides: tuple[str, ...], vantage: str
) -> None:
    found = CHECKS[name](load(tmp_path, *overrides, vantage=vantage))
    assert (found.state, says in str(found)) == (state, True), str(found)
    assert "\n" not in str(found)


def test_a_port_of_another_program_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 61010))
        found = machine.ports(in_force := load(tmp_path), vantage_of(in_force))
    assert found.state is CheckStatus.FAILED
    assert "another program has UDP port 61010 (1 of 61000-61063 are taken)" in str(found)


def test_a_broken_list_and_an_unconfirmed_copy_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "optout"
    listed.write_text("example.org\n")
    in_force = load(tmp_path, f"probe.optout=['{listed}']")
    assert stored.rules(in_force).state is CheckStatus.OK
    monkeypatch.setenv("FIRSTFLIGHT_OPTOUT", f"followed:{listed}")
    assert "is not confirmed by the centre" in str(stored.rules(in_force))
    monkeypatch.setenv("FIRSTFLIGHT_OPTOUT", "")
    assert stored.rules(in_force).state is CheckStatus.FAILED
    listed.write_text("10.1.2\n")
    assert "line 1: '10.1.2'" in str(stored.rules(in_force))


@pytest.mark.parametrize(
    ("overrides", "may_send", "why"),
    [
        (("campaign.contact=", "probe.allow_net=['198.18.0.0/15']"), True, "there is no contact"),
        (("probe.blocklist=['block']",), True, "its address is on a list"),
        ((), False, "a dry run sends nothing"),
        (("campaign.contact=", "probe.allow_net=['127.0.0.0/8']"), True, None),
        ((), True, None),
    ],
)
def test_a_resolver_is_queried_only_with_permission(
    tmp_path: Path, overrides: tuple[str, ...], may_send: bool, why: str | None
) -> None:
    (tmp_path / "block").write_text("127.0.0.0/8\n")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0)
        asked = (
            "resolve.resolver=127.0.0.1",
            f"resolve.port={server.getsockname()[1]}",
            "resolve.timeout_s=0.05",
        )
        found = network.resolver(load(tmp_path, *asked, *overrides), may_send=may_send)
        try:
            was_asked = bool(server.recv(512))
        except BlockingIOError:
            was_asked = False
    assert was_asked == (why is None)
    if why is None:
        assert (found.state, "time-out" in str(found)) == (CheckStatus.FAILED, True), str(found)
    else:
        assert (found.state, why in str(found)) == (CheckStatus.NOT_CHECKED, True), str(found)


@pytest.mark.parametrize(
    ("value", "state", "says"),
    [
        (None, CheckStatus.OK, "the defaults apply"),
        ("", CheckStatus.FAILED, "FIRSTFLIGHT_CEILINGS is empty"),
        ("/nonexistent", CheckStatus.FAILED, "cannot read /nonexistent"),
    ],
)
def test_a_vantage_point_has_readable_ceilings(
    monkeypatch: pytest.MonkeyPatch, value: str | None, state: CheckStatus, says: str
) -> None:
    monkeypatch.delenv("FIRSTFLIGHT_CEILINGS", raising=False)
    if value is not None:
        monkeypatch.setenv("FIRSTFLIGHT_CEILINGS", value)
    found = stored.ceilings()
    assert (found.state, says in str(found)) == (state, True), str(found)


def test_the_kernels_clock_state_is_printed(tmp_path: Path) -> None:
    found = ntp.discipline()
    # A tick is 10 ms, and adjtimex(2) changes it by at most a tenth. So this shows that the offsets of the
    # fields are right.
    assert 9_000 <= found.tick_us <= 11_000 and 0 <= found.error_us <= 16_000_000
    finding = network.ntp_state(load(tmp_path))
    assert (finding.state is CheckStatus.OK) <= found.is_synchronised
    assert ("no NTP daemon" in str(finding)) == (not found.is_synchronised)


@pytest.mark.parametrize(
    ("words", "limits", "says"),
    [
        (["campaign", "run"], "ulimit -n 64", "open files: this process may have 64 open at a time"),
        (["watch"], "ulimit -n 64", "open files: this process may have 64 open at a time"),
        (["campaign", "run"], None, "capture: tcpdump could not start on lo"),
    ],
)
def test_a_campaign_that_cannot_measure_starts_no_stage(
    tmp_path: Path, words: list[str], limits: str | None, says: str
) -> None:
    load(tmp_path)
    program = [
        *FIRSTFLIGHT,
        *words,
        "--config",
        str(tmp_path / "c.toml"),
        "--set",
        "resolve.resolver=127.0.0.1",
    ]
    program += ["--set", "resolve.port=9", "--set", "resolve.timeout_s=0.1"]
    within = WITHOUT_RAW_SOCKETS if limits is None else ["sh", "-c", f'{limits}; exec "$@"', "sh"]
    done = subprocess.run(
        [*within, *program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "FIRSTFLIGHT_RUNS": str(tmp_path / "runs")},
    )
    assert done.returncode == 2, done.stderr
    assert says in done.stderr and "a fault of firstflight" not in done.stderr, done.stderr
    if limits is None:
        assert "setcap cap_net_raw+ep /usr/bin/tcpdump" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_prints_what_would_stop_the_campaign(tmp_path: Path) -> None:
    load(tmp_path)
    program = [*FIRSTFLIGHT, "campaign", "run", "--config", str(tmp_path / "c.toml"), "--dry-run"]
    options = ["--set", "resolve.resolver=127.0.0.1", "--set", "store.url=clickhouse://127.0.0.1:9/x"]
    done = subprocess.run(
        [*WITHOUT_RAW_SOCKETS, *program, *options], capture_output=True, text=True, check=True
    )
    assert "\nfailed: capture: tcpdump could not start on lo" in done.stdout
    for name in ("store", "resolver: 127.0.0.1"):
        assert f"\nnot checked: {name}" in done.stdout
    assert done.stdout.count("a dry run sends nothing") == 2


def test_a_vantage_point_with_a_command_is_checked_before_the_first_fetch(tmp_path: Path) -> None:
    load(tmp_path, vantage=f'interface = "lo"\ncommand = {WITHOUT_RAW_SOCKETS}')
    done = subprocess.run(
        [
            *FIRSTFLIGHT,
            "campaign",
            "run",
            "--config",
            str(tmp_path / "c.toml"),
            "--set",
            "resolve.resolver=127.0.0.1",
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "FIRSTFLIGHT_RUNS": str(tmp_path / "runs")},
    )
    assert done.returncode == 2, done.stderr
    assert "here: capture: tcpdump could not start on lo" in done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    assert not (run / "targets").exists() and not (run / "as_data").exists()


def test_doctor_has_a_line_for_each_check(tmp_path: Path) -> None:
    url = f"chdb:{tmp_path / 'store'}"
    stores.with_tables(tmp_path / "store")
    load(tmp_path, vantage='interface = "lo"')
    changes = [f"store.url={url}", "resolve.resolver=127.0.0.1", "resolve.port=9"]
    options = [word for change in changes for word in ("--set", change)]
    done = subprocess.run(
        [*FIRSTFLIGHT, "doctor", "--config", str(tmp_path / "c.toml"), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    states = dict(line.split(": ")[1::-1] for line in done.stdout.splitlines())
    assert states.pop("clock") in ("ok", "warning") and states.pop("disk") in ("ok", "warning")
    assert states == {
        **dict.fromkeys(
            ("open files", "programs", "capture", "time stamps", "ports", "receive buffer"), "ok"
        ),
        "resolver": "failed",
        "offloads": "warning",
        "lists": "warning",
        "store": "ok",
    }
    assert done.returncode == 1 and "its schema is current" in done.stdout


def test_a_centre_without_a_vantage_point_is_checked_as_the_centre(tmp_path: Path) -> None:
    load(tmp_path, vantage='command = ["ssh", "there"]')
    config = ["--config", str(tmp_path / "c.toml"), "--set", f"store.url=chdb:{tmp_path / 'store'}"]
    done = subprocess.run([*FIRSTFLIGHT, "doctor", *config], capture_output=True, text=True, check=True)
    names = [line.split(": ")[1] for line in done.stdout.splitlines()]
    assert names == ["open files", "disk", "programs", "clock", "lists", "store"]
    refused = subprocess.run(
        [*FIRSTFLIGHT, "doctor", *config, "--vantage", "here"], capture_output=True, text=True, check=False
    )
    assert (refused.returncode, refused.stdout) == (2, "") and "here is on another machine" in refused.stderr


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["a*"], "c.toml has no vantage point on this machine, but a on others: run "),
        (["a*", "b*"], "c.toml has no vantage point on this machine, but a, b on others: run "),
        (["a", "b", "c*"], "c.toml has several vantage points (a, b): give --vantage NAME"),
    ],
)
def test_the_vantage_point_of_this_machine_is_not_guessed(names: list[str], says: str) -> None:
    """A star marks a vantage point on another machine."""
    points = tuple(
        settings.Vantage(name=name.rstrip("*"), command=("ssh", "x") if "*" in name else ()) for name in names
    )
    in_force = settings.Settings.model_construct(vantage=points)
    with pytest.raises(UsageError, match=f"^{re.escape(says)}"):
        doctor._chosen(in_force, "here", Path("c.toml"))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--config", "c.toml", "--run", "x"], "--config and --run exclude each other"),
        (["--set", "probe.rate=1"], "--set changes a setting of --config FILE"),
        (["--vantage", "there"], "no vantage point is called there"),
        (["--run", "x"], "there is no run x"),
        (["--allow-net", "8.8.8.0/24"], "doctor: allow_net.0: 8.8.8.0/24 is not inside loopback"),
        (["--contact", "a\x07"], "doctor: contact: has control characters"),
    ],
)
def test_wrong_use_of_doctor_is_a_sentence(words: list[str], says: str) -> None:
    done = subprocess.run([*FIRSTFLIGHT, "doctor", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr


def test_all_failures_are_in_one_message() -> None:
    first, second = (Finding(name, CheckStatus.FAILED, "is wrong", "mend it", 3) for name in ("a", "b"))
    warned: list[str] = []
    with pytest.raises(every.NotReady, match=r"^a: is wrong; mend it\nb: is wrong; mend it$") as caught:
        every.check([first, Finding("c", CheckStatus.WARNING, "may be wrong"), second], warned.append)
    assert (caught.value.exit_status, warned) == (3, ["warning: c: may be wrong"])
