"""Prometheus's own promtool checks the rules of deploy/prometheus, and runs their tests."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from firstflight.settings.sections import Clock

FOLDER = Path(__file__).parents[3] / "deploy" / "prometheus"
ALERTS = FOLDER / "alerts.yaml"
RULES: dict[str, str] = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load(ALERTS.read_text())["groups"]
    for rule in group["rules"]
}


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run promtool, of Debian's package prometheus."""
    return subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)


def test_the_rules_are_valid() -> None:
    done = promtool("check", "rules", ALERTS)
    assert done.returncode == 0 and f"{len(RULES)} rules found" in done.stdout, done.stderr


def test_each_rule_fires_as_its_test_says() -> None:
    done = promtool("test", "rules", FOLDER / "tests.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    fired = set(re.findall(r'alertname="(\w+)"', (FOLDER / "tests.yaml").read_text()))
    assert fired == set(RULES), "tests.yaml lets each alert fire once"


@pytest.mark.parametrize(
    ("command", "right", "wrong", "shown"),
    [
        ("check", "< 0.1 * firstflight", "< 0.1 * on (path) and firstflight", "could not parse expression"),
        ("check", "rate(firstflight_store", "rate(1 + firstflight_store", "could not parse expression"),
        ("test", "firstflight_backups == 0", "firstflight_backups == 1", "NoBackup"),
        ("test", "- time() < 14 *", "- time() < 30 *", "FAILED"),
        ("test", "for: 30h", "for: 40h", "NoBackup"),
    ],
)
def test_promtool_finds_errors(tmp_path: Path, command: str, right: str, wrong: str, shown: str) -> None:
    """So that the tests above can fail."""
    for name in ("alerts.yaml", "tests.yaml"):
        shutil.copy(FOLDER / name, tmp_path)
    text = ALERTS.read_text()
    assert right in text
    (tmp_path / "alerts.yaml").write_text(text.replace(right, wrong))
    file = "alerts.yaml" if command == "check" else "tests.yaml"
    done = promtool(command, "rules", tmp_path / file)
    assert done.returncode != 0 and shown in done.stdout + done.stderr


def test_a_clock_is_off_where_a_stage_warns() -> None:
    assert RULES["ClockIsOff"] == f"abs(firstflight_clock_offset_seconds) > {Clock().warn_s:g}"
