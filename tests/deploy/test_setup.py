"""deploy/setup.sh as far as Debian's packages: what it leaves behind on a machine. Programs are stubs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "deploy" / "setup.sh"
NO_CLUSTER = "etc/postgresql-common/createcluster.d/firstflight.conf"
VERSIONS = {"go": "go1.26.0", "rustc": "rustc 1.95.0", "gcc": "12.2.0"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the script, on a machine that has nginx and of the other servers none."""
    for folder in ("deploy", ".cargo/bin", ".venv/bin", "lab/stacks/quic-go", "deploy/grafana/check"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name in ("", "-airflow", "-site", "-deploy", "-docs", "-dev", "-superset"):
        (tmp_path / f"requirements{name}.txt").touch()
    (tmp_path / "pyproject.toml").touch()
    text = SETUP.read_text().replace("/etc/postgresql-common", f"{tmp_path}/etc/postgresql-common")
    text = text.replace("=/usr/sbin/", f"={tmp_path}/none/").replace(":/usr/sbin:/sbin:", ":")
    stub(tmp_path / "deploy/setup.sh", text)
    for name, version in VERSIONS.items():
        stub(tmp_path / ".cargo/bin" / name, f"#!/bin/sh\necho {version}\n")
    for name in (
        ".cargo/bin/cargo",
        ".cargo/bin/nginx",
        ".venv/bin/python",
        ".venv/bin/pip",
        ".venv/bin/firstflight",
    ):
        stub(tmp_path / name, "#!/bin/sh\n")
    stub(tmp_path / ".cargo/bin/id", "#!/bin/sh\necho 0\n")
    stub(tmp_path / ".cargo/bin/systemctl", f'#!/bin/sh\necho "$@" >>{tmp_path}/systemctl\n')
    return tmp_path


def stub(path: Path, text: str) -> None:
    """Write a program."""
    path.write_text(text)
    path.chmod(0o755)


def setup(tree: Path, apt_get: str, profile: str = "test") -> int:
    """Run the script with an apt-get that does that when it installs; return its status."""
    stub(tree / ".cargo/bin/apt-get", f'#!/bin/sh\ncase "$*" in "install -y"*) {apt_get} ;; esac\n')
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tree), "PYTHON": sys.executable}
    return subprocess.run(
        [tree / "deploy/setup.sh", profile], env=os.environ | environment, capture_output=True, check=False
    ).returncode


@pytest.mark.parametrize(("profile", "more"), [("test", []), ("machines", ["ssh"])])
def test_servers_that_it_installs_do_not_start_at_the_next_boot(
    tree: Path, profile: str, more: list[str]
) -> None:
    """Those that were there stay as they are."""
    assert setup(tree, f"cp {tree}/{NO_CLUSTER} {tree}/seen", profile) == 0
    assert (tree / "seen").read_text() == "create_main_cluster = false\n"
    assert sorted((tree / "systemctl").read_text().splitlines()) == [
        f"disable -q {service}" for service in ["bird", "named", *more, "unbound"]
    ]


@pytest.mark.parametrize("apt_get", ["true", "exit 100", "kill -TERM $PPID"])
def test_a_later_installation_of_postgresql_makes_its_cluster(tree: Path, apt_get: str) -> None:
    assert (setup(tree, apt_get) == 0) == (apt_get == "true")
    assert (tree / NO_CLUSTER).parent.is_dir() and not (tree / NO_CLUSTER).exists()
