"""Patched copies of stacks: the changes, and that they apply to the versions in use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import binaries
from testbed import stacks
from testbed.guest import cache_folder
from testbed.stacks import patched
from testbed.stacks.program import ServerProgram


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache_folder.cache().mkdir(parents=True)
    return cache_folder.cache()


def spec(old: str) -> patched.Patched:
    change = {"file": "src/a.rs", "old": old, "new": "new"}
    return patched.Patched.model_validate({"program": "firstflight-x", "crate": "x", "change": [change]})


def test_a_copy_has_the_changes_and_the_source_stays(tmp_path: Path, cache: Path) -> None:
    source = tmp_path / "source"
    (source / "src").mkdir(parents=True)
    (source / "src/a.rs").write_text("one old two", encoding="utf-8")
    (source / "src").chmod(0o555)
    copy = patched.patched_folder("x", spec("old"), source)
    assert (copy / "src/a.rs").read_text() == "one new two"
    assert (source / "src/a.rs").read_text() == "one old two"
    assert patched.patched_folder("x", spec("old"), source) == copy
    assert patched.patched_folder("x", spec("one"), source) != copy, "another change is another copy"
    with pytest.raises(FirstflightError, match="'three' and what follows is there 0 times"):
        patched.patched_folder("x", spec("three"), source)
    with pytest.raises(FirstflightError, match="there 3 times"):
        patched.patched_folder("x", spec("o"), source)
    assert {folder.parent for folder in (copy, *cache.glob("x-*"))} == {cache}


@pytest.mark.parametrize("name", patched.load())
def test_the_changes_fit_the_versions_in_use(name: str) -> None:
    patch = patched.load()[name]
    copy = patched.patched_folder(name, patch, patched.source(patch))
    for change in patch.change:
        assert change.new in (copy / change.file).read_text()
    for added in patch.add:
        assert (copy / added).read_bytes() == (patched.FOLDER / name / added).read_bytes()


@pytest.mark.testbed
@pytest.mark.parametrize("name", [name for name, patch in patched.load().items() if patch.crate])
def test_each_program_contains_its_copy(name: str) -> None:
    """A program has the paths of its sources, for panics. The servers are built into one folder."""
    patch = patched.load()[name]
    copy = patched.patched_folder(name, patch, patched.source(patch))
    found = set(re.findall(rb"/([a-z-]+-[0-9a-f]{16})/src/", binaries.find(patch.program).read_bytes()))
    assert found == {copy.name.encode()}


def test_each_is_the_server_of_a_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not by programs that an earlier version of the testbed has built here.
    monkeypatch.setenv("FIRSTFLIGHT_BIN", str(tmp_path))
    servers = {
        stack.server.program
        for stack in stacks.load().values()
        if isinstance(stack.server, ServerProgram) and stack.server.patched and stack.server.program
    }
    assert servers == {patch.program for patch in patched.load().values()}
    quinn, s2n = stacks.find("quinn"), stacks.find("s2n-quic")
    assert (quinn.server_version, quinn.server_build) == (f"{quinn.version.text()}+changed", "release")
    assert s2n.server_version == s2n.version.text()


def test_one_that_is_not_built_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_BIN", str(tmp_path))
    with pytest.raises(
        UsageError, match=r"^firstflight-quinn-server is not built: run `make testbed-setup`$"
    ):
        stacks.find("quinn").server_command()
    with pytest.raises(UsageError, match="firstflight-s2n-server is not in"):
        stacks.find("s2n-quic").server_command()
