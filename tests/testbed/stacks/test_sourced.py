"""Programs built from source, from a folder that the user names or from an archive; with stand-ins."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import FirstflightError, InputError, UsageError
from testbed import setup, stacks
from testbed.experiment.cell import Cell
from testbed.stacks import archive, from_source
from testbed.stacks.archive import SourceArchive
from testbed.stacks.from_source import SourceStack
from testbed.trials import block
from tests.waiting import PATIENCE_S

PROGRAM = """#!/bin/sh
echo "$@" >&2
case "$5" in
/slow) exec sleep 30 ;;
/bad) exit 3 ;;
esac
"""
REQUEST = {
    "url": "https://www.testbed.test/",
    "host": "www.testbed.test",
    "ip": "127.0.0.2",
    "port": 443,
    "path": "/",
    "user_agent": "x",
    # Only allows for a slow machine; no test waits for it.
    "timeout_s": 60,
    "max_bytes": 1,
    "roots": "/roots.pem",
}


def manifest(*build: tuple[str, ...]) -> SourceStack:
    return SourceStack(
        build=build or (("mkdir", "{out}/bin"), ("cp", "{source}/client.sh", "{out}/bin/client")),
        program="bin/client",
        request=("{program}", "-j{jobs}", "{host}", "{ip}", "{port}", "{path}", "{roots}"),
    )


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the stand-in's source."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "client.sh").write_text(PROGRAM, encoding="utf-8")
    (folder / "client.sh").chmod(0o755)
    return folder


def answers(
    command: list[str], *requests: dict[str, Any], allow: str = "127.0.0.0/8"
) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    argv = [*command, f"allow-net={allow}"]
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_built_client_answers_requests(source: Path) -> None:
    source_manifest = manifest()
    assert source_manifest.command("stand-in") is None
    program = from_source.build("stand-in", source_manifest, source, 2)
    assert program.is_file()
    command = source_manifest.command("stand-in")
    assert command is not None
    slow = {**REQUEST, "path": "/slow", "timeout_s": 0.2}
    ready, done, failed, late = answers(command, REQUEST, {**REQUEST, "path": "/bad"}, slow)
    assert ready == {"ready": "stand-in/unknown"}
    assert (done["end"], done["detail"]) == ("complete", None)
    # This client does not count a body's bytes, so the answer has no count.
    assert "body_bytes" not in done
    assert done["duration_us"] > 0
    asked = "-j{jobs} www.testbed.test 127.0.0.2 443 /bad /roots.pem"
    assert (failed["end"], failed["detail"]) == ("failed", f"status 3: {asked}")
    assert (late["end"], late["detail"]) == ("timeout", "timed out")
    _, blocked = answers(command, REQUEST, allow="10.0.0.0/8")
    assert blocked["end"] == "blocked"


def test_the_version_is_the_commit(source: Path) -> None:
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=x", "-c", "user.email=x@example.test", "commit", "-qm", "x"],
        ["tag", "v3"],
    ):
        subprocess.run(["git", "-C", str(source), *arguments], check=True)
    from_source.build("stand-in", manifest(), source, 2)
    command = manifest().command("stand-in") or []
    assert answers(command) == [{"ready": "stand-in/v3"}]


@pytest.mark.parametrize("where", ["in a repository", "in the hook of one", "without git"])
def test_a_source_without_a_commit_has_no_version(
    source: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A tarball's folder may be inside of another repository."""
    repository = ["git", "-C", str(source.parent), "-c", "user.name=x", "-c", "user.email=x@example.test"]
    for arguments in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*repository, *arguments], check=True)
    if where == "in the hook of one":
        monkeypatch.setenv("GIT_DIR", str(source.parent / ".git"))
    if where == "without git":
        monkeypatch.setenv("PATH", str(source))
    assert from_source._version(source) == "unknown"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ((("no-such-compiler",),), "no-such-compiler is not installed, and the stack stand-in needs it"),
        ((("sh", "-c", "echo an error >&2; exit 1"),), "an error"),
        ((("true",),), "the build of stand-in left no "),
        ((*manifest().build, ("sh", "-c", "echo a check failed >&2; exit 1")), "a check failed"),
    ],
)
def test_a_build_that_fails_leaves_no_client(
    source: Path, build: tuple[tuple[str, ...], ...], message: str
) -> None:
    from_source.build("stand-in", manifest(), source, 2)
    with pytest.raises(FirstflightError, match=message):
        from_source.build("stand-in", manifest(*build), source, 2)
    assert manifest().command("stand-in") is None


def test_only_a_stack_with_a_source_has_a_folder(tmp_path: Path) -> None:
    assert setup._source("picoquic=/src")[0] == "picoquic"
    for text in ("quinn=/src", "picoquic", "picoquic="):
        with pytest.raises(
            UsageError, match="expected NAME=FOLDER, where NAME is one of mvfst, picoquic, quicly"
        ):
            setup._source(text)
    with pytest.raises(InputError, match="is no folder"):
        from_source.build("stand-in", manifest(), tmp_path / "nowhere", 1)


