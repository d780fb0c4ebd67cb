"""Invalid lines of block and opt-out lists stop everything; both readers accept the same lines."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from firstflight import settings
from firstflight.egress import lists
from firstflight.errors import InputError
from firstflight.run.run import Run
from tests import minimal
from tests.prober.conftest import LOOPBACK, argv, datagrams, write_targets
from tests.waiting import PATIENCE_S

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("list_lines.json").read_text())
# Each through the whole program; both readers also test the table (list_line.rs has the other test).
PASSED_OVER = (
    "127.1.2",
    "127.1.2.300",
    "0127.1.2.4",
    "127.1.2.x",
    "127.1.2.0_24",
    "127.1.2.9-127.1.2.3",
    "127.1.2.0/33",
)


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.1.2.4", 0))
        server.setblocking(False)
        yield server


@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case["line"])[:40])
def test_lines_mean_what_the_table_says(case: dict[str, Any]) -> None:
    def read() -> lists.Range | str | None:
        content = lists.content(case["line"])
        return None if content is None else lists.entry_of(content)

    if "error" in case:
        with pytest.raises(ValueError, match=re.escape(case["error"])):
            read()
        return
    means = case["means"]
    expected = tuple(map(ipaddress.ip_address, means)) if isinstance(means, list) else means
    assert read() == expected


def probe(tmp_path: Path, target: socket.socket, option: str, text: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "list").write_bytes(text.encode())
    targets = write_targets(tmp_path / "t.csv", [("127.1.2.4", "a.test", target.getsockname()[1])])
    quick = ("--timeout", "0.2", "--attempts", 1, "--linger-ms", 0)
    command = argv("--targets", targets, *LOOPBACK, *quick, option, tmp_path / "list")
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


@pytest.mark.parametrize("option", ["--optout", "--blocklist"])
@pytest.mark.parametrize("line", PASSED_OVER)
def test_nothing_is_sent(tmp_path: Path, target: socket.socket, option: str, line: str) -> None:
    done = probe(tmp_path, target, option, f"# asked to be left out\n10.0.0.0/8\n{line}\n")
    assert (done.returncode, done.stdout, datagrams(target)) == (3, "", [])
    assert f"list, line 3: {json.dumps(line)}" in done.stderr and done.stderr.count("\n") == 1
    (tmp_path / "list").rename(tmp_path / "again")
    blocked, opted_out = ([tmp_path / "again"], []) if option == "--blocklist" else ([], [tmp_path / "again"])
    with pytest.raises(InputError, match=r"again, line 3: .*; correct it, nothing was sent"):
        lists.check(blocked, opted_out)


@pytest.mark.parametrize("option", ["--optout", "--blocklist"])
@pytest.mark.parametrize(
    ("line", "blocked"),
    [
        ("127.1.2.3-127.1.2.9", True),
        ("127.1.2.3-9", True),
        ("127.1.2.5-127.1.2.9", False),
        ("::ffff:127.1.2.1-::ffff:127.1.2.5", True),
        ("\ufeff127.1.2.4", True),
    ],
)
def test_ranges_are_applied(
    tmp_path: Path, target: socket.socket, option: str, line: str, blocked: bool
) -> None:
    done = probe(tmp_path, target, option, f"{line}\n")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)["outcome"]
    assert (outcome, len(datagrams(target))) == (("blocked", 0) if blocked else ("timeout", 1))


Command = Callable[[Path], list[str]]


@pytest.mark.parametrize(
    "command",
    [
        lambda config: ["campaign", "run", "--config", str(config)],
        lambda config: ["campaign", "run", "--config", str(config), "--dry-run"],
        lambda config: ["watch", "--config", str(config), "--dry-run"],
        lambda config: ["watch", "--config", str(config)],
        lambda config: stage(config, "resolve"),
        lambda config: stage(config, "probe"),
        lambda config: stage(config, "watch"),
    ],
    ids=["campaign", "campaign --dry-run", "watch --dry-run", "watch", "resolve", "probe", "stage watch"],
)
def test_no_name_is_resolved_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """A resolver on loopback would receive a query, but receives no datagram."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'store'}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as resolver:
        resolver.bind(("127.0.0.1", 0))
        resolver.setblocking(False)
        config = minimal.write(tmp_path)
        (tmp_path / "optout").write_text("example.org\n10.1.2\n")
        resolve_table = f'[resolve]\nresolver = "127.0.0.1"\nport = {resolver.getsockname()[1]}\n'
        probe_table = (
            '[probe]\noptout = ["optout"]\nallow_net = ["127.0.0.0/8"]\n[capture]\nenabled = false\n'
        )
        config.write_text(minimal.CONFIG + resolve_table + probe_table)
        done = subprocess.run(
            [sys.executable, "-P", "-m", "cli", *command(config)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode, datagrams(resolver)) == (3, []), done.stderr
        assert "optout, line 2: " in done.stderr and done.stderr.count("\n") == 1


def stage(config: Path, name: str) -> list[str]:
    """Run the stages that it needs, then the stage, in a new run with these settings."""
    in_force, text = settings.load(config)
    run = Run.create(in_force, text)
    place = ["--run", str(run.path), "--vantage", "here", "--repetition", "1", "--here"]
    if name != "resolve":
        first = [sys.executable, "-P", "-m", "cli", "stage", "targets", "--run", str(run.path), "--here"]
        subprocess.run(first, check=True, capture_output=True, timeout=PATIENCE_S)
    return ["stage", name, *place]
