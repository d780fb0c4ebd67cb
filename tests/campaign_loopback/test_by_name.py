"""Engines with names in the place of addresses, and their rows as text: each against real servers."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from crawler.routing import stage as as_data
from firstflight import settings
from firstflight.run.run import Run
from tests import on_terminal
from tests.external.test_qscanner import STAND_IN
from tests.waiting import PATIENCE_S, until

from .quic_server import ALIASED
from .world import ALIAS, FIRSTFLIGHT, OPTED_OUT, CampaignWorld

ALLOWED = ("--allow-net", "127.9.0.0/16")
FAST = ("--per-prefix-rate", "0")
# The servers are slow on a busy machine.
PATIENT = ("--timeout", "60")
MS = r"\d+\.\d ms"


@pytest.fixture(scope="module")
def asks(world: CampaignWorld) -> tuple[str, ...]:
    """The options that make names of this world targets."""
    return (f"--resolver=127.0.0.1:{world.dns_port}", f"--port={world.quic_port}", *ALLOWED, *FAST)


@pytest.fixture(scope="module")
def routed(world: CampaignWorld) -> Run:
    """A run with AS data, by which rows get their CDN."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_RUNS", str(world.folder / "runs"))
        run = Run.create(*settings.load(world.settings()))
        as_data.stage(run)
    return run


def text(world: CampaignWorld, *words: str) -> list[str]:
    """Return the sorted lines that a command prints on a terminal; the command must succeed."""
    status, shown, messages = on_terminal.run([*FIRSTFLIGHT, *words], world.folder, world.environment)
    assert status == 0, messages
    return sorted(shown.splitlines())


