"""Units of deploy/systemd: systemd reads them without a warning, and rates them as hardened."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.site.test_users import settings

UNITS = Path(__file__).parents[3] / "deploy" / "systemd"
NAMES = sorted(path.name for path in UNITS.glob("firstflight-*.*") if path.is_file())
SERVICES = [name for name in NAMES if name.endswith(".service")]
PROGRAMS = ("airflow", "firstflight", "python")
# Parts that a timer starts.
TIMED = ("uploads", "airflow-clean", "backup", "backup-store")
# The greatest exposure that is accepted, in tenths (systemd-analyze: 40 is `OK`). Downloads need namespaces.
EXPOSURE, EXPOSURE_WITH_DOWNLOADS = 25, 40


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root folder with the units, Debian's own, and the programs that they start."""
    root = tmp_path_factory.mktemp("root")
    shutil.copytree(UNITS, root / "etc/systemd/system")
    programs = [f"opt/firstflight/current/venv/bin/{name}" for name in PROGRAMS]
    for name in (*programs, "usr/bin/curl", "usr/bin/install", "bin/sh", "bin/cp", "bin/rm", "bin/systemctl"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)
    debian = root / "usr/lib/systemd/system"
    debian.mkdir(parents=True)
    for target in Path("/usr/lib/systemd/system").glob("*.*"):
        if target.is_file() and not target.is_symlink():
            shutil.copy(target, debian)
    return root


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run systemd-analyze."""
    command = ["systemd-analyze", "--no-pager", "--man=no", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_all_parts_have_a_unit() -> None:
    parts = (
        "api-server",
        "dag-processor",
        "scheduler",
        "worker",
        "dashboard",
        "store",
        "uploads",
        "metrics",
        "optout",
        "migrate",
        "tables",
        "site-metrics",
        *TIMED,
    )
    assert {f"firstflight-{part}.service" for part in parts} == set(SERVICES)
    assert set(NAMES) - set(SERVICES) == {f"firstflight-{part}.timer" for part in TIMED}


def test_systemd_has_no_remark(machine: Path) -> None:
    done = analyze("verify", f"--root={machine}", *NAMES)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("current/venv/bin/firstflight", "current/venv/bin/firstfly", "is not executable"),
        ("ProtectKernelTunables=yes", "ProtectKernelTunable=yes", "Unknown key"),
        ("@system-service", "@all-of-them", "Unknown system call group"),
    ],
)
def test_systemd_reports_a_faulty_unit(tmp_path: Path, machine: Path, old: str, new: str, shown: str) -> None:
    """So that the test above can fail."""
    root = tmp_path / "root"
    shutil.copytree(machine, root)
    unit = root / "etc/systemd/system/firstflight-store.service"
    text = unit.read_text()
    assert old in text
    unit.write_text(text.replace(old, new))
    assert shown in analyze("verify", f"--root={root}", unit.name).stderr


def test_the_dashboard_has_no_access_to_other_services() -> None:
    """It sees only the reports of their folder, and does not see their processes. test_users.py: its user."""
    found = settings(UNITS, "dashboard")
    assert found["TemporaryFileSystem"] == ["/var/lib/firstflight:ro"]
    assert found["BindReadOnlyPaths"] == ["/var/lib/firstflight/reports"]
    assert found["ProtectProc"] == ["invisible"] and "ReadWritePaths" not in found
    assert found["StateDirectory"] == ["firstflight-dashboard"]


@pytest.mark.parametrize("name", SERVICES)
def test_exposure(name: str) -> None:
    done = analyze("security", "--offline=yes", f"--threshold={EXPOSURE}", UNITS / name)
    assert done.returncode == 0, done.stdout


def test_exposure_with_downloads(tmp_path: Path) -> None:
    shutil.copytree(UNITS, tmp_path / "units")
    shutil.copytree(UNITS / "with-downloads", tmp_path / "units", dirs_exist_ok=True)
    unit = tmp_path / "units" / "firstflight-worker.service"
    done = analyze("security", "--offline=yes", f"--threshold={EXPOSURE_WITH_DOWNLOADS}", unit)
    assert done.returncode == 0, done.stdout
    # The analysis includes the drop-in and its additional rights.
    closed = analyze("security", "--offline=yes", f"--threshold={EXPOSURE}", unit)
    assert closed.returncode == 1 and "CAP_SYS_ADMIN" in closed.stdout


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {f"firstflight-{part}.service" for part in TIMED}))
def test_services_start_with_the_machine(name: str) -> None:
    assert "\n[Install]\nWantedBy=multi-user.target\n" in (UNITS / name).read_text()


@pytest.mark.parametrize(
    ("clean", "load", "status"),
    [(0, 0, 0), (3, 0, 3), (0, 4, 4), (3, 4, 4)],
    ids=["none", "clean", "load", "both"],
)
def test_both_commands_of_the_uploads_run_and_each_failure_counts(
    tmp_path: Path, clean: int, load: int, status: int
) -> None:
    """systemd stops a unit at the first failed command, and counts a command with a `-` as a success."""
    text = (UNITS / "firstflight-uploads.service").read_text().replace("\\\n", " ")
    (line,) = (line for line in text.splitlines() if line.startswith("ExecStart="))
    program = tmp_path / "firstflight"
    program.write_text(
        f'#!/bin/sh\necho "$@"\ncase "$2" in clean) exit {clean} ;; load) exit {load} ;; esac\n'
    )
    program.chmod(0o755)
    line = line.partition("=")[2].replace("/opt/firstflight/current/venv/bin/firstflight", str(program))
    line = line.replace("${FIRSTFLIGHT_KEEP_DAYS}", "30").replace("${FIRSTFLIGHT_KEEP_CAPTURES_DAYS}", "7")
    words = shlex.split(line.replace("$$", "$"))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "uploads clean --keep-days 30 --keep-captures-days 7",
        "uploads load",
    ]
    assert done.returncode == status
