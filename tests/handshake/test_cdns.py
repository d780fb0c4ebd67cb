"""The CDN of real handshakes by header and certificate: the engine, and the command with custom rules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.cdn import rules
from tests.handshake.conftest import (
    CONTACT,
    ENDS_S,
    FAST,
    HOST,
    LOOPBACK,
    SILENT_S,
    Http3,
    Target,
    connect,
    write_targets,
)
from tests.waiting import PATIENCE_S

FIRSTFLIGHT = [sys.executable, "-P", "-m", "cli"]
MODES = ("plain", "early", "redirect")
MINE = """
[[rule]]
cdn = "Mine"
source = "this test"
header = "location"
values = ["*elsewhere.test/"]
[[rule]]
cdn = "Mine"
source = "this test"
san = ["http3.test"]
"""


def targets(http3: Http3) -> list[Target]:
    """Return targets with connections that finish by themselves."""
    return [*((HOST, f"{mode}.http3.test", http3.port) for mode in MODES), (HOST, "nobody.test", 9)]


def silent(http3: Http3) -> list[Target]:
    """Return the target that never responds."""
    return [(HOST, "silent.http3.test", http3.port)]


def cdns(rows: list[dict[str, object]]) -> dict[str, tuple[object, object]]:
    return {
        str(row["domain"]).split(".")[0]: (row["cdn_by_header"], row["cdn_by_certificate"]) for row in rows
    }


def by_command(
    chosen: list[Target], folder: Path, *options: str, timeout_s: float = ENDS_S
) -> subprocess.CompletedProcess[str]:
    path = write_targets(folder / "targets.csv", chosen)
    command = [*FIRSTFLIGHT, "handshake", "--targets", path, "--contact", CONTACT, *LOOPBACK, *FAST]
    return subprocess.run(
        [*map(str, command), "--timeout", str(timeout_s), *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "FIRSTFLIGHT_STORE": f"chdb:{folder}/store"},
    )


def test_the_engine_applies_the_rules_that_it_gets(http3: Http3, tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(rules.as_json(rules.load(None)))
    found = connect(tmp_path, targets(http3), "--timeout", ENDS_S, "--cdn-rules", path)
    none = connect(tmp_path, silent(http3), "--timeout", SILENT_S, "--cdn-rules", path)
    assert cdns([*found.rows, *none.rows]) == {
        "plain": ("Cloudflare", "Others"),
        "early": ("Amazon", "Others"),
        "redirect": ("Others", "Others"),
        "silent": (None, "Others"),  # no response
        "nobody": (None, None),
    }
    without = connect(tmp_path, targets(http3)[:1], "--timeout", ENDS_S)
    assert cdns(without.rows) == {"plain": (None, None)}


def test_the_command_passes_our_rules_or_given_ones(http3: Http3, tmp_path: Path) -> None:
    with_our_rules = by_command(targets(http3), tmp_path)
    assert with_our_rules.returncode == 0, with_our_rules.stderr
    assert cdns([json.loads(line) for line in with_our_rules.stdout.splitlines()])["plain"] == (
        "Cloudflare",
        "Others",
    )
    rules_file = tmp_path / "mine.toml"
    rules_file.write_text(MINE)
    for option in (["--cdn-rules", str(rules_file)], [f"--cdn-rules={rules_file}"]):
        done = by_command(targets(http3), tmp_path, *option)
        assert done.returncode == 0, done.stderr
        assert cdns([json.loads(line) for line in done.stdout.splitlines()]) == {
            "plain": ("Others", "Mine"),
            "early": ("Others", "Mine"),
            "redirect": ("Mine", "Mine"),
            "nobody": (None, None),
        }
    done = by_command(silent(http3), tmp_path, "--cdn-rules", str(rules_file), timeout_s=SILENT_S)
    assert cdns([json.loads(line) for line in done.stdout.splitlines()]) == {"silent": (None, "Mine")}


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("[[rule]]\n", ["--cdn-rules", "FILE"], "mine.toml, rule 1: needs one of cname"),
        ("", ["--cdn-rules", "/nonexistent.toml"], "cannot read /nonexistent.toml: No such file"),
        ("", ["--cdn-rules"], "--cdn-rules needs the name of one file, once"),
        ("", ["--cdn-rules=a", "--cdn-rules=b"], "--cdn-rules needs the name of one file, once"),
    ],
)
def test_wrong_rules_are_one_sentence_and_nothing_is_sent(
    http3: Http3, tmp_path: Path, text: str, options: list[str], says: str
) -> None:
    (tmp_path / "mine.toml").write_text(text)
    request_count = len(http3.asked())
    options = [option.replace("FILE", str(tmp_path / "mine.toml")) for option in options]
    done = by_command(targets(http3), tmp_path, *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr and len(done.stderr.splitlines()) == 1
    assert len(http3.asked()) == request_count