def rows(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_probe_prints_a_line_per_address_for_people(
    world: CampaignWorld, asks: tuple[str, ...], routed: Run
) -> None:
    assert routed.done("as_data")
    found = text(world, "probe", "edge0.camp.test", *asks, "closed0.camp.test", "127.9.1.2", *PATIENT)
    place = rf"127\.9\.\d\.\d:{world.quic_port}"
    expected = [
        rf" +{place}  ACK and ServerHello together after {MS}, Cloudflare",
        rf"closed0\.camp\.test  {place}  refused",
        rf"edge0\.camp\.test    {place}  ACK and ServerHello together after {MS}, Cloudflare",
    ]
    assert len(found) == len(expected)
    for line, pattern in zip(found, expected, strict=True):
        assert re.fullmatch(pattern, line), line


def test_handshake_and_resolve_print_lines_for_people(world: CampaignWorld, asks: tuple[str, ...]) -> None:
    rules = ("--cdn-rules", "rules.toml")
    (line,) = text(world, "handshake", ALIASED, *asks, *rules, *PATIENT)
    assert re.search(rf"handshake after {MS}, h3, status 204 after {MS}, .*, (Cloudflare|Loop)$", line), line
    resolver = f"--resolver=127.0.0.1:{world.dns_port}"
    found = text(world, "resolve", ALIASED, "none.camp.test", resolver, "--types=A")
    assert [re.sub(r"\d+ s$", "N s", line.split(None, 1)[1]) for line in found] == [
        f"A      {world.names()[ALIASED]}, alias of {ALIAS}, for N s",
        "A      no such name (NXDOMAIN)",
    ]


def test_output_that_is_no_terminal_is_json_lines(world: CampaignWorld, asks: tuple[str, ...]) -> None:
    """One line per address; standard error has the names without an address."""
    words = ("edge1.camp.test", "none.camp.test", "edge1.camp.test", OPTED_OUT)
    done = world.firstflight("probe", *words, *asks, *PATIENT, "--optout", "optout.conf", expect=1)
    found = {row["domain"]: row["outcome"] for row in rows(done)}
    assert found == {"edge1.camp.test": "coalesced", OPTED_OUT: "blocked"} and len(rows(done)) == 2
    assert "firstflight probe: none.camp.test has no address (NXDOMAIN)\n" in done.stderr


@pytest.mark.parametrize(
    ("content", "rejected", "piped"),
    [
        ("# ours\nedge2.camp.test\nEdge2.Camp.Test\n", False, False),
        ("1,edge2.camp.test\nhttp://a.test/\n", True, True),
        ('category,domain\nnews,"edge2.camp.test"\n', False, True),
    ],
)
def test_a_list_of_names_is_a_list_of_targets(
    world: CampaignWorld, asks: tuple[str, ...], content: str, rejected: bool, piped: bool
) -> None:
    path = world.folder / "list.txt"
    path.write_text(content)
    argv = [*FIRSTFLIGHT, "tcp-options", "--targets", "-" if piped else str(path), *asks]
    done = subprocess.run(
        argv,
        input=content if piped else None,
        capture_output=True,
        text=True,
        env=world.environment,
        cwd=world.folder,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == int(rejected), done.stderr
    assert [(row["domain"], row["outcome"]) for row in rows(done)] == [("edge2.camp.test", "refused")]
    assert ("line 2 rejected: 'http://a.test/' is a URL" in done.stderr) is rejected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("edge0.camp.test",), "--contact is required"),
        (("http://edge0.camp.test/", *ALLOWED), "is a URL or a path"),
        (("edge0.camp.test", *ALLOWED, "--port", "0"), "--port 0"),
        (("edge0.camp.test", *ALLOWED, "--rate", "fast"), "'fast' for '--rate <N>'"),
        (("edge0.camp.test", *ALLOWED, "--alow-net", "::1/128"), "did you mean --allow-net?"),
        (("edge0.camp.test", *ALLOWED, "--segments", "s"), "cannot be used with"),
        (("--targets", "names.csv", *ALLOWED, "--segments", "s"), "names.csv lists names"),
        (("--targets", "rib.mrt", "--resolver", "127.0.0.1", *ALLOWED), "rib.mrt lists addresses"),
        (("edge0.camp.test", *ALLOWED, "--resolver", "nowhere"), "write it like 192.0.2.53"),
    ],
)
def test_errors_are_one_sentence_before_anything_is_sent(
    world: CampaignWorld, words: tuple[str, ...], message: str
) -> None:
    done = world.firstflight("probe", *words, expect=2)
    assert message in done.stderr and len(done.stderr.splitlines()) == 1 and done.stdout == ""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_reaches_the_engine(
    world: CampaignWorld, asks: tuple[str, ...], tmp_path: Path, stop: signal.Signals
) -> None:
    state = tmp_path / "state.json"
    words = ("--format=text", f"--progress={state}", "--timeout=2")
    server = world.stop_server()
    try:
        argv = [*FIRSTFLIGHT, "probe", "edge5.camp.test", *asks, *words]
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=world.environment)
        until(lambda: state.exists() and json.loads(state.read_text())["in_flight"], "a probe in flight")
        process.send_signal(stop)
        _, messages = process.communicate(timeout=PATIENCE_S)
    finally:
        world.go_on(server)
    assert process.returncode == 130 and "probe: interrupted" in messages, messages


def test_a_dry_run_asks_no_resolver(world: CampaignWorld) -> None:
    """No resolver listens at that address, so a question would give exit status 3."""
    resolver = "127.0.0.1:9"
    done = world.firstflight("probe", "edge0.camp.test", *ALLOWED, "--resolver", resolver, "--dry-run")
    assert "1 names would be resolved" in done.stderr and done.stdout == ""
    done = world.firstflight("probe", "edge0.camp.test", *ALLOWED, "--resolver", resolver, expect=3)
    assert "does not answer" in done.stderr and done.stdout == ""


def test_a_list_of_names_is_one_for_qscanner(world: CampaignWorld, tmp_path: Path) -> None:
    """The stand-in reads QScanner's input and writes results in QScanner's format."""
    program = tmp_path / "qscanner"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    lists = ("--targets", "list.txt", "--optout", "optout.conf", *ALLOWED)
    (world.folder / "list.txt").write_text(f"edge4.camp.test\nnone.camp.test\n{OPTED_OUT}\n")
    words = ("scan", "--engine", "qscanner", *lists, "--out", "out", "--program", str(program))
    done = world.firstflight(*words, "--resolver", f"127.0.0.1:{world.dns_port}")
    assert "none.camp.test has no address (NXDOMAIN)\n1 targets, 1 blocked\n" in done.stderr
    written = (world.folder / "out.input.csv").read_text().splitlines()
    assert written == ["saddr,hostname,port", f"{world.names()['edge4.camp.test']},edge4.camp.test,443"]
