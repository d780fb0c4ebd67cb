"""Clients that are built from a folder that the user names, with a stand-in for the stacks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import FirstflightError, InputError, UsageError
from testbed import setup, stacks
from testbed.experiment.cell import Cell
from testbed.stacks import from_source
from testbed.stacks.from_source import Source
from testbed.trials import block

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
    # Of a machine that stalls, not of what is tested.
    "timeout_s": 60,
    "max_bytes": 1,
    "roots": "/roots.pem",
}


def manifest(*build: tuple[str, ...]) -> Source:
    return Source(
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
    lines = "".join(json.dumps(one) + "\n" for one in requests)
    argv = [*command, f"allow-net={allow}"]
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_is_built_answers_requests(source: Path) -> None:
    own = manifest()
    assert own.command("stand-in") is None
    program = from_source.build("stand-in", own, source, 2)
    assert program.is_file()
    command = own.command("stand-in")
    assert command is not None
    slow = {**REQUEST, "path": "/slow", "timeout_s": 0.2}
    ready, done, failed, late = answers(command, REQUEST, {**REQUEST, "path": "/bad"}, slow)
    assert ready == {"ready": "stand-in/unknown"}
    assert (done["end"], done["detail"]) == ("complete", None)
    # Nobody counts the bytes of a body: no answer says that none came.
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
    (one,) = block.blocks("", cell, 1)
    assert one.unavailable() is None
    # A guest has a /tmp of its own, and the cache may be below the host's.
    given: dict[str, Any] = {}

    def begin(*_: object, **more: Any) -> None:
        given.update(more)
        raise FirstflightError("no guest")

    monkeypatch.setattr("testbed.trials.block.guest.run", begin)
    monkeypatch.setattr("testbed.trials.block.binaries.find", Path)
    assert [row["outcome"] for row in block.run(one, tmp_path / "block")] == ["guest_failed"]
    assert Path(after.client_command(logged=False)[-1]).parent in given["visible"]


def test_a_source_says_why_its_stack_is_not_here(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(
        'client = {module = "a"}\n[source]\nbuild = [["true"]]\nprogram = "x"\nrequest = ["x"]\n',
        encoding="utf-8",
    )
    with pytest.raises(UsageError, match="`source` needs `unavailable`"):
        stacks.load.__wrapped__(tmp_path)
