"""The audit of pinned dependencies against a small database in the form of the real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from deploy import audit
from deploy.audit import Package

SCRIPT = Path(audit.__file__)


def advisory(ecosystem: str, name: str, **affected: Any) -> dict[str, Any]:
    return {
        "id": f"TEST-{name}",
        "summary": "it leaks",
        "affected": [{"package": {"ecosystem": ecosystem, "name": name}, **affected}],
    }


def span(*events: tuple[str, str], kind: str = "ECOSYSTEM") -> dict[str, Any]:
    return {"ranges": [{"type": kind, "events": [{key: value} for key, value in events]}]}


@pytest.mark.parametrize(
    ("ecosystem", "version", "affected", "expected"),
    [
        ("PyPI", "1.2", {"versions": ["1.1", "1.2"]}, True),
        ("PyPI", "1.3", {"versions": ["1.1", "1.2"]}, False),
        ("PyPI", "1.10", span(("introduced", "0"), ("fixed", "1.9")), False),
        ("PyPI", "1.10", span(("introduced", "0"), ("fixed", "1.11")), True),
        ("PyPI", "2.0rc1", span(("introduced", "0"), ("fixed", "2.0")), True),
        ("PyPI", "2.0.post1", span(("introduced", "0"), ("last_affected", "2.0")), False),
        ("PyPI", "2.0", span(("introduced", "0"), ("last_affected", "2.0")), True),
        ("PyPI", "3.5", span(("introduced", "0"), ("fixed", "1.9"), ("introduced", "3.0")), True),
        # Events may have any order.
        ("PyPI", "2.5", span(("introduced", "3.0"), ("fixed", "1.9"), ("introduced", "0")), False),
        ("PyPI", "not a version", span(("introduced", "0")), False),
        ("crates.io", "1.0.0-rc.2", span(("introduced", "0.0.0-0"), ("fixed", "1.0.0"), kind="SEMVER"), True),
        ("crates.io", "1.0.0", span(("introduced", "0.0.0-0"), ("fixed", "1.0.0"), kind="SEMVER"), False),
        ("crates.io", "1.0.0-rc.10", span(("introduced", "1.0.0-rc.9"), kind="SEMVER"), True),
        ("Go", "0.48.0", span(("introduced", "0"), ("fixed", "0.48.2"), kind="SEMVER"), True),
        ("Go", "0.48.2", span(("introduced", "0"), ("fixed", "0.48.2"), kind="SEMVER"), False),
        ("Go", "1.0.0", {"ranges": [{"type": "GIT", "events": [{"introduced": "0"}]}]}, False),
    ],
)
def test_which_versions_are_affected(
    ecosystem: str, version: str, affected: dict[str, Any], expected: bool
) -> None:
    assert audit.is_affected(Package(ecosystem, "x", version), affected) is expected


def test_everything_that_is_pinned_is_looked_at() -> None:
    packages = audit.pinned(audit.TREE)
    files = [*audit.TREE.glob("requirements*.txt"), audit.TREE / "pyproject.toml"]
    lines = [line for path in files for line in path.read_text().splitlines()]
    assert sum(p.ecosystem == "PyPI" for p in packages) == sum("==" in line for line in lines) > 100
    names = {(p.ecosystem, p.name) for p in packages}
    assert {("PyPI", "cryptography"), ("crates.io", "parquet"), ("Go", "github.com/quic-go/quic-go")} <= names
    assert ("Go", "github.com/ClickHouse/clickhouse-go/v2") in names
    assert not any(name.startswith("firstflight") for _, name in names)


def run(folder: Path | None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != audit.VARIABLE}
    if folder is not None:
        environment[audit.VARIABLE] = str(folder)
    return subprocess.run(
        [sys.executable, SCRIPT], env=environment, capture_output=True, text=True, check=False
    )


def database(folder: Path, *advisories: dict[str, Any]) -> Path:
    """A database with these advisories and, in each ecosystem, one for an unused package."""
    for ecosystem in audit.ECOSYSTEMS:
        (folder / ecosystem).mkdir(parents=True)
        unused = advisory(ecosystem, "nobody-has-it", **span(("introduced", "0")))
        (folder / ecosystem / "TEST-0.json").write_text(json.dumps(unused))
    for entry in advisories:
        about = entry["affected"][0]["package"]
        (folder / about["ecosystem"] / "TEST-1.json").write_text(json.dumps(entry))
    return folder


def test_known_vulnerabilities_are_named_and_fail(tmp_path: Path) -> None:
    everything = span(("introduced", "0"))
    folder = database(
        tmp_path / "db",
        advisory("PyPI", "PyYAML", **everything),
        advisory("crates.io", "parquet", **everything),
        {**advisory("Go", "github.com/quic-go/quic-go", **everything), "withdrawn": "2026-01-01T00:00:00Z"},
    )
    done = run(folder)
    assert done.returncode == 1
    found = done.stdout.splitlines()
    assert len(found) == 2 and found[0].startswith("parquet ") and found[1].startswith("pyyaml ")
    assert found[1].endswith("(PyPI): TEST-PyYAML: it leaks")
    # The same in the database's published form.
    with zipfile.ZipFile(folder / "PyPI" / "all.zip", "w") as archive:
        for path in sorted((folder / "PyPI").glob("*.json")):
            archive.write(path, path.name)
            path.unlink()
    assert run(folder).stdout == done.stdout


def test_nothing_known(tmp_path: Path) -> None:
    done = run(database(tmp_path / "db"))
    assert (done.returncode, done.stdout) == (0, "") and "0 known vulnerabilities" in done.stderr


def test_without_a_database_nothing_is_called_good(tmp_path: Path) -> None:
    missing = run(None)
    assert (
        missing.returncode == 2 and "FIRSTFLIGHT_ADVISORIES is not set: set it to a folder" in missing.stderr
    )
    empty = run(tmp_path)
    assert empty.returncode == 2 and "has no advisories" in empty.stderr
    half = database(tmp_path / "db")
    (half / "Go" / "TEST-0.json").write_text("{")
    broken = run(half)
    assert broken.returncode == 2 and "is not a copy of the OSV database" in broken.stderr
    assert all(done.stderr.count("\n") == 1 for done in (missing, empty, broken))
