"""Debian's cloud-init validates the user data of deploy/cloud (`make cloud-test` unpacks cloud-init)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.deploy.cloud.test_user_data import made

UNPACKED = Path(__file__).parents[2] / "target" / "cloud-init"
# cloud-init runs with the system's Python.
COMMAND = ["/usr/bin/python3", "-m", "cloudinit.cmd.main", "schema", "--config-file"]


def checked(path: Path) -> tuple[int, str]:
    """Validate a file with cloud-init; return the exit status and the output."""
    assert (UNPACKED / "archives").is_dir(), "cloud-init is not unpacked: make cloud-test"
    environment = {"PYTHONPATH": str(UNPACKED / "usr/lib/python3/dist-packages"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([*COMMAND, path], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_cloud_init_finds_it_valid(tmp_path: Path) -> None:
    path = tmp_path / "user-data"
    path.write_text(made(tmp_path).stdout)
    status, output = checked(path)
    assert status == 0 and "Valid" in output, output


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("lock_passwd: true", "lock_passwd: 7"), ("package_update: true", "package_update: later")],
)
def test_cloud_init_finds_errors(tmp_path: Path, right: str, wrong: str) -> None:
    path = tmp_path / "user-data"
    text = made(tmp_path).stdout
    assert right in text
    path.write_text(text.replace(right, wrong))
    status, output = checked(path)
    assert status != 0 and "schema errors" in output
