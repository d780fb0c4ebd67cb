"""Clients in standalone packages: manifests, lock files and failures. These tests build no client."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

from deploy import audit
from firstflight.errors import FirstflightError, UsageError
from firstflight.system import binaries
from testbed import stacks
from testbed.stacks import separate_package

ROOT = binaries.repository()


def test_each_is_outside_of_the_workspace_and_pinned() -> None:
    excluded = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["exclude"]
    packages = separate_package.packages("Cargo.toml")
    folders = {str(folder.relative_to(ROOT)) for folder in packages.values()}
    assert folders == set(audit.CARGO_PACKAGES)
    assert folders <= set(excluded)
    for program, folder in packages.items():
        package = tomllib.loads((folder / "Cargo.toml").read_text())
        assert (package["package"]["name"], package["workspace"]) == (program, {})
        assert package["profile"] == tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]


def test_the_version_is_that_of_its_own_lock_file() -> None:
    tquic = stacks.find("tquic")
    locked = tomllib.loads((ROOT / "testbed/clients/tquic/Cargo.lock").read_text())["package"]
    assert {locked_package["version"] for locked_package in locked if locked_package["name"] == "tquic"} == {
        tquic.version.text()
    }
    for name, stack in stacks.load().items():
        if stack.logging is not None:
            package = ROOT / str(stack.logging.package)
            locked = tomllib.loads((package / "Cargo.lock").read_text())["package"]
            assert {
                locked_package["version"] for locked_package in locked if locked_package["name"] == name
            } == {stack.version.text()}
    with pytest.raises(ValueError, match="`logging` is a client that writes a log: it needs `qlog`"):
        stacks.StackFile.model_validate({"client": {"module": "a"}, "logging": {"module": "b"}})
    with pytest.raises(ValueError, match="`package` needs `program`"):
        stacks.StackFile.model_validate({"client": {"module": "a", "package": "testbed/clients/tquic"}})


def test_one_that_is_not_built_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_BIN", str(tmp_path))
    client = stacks.find("tquic").client
    assert client is not None
    with pytest.raises(
        UsageError, match=r"^firstflight-tquic-client is not built: run `make testbed-setup`$"
    ):
        client.command()


def test_a_package_that_does_not_build_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "x"\nversion = "0.1.0"\n[workspace]\n')
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.rs").write_text("fn main() { nothing }\n")
    subprocess.run(["cargo", "generate-lockfile", "--offline"], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setattr(separate_package, "packages", lambda: {"x": tmp_path})
    monkeypatch.setattr(binaries, "repository", lambda: tmp_path)
    with pytest.raises(FirstflightError, match=rf"^cargo build failed in {tmp_path}: error.*nothing"):
        separate_package.build_all()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FirstflightError, match=r"^cargo is not installed, and .* is built by it$"):
        separate_package.build_all()