@pytest.mark.usefixtures("source")
def test_a_stack_is_available_when_it_is_built(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [
        'unavailable = "not built"',
        "[source]",
        'build = [["cp", "{source}/client.sh", "{out}/client"]]',
        'program = "client"',
        'request = ["{program}"]',
    ]
    (tmp_path / "picoquic.toml").write_text("\n".join(lines), encoding="utf-8")
    before = stacks.load.__wrapped__(tmp_path)["picoquic"]
    assert (before.client, before.unavailable) == (None, "not built")
    assert before.source is not None
    from_source.build("picoquic", before.source, source, 1)
    (before.source.folder("picoquic") / "built-from").write_text("v7\n", encoding="utf-8")
    after = stacks.load.__wrapped__(tmp_path)["picoquic"]
    assert after.unavailable is None and after.client is not None
    assert after.client.build == "release"
    assert after.version.text() == "v7"
    assert after.client_command(logged=False)[-1].endswith("/client")
    monkeypatch.setattr(stacks, "find", lambda name: after if name == "picoquic" else stacks.load()[name])
    cell = Cell(client="picoquic", server="aioquic", answering="iack")
    (planned,) = block.blocks("", cell, 1)
    assert planned.unavailable() is None
    # A guest has a separate /tmp, and the cache may be below the host's /tmp.
    given: dict[str, Any] = {}

    def begin(*_: object, **more: Any) -> None:
        given.update(more)
        raise FirstflightError("no guest")

    monkeypatch.setattr("testbed.trials.block.guest.run", begin)
    monkeypatch.setattr("testbed.trials.block.binaries.find", Path)
    assert [row["outcome"] for row in block.run(planned, tmp_path / "block")] == ["guest_failed"]
    assert Path(after.client_command(logged=False)[-1]).parent in given["visible"]


@pytest.mark.usefixtures("source")
def test_an_archive_is_built_once_for_client_and_server(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """picoquic: in a copy of the source that has the changes."""
    manifest = """
bodies = true
gso = true
[source]
build = [["cp", "{source}/client.sh", "{out}/client"]]
program = "client"
request = ["{program}", "{host}"]
serve = ["{program}", "{no_gso}-0", "{port}"]
archive = {package = "a", release = "1", sha256 = "%s", folder = "third", version = "7.1"}
[[source.change]]
file = "client.sh"
old = "exec sleep 30"
new = "%s"
"""
    fetched = []

    def fetch(archive: SourceArchive, _: Path) -> Path:
        fetched.append(archive.package)
        return source

    monkeypatch.setattr(archive, "fetch", fetch)

    def load(new: str) -> stacks.StackFile:
        (tmp_path / "own.toml").write_text(manifest % (64 * "0", new), encoding="utf-8")
        return stacks.load.__wrapped__(tmp_path)["own"]

    before = load("exit 5")
    assert before.missing() == ["own is not built: run `make testbed-setup`"] and before.unavailable is None
    assert before.source is not None
    for _ in range(2):
        program = from_source.build_fetched("own", before.source, 1)
    assert fetched == ["a"], "what is built is not fetched again"
    assert "/slow) exit 5 ;;" in program.read_text() and "sleep 30" in (source / "client.sh").read_text()
    stack = load("exit 5")
    assert stack.missing() == [] and stack.folders("own") == [program.parent]
    assert (stack.version.text(), stack.server_version) == ("7.1", "7.1+changed")
    assert stack.client_command(logged=False)[-2:] == [str(program), "{host}"]
    assert stack.server_command()[-3:] == [str(program), "{no_gso}-0", "{port}"]
    changed = load("exit 6")
    assert changed.source is not None
    from_source.build_fetched("own", changed.source, 1)
    assert fetched == ["a", "a"] and "exit 6" in program.read_text()
    missing = load("exit 6").source
    assert missing is not None
    absent = missing.model_copy(update={"change": (missing.change[0].model_copy(update={"old": "absent"}),)})
    with pytest.raises(
        FirstflightError, match=r"client.sh is not as testbed/stacks/own.toml expects: 'absent'"
    ):
        from_source.build_fetched("own", absent, 1)


def test_an_archive_with_another_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real pip, from a folder instead of the registry. `make testbed-setup` fetches a real archive."""
    (tmp_path / "a-1.tar.gz").write_bytes(b"x")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    archived = SourceArchive(package="a", release="1", sha256=64 * "0", folder="third", version="7")
    with pytest.raises(
        FirstflightError, match=r"Got +2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db0225871792"
    ):
        archive.fetch(archived, tmp_path)


def test_a_source_names_why_its_stack_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'client = {module = "a"}\n[source]\nbuild = [["true"]]\nprogram = "x"\nrequest = ["x"]\n',
        encoding="utf-8",
    )
    with pytest.raises(UsageError, match="needs `unavailable` until it is built"):
        stacks.load.__wrapped__(tmp_path)
