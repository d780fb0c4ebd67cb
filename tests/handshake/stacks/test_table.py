"""The table of known stacks, and entries that `firstflight stacks` derives from handshakes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import InputError
from scanner.handshake import fingerprints
from testbed import stacks
from tests.handshake.conftest import TREE
from tests.store.rows import handshake, write
from tests.waiting import PATIENCE_S

TABLE = TREE / "scanner/native/handshake/src/stack/known.json"
EVIDENCE = {"capture", "server", "source"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["00,03=1472,0f"], ("00,03=1472,0f", False)),
        (["00,03=1472,0f", "00,01,03=1472,0f"], ("00,01?,03=1472,0f", False)),
        (["00,0a=3,0f", "00,0a=8,0f"], ("00,0a,0f", False)),
        (["00,0f,20", "00,0f,0c,20=3"], ("00,0f,0c?,20", False)),
        (["g,0f=1,00", "00,g,0f=1"], ("00,0f=1,g", True)),
        (["00,03=?,0f"], ("00,03,0f", False)),
        (["00", "0f"], ("00?,0f?", False)),
    ],
)
def test_an_entry_fits_all_its_fingerprints(given: list[str], expected: tuple[str, bool]) -> None:
    assert fingerprints.merged(given) == expected


@pytest.mark.parametrize("text", ["00,00,0f", "00,0f,00", "00,0f,+3"])
def test_no_program_repeats_parameters(text: str) -> None:
    with pytest.raises(InputError, match=f"no stack has the parameters {text.replace('+', '[+]')}: remove"):
        fingerprints.merged(["00,0f", text])


def made(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "cli", "stacks", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=TREE)


def test_an_entry_comes_from_record_files_and_from_lines(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        handshake(domain="a.example", stack_fingerprint="00,03=1350,0f"),
        handshake(domain="b.example", stack_fingerprint=None),
        handshake(domain="c.example", stack_fingerprint="g,00"),
    ]
    records = write(tmp_path / "quic_handshake.parquet", rows, "quic_handshake")
    lines = tmp_path / "handshakes.jsonl"
    line = {"domain": "a.example", "stack_fingerprint": "00,03=1200,0c,0f"}
    lines.write_text(json.dumps(line) + "\n", encoding="utf-8")
    named = ("--stack", "quiche", "--stack-version", "0.30.0")
    done = made(records, lines, *named, "--domain", "a.example")
    assert (done.returncode, done.stderr) == (0, "")
    expected = {"stack": "quiche", "versions": {"0.30.0": "server"}, "parameters": "00,03,0c?,0f"}
    assert json.loads(done.stdout) == expected
    none = made(records, *named, "--domain", "b.example")
    assert (none.returncode, none.stdout) == (2, "")
    assert f"no completed handshake with b.example in {records} has transport parameters" in none.stderr
    lines.write_text("ip,domain\n", encoding="utf-8")
    bad = made(lines, *named)
    assert (bad.returncode, bad.stdout) == (3, "") and f"{lines}: " in bad.stderr
    assert bad.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{}", "line 2 is no row of quic_handshake: 'domain'"),
        ("[]", "line 2 is no row of quic_handshake: "),
        ("[" * 100_000, "line 2 is no row of quic_handshake: "),
        ('{"domain": "a", "stack_fingerprint": 5}', "a stack_fingerprint is no text"),
        ('{"domain": "a", "stack_fingerprint": ["00"]}', "a stack_fingerprint is no text"),
    ],
)
def test_lines_that_are_no_handshakes_are_refused(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "handshakes.jsonl"
    good = json.dumps({"domain": "a", "stack_fingerprint": "00,01"})
    file.write_text(f"{good}\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=re.escape(f"{file}: {why}")):
        fingerprints.read(file)


def test_the_table_has_the_versions_that_lab_and_testbed_run() -> None:
    """The servers' tests check their names (test_stacks.py, tests/testbed/stacks/test_servers.py)."""
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    assert {how for entry in table for how in entry["versions"].values()} <= EVIDENCE
    observed = {
        (entry["stack"], version)
        for entry in table
        for version, how in entry["versions"].items()
        if how == "server"
    }
    running = set()
    for name, stack in stacks.load().items():
        # The version is None if the server is not built or unpacked here. quiche-sf is a changed quiche.
        if stack.server and stack.transport == "udp" and "-sf" not in name and stack.server_version:
            version = stack.server_version.removesuffix("+changed")
            running.add((name.removesuffix("-gnutls"), version))
    assert {"aioquic", "quiche", "quinn", "s2n-quic"} <= {name for name, _ in running}
    assert running <= observed, "run `firstflight stacks` with these servers, and add entries to the table"
