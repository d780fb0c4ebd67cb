"""The output of `make dist`, installed without network or compilers, can measure (`make dist-test`)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy import dist
from firstflight.system import binaries
from tests.resolve.named import Named
from tests.free_port import free_port

FIXTURES = Path(__file__).parents[1] / "fixtures"
BUILDS = [pytest.param("", id="wheel"), pytest.param(str(dist.OUT / "static"), id="static")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install firstflight from `dist/` in an empty environment; return the environment's bin folder."""
    assert (dist.OUT / "SHA256SUMS").is_file(), "dist/ is missing: run `make dist`"
    environment = tmp_path_factory.mktemp("machine") / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    folder = environment / "bin"
    pip = [folder / "pip", "install", "-q", "--no-index", "--find-links", dist.OUT, "--require-hashes"]
    run(folder, *pip, "--requirement", dist.OUT / "requirements.txt", timeout=500)
    return folder


def run(folder: Path, *command: object, timeout: float = 60, programs: str = "") -> str:
    """Return the output of a command that only finds programs in `folder`, without compilers and toolchains.

    `programs`: a folder with native programs that replaces the installed ones.
    """
    environment = {"PATH": str(folder), "HOME": str(folder.parent), binaries.BIN_VARIABLE: programs}
    assert not any(shutil.which(name, path=str(folder)) for name in ("cc", "gcc", "cargo", "go", "git"))
    argv = [str(word) for word in command]
    done = subprocess.run(
        argv, cwd=folder.parent, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def responder() -> Iterator[int]:
    """The port of a QUIC responder on 127.0.0.1."""
    port = free_port()
    command = [str(binaries.find("firstflight-responder")), "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "READY"
        yield port
        process.kill()


@pytest.mark.parametrize("programs", BUILDS)
def test_probe(installed: Path, responder: int, tmp_path: Path, programs: str) -> None:
    targets = tmp_path / "targets.csv"
    targets.write_text(f"ip,domain,port\n127.0.0.1,a.example,{responder}\n")
    probe = [installed / "firstflight", "probe", "--targets", targets, "--allow-net", "127.0.0.0/8"]
    (row,) = map(json.loads, run(installed, *probe, programs=programs).splitlines())
    assert (row["domain"], row["outcome"]) == ("a.example", "iack")


@pytest.mark.parametrize("programs", BUILDS)
def test_resolve(installed: Path, tmp_path: Path, programs: str) -> None:
    (tmp_path / "names.txt").write_text("www.example.test\n")
    named = Named(tmp_path)
    named.start()
    server = f"127.0.0.1:{named.port}"
    resolve = [installed / "firstflight", "resolve", "--names", tmp_path / "names.txt", "--types", "A"]
    try:
        answered = run(installed, *resolve, "--resolver", server, programs=programs)
    finally:
        named.stop()
    (row,) = map(json.loads, answered.splitlines())
    assert row["address"] == "198.18.0.1"


@pytest.mark.parametrize("programs", BUILDS)
def test_dissect(installed: Path, programs: str) -> None:
    command = [installed / "firstflight", "dissect", "--kind", "quic_connection"]
    rows = run(installed, *command, FIXTURES / "interop" / "nginx.pcap", programs=programs)
    assert json.loads(rows.splitlines()[0])["first_answer"] == "coalesced"


def test_sql(installed: Path) -> None:
    run(installed, installed / "firstflight", "db", "migrate")
    assert (
        run(installed, installed / "firstflight", "sql", "SELECT 6 * 7 AS n", "--format", "TSV").split()[-1]
        == "42"
    )


def test_rows_name_the_commit(installed: Path) -> None:
    code = "from firstflight.run.provenance import tool_version; print(tool_version())"
    version = run(installed, installed / "python", "-c", code).strip()
    assert version.partition("+")[2] not in ("", "unknown")


def test_a_missing_program_of_the_lab_is_explained(installed: Path) -> None:
    code = "from firstflight.system.binaries import find; find('firstflight-link')"
    with pytest.raises(AssertionError, match="lab and benches need a checkout"):
        run(installed, installed / "python", "-c", code)


@pytest.mark.parametrize("name", dist.STATIC)
def test_static_programs_need_no_libraries(name: str, tmp_path: Path) -> None:
    shutil.copy(dist.OUT / "static" / name, tmp_path)
    done = subprocess.run(
        [f"/{name}", "--version"],
        preexec_fn=lambda: os.chroot(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(name)


def test_checksums() -> None:
    assert (dist.OUT / "SHA256SUMS").read_text() == dist.checksums(dist.OUT)


@pytest.mark.parametrize("name", dist.REQUIREMENTS[1:])
def test_requirements_of_sites_are_complete(installed: Path, name: str) -> None:
    pip = [installed / "pip", "install", "-q", "--no-index", "--find-links", dist.OUT, "--dry-run"]
    run(installed, *pip, "--require-hashes", "--requirement", dist.OUT / name, timeout=300)
