"""deploy/setup.sh and Debian's packages: the changes that it makes to a machine. Programs are stubs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import install

DEPLOY = Path(__file__).parents[2] / "deploy"
SETUP = DEPLOY / "setup.sh"
NO_CLUSTER = "etc/postgresql-common/createcluster.d/firstflight.conf"
VERSIONS = {"go": "go1.26.0", "rustc": "rustc 1.95.0", "gcc": "12.2.0"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the script, on a machine with nginx and without the other servers."""
    for folder in (
        "deploy",
        ".cargo/bin",
        ".venv/bin",
        "lab/stacks/quic-go",
        "deploy/grafana/check",
        "deploy/hashes",
    ):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name in ("install.py", "progress.py"):
        shutil.copy(DEPLOY / name, tmp_path / "deploy")
    lists = (*install.TEST, install.BUILD, install.INSTALLER, install.DEMO_NAMES, install.SUPERSET)
    for name in lists:
        (tmp_path / name).touch()
        (tmp_path / "deploy/hashes" / name).touch()
    (tmp_path / "pyproject.toml").touch()
    text = SETUP.read_text().replace("/etc/postgresql-common", f"{tmp_path}/etc/postgresql-common")
    for folder in ("=/usr/sbin/", "=/usr/bin/"):
        text = text.replace(folder, f"={tmp_path}/none/")
    text = text.replace(":/usr/sbin:/sbin:", ":")
    stub(tmp_path / "deploy/setup.sh", text)
    for name, version in VERSIONS.items():
        stub(tmp_path / ".cargo/bin" / name, f"#!/bin/sh\necho {version}\n")
    for name in (
        ".cargo/bin/cargo",
        ".cargo/bin/nginx",
        ".venv/bin/python",
        ".venv/bin/pip",
        ".venv/bin/uv",
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


def setup(tree: Path, apt_get: str = "true", profile: str = "test") -> subprocess.CompletedProcess[str]:
    """Run the script with an apt-get that does that when it installs."""
    stub(tree / ".cargo/bin/apt-get", f'#!/bin/sh\ncase "$*" in "install -y"*) {apt_get} ;; esac\n')
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tree), "PYTHON": sys.executable}
    return subprocess.run(
        [tree / "deploy/setup.sh", profile],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("profile", "more"), [("test", []), ("machines", ["ssh"])])
def test_servers_that_it_installs_do_not_start_at_the_next_boot(
    tree: Path, profile: str, more: list[str]
) -> None:
    """Servers that were installed before keep their state."""
    assert setup(tree, f"cp {tree}/{NO_CLUSTER} {tree}/seen", profile).returncode == 0
    assert (tree / "seen").read_text() == "create_main_cluster = false\n"
    assert sorted((tree / "systemctl").read_text().splitlines()) == [
        f"disable -q {service}" for service in ["bird", "named", "prometheus", *more, "unbound"]
    ]


@pytest.mark.parametrize("apt_get", ["true", "exit 100", "kill -TERM $PPID"])
def test_a_later_installation_of_postgresql_makes_its_cluster(tree: Path, apt_get: str) -> None:
    assert (setup(tree, apt_get).returncode == 0) == (apt_get == "true")
    assert (tree / NO_CLUSTER).parent.is_dir() and not (tree / NO_CLUSTER).exists()


@pytest.mark.parametrize(
    ("name", "version", "sentence"),
    [
        ("rustc", "", "Rust is missing and firstflight needs Rust 1.95 or newer: run 'rustup update stable'"),
        (
            "rustc",
            "rustc 1.85.0",
            "Rust 1.85.0 is too old and firstflight needs Rust 1.95 or newer: run 'rustup",
        ),
        (
            "go",
            "",
            "Go is missing and firstflight needs Go 1.26 or newer: unpack the archive of https://go.dev/dl/",
        ),
        ("go", "go1.24.4", "Go 1.24.4 is too old and firstflight needs Go 1.26 or newer: unpack the archive"),
    ],
)
def test_a_toolchain_that_is_missing_or_old_is_one_sentence_with_its_source(
    tree: Path, name: str, version: str, sentence: str
) -> None:
    stub(tree / ".cargo/bin" / name, f"#!/bin/sh\necho {version}\n")
    done = setup(tree)
    assert done.returncode == 2
    assert done.stderr.startswith(f"setup: {sentence}") and done.stderr.count("\n") == 1


def test_the_demo_gets_only_what_it_uses(tree: Path) -> None:
    stub(tree / ".cargo/bin/cargo", f'#!/bin/sh\necho "$@" >{tree}/cargo\n')
    for name in ("pip", "uv"):
        stub(tree / ".venv/bin" / name, f'#!/bin/sh\necho "$@" >>{tree}/packages\n')
    assert setup(tree, profile="demo").returncode == 0
    assert "--workspace" not in (tree / "cargo").read_text()
    builds, packages, editable = (tree / "packages").read_text().splitlines()
    assert builds.endswith("build.txt --requirement=deploy/hashes/requirements-installer.txt")
    assert packages.endswith("--require-hashes --requirement=deploy/hashes/requirements-demo.txt")
    assert editable.endswith("--no-deps --editable .")
    # Packages are not installed again, even if a later profile installed more.
    assert setup(tree, profile="test").returncode == 0
    assert setup(tree, profile="demo").returncode == 0
    assert len((tree / "packages").read_text().splitlines()) == 6
