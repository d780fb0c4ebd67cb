"""Programs from Debian packages: the real apt and dpkg-deb install them from a local mirror folder."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import FirstflightError, UsageError
from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.guest import debian_package
from testbed.guest.debian_package import AptSource, DebianArchive
from testbed.stacks import packaged
from testbed.stacks.packaged import Packaged
from testbed.trials import block

STACK = Packaged(
    packages=("stand-in-client", "stand-in-server"),
    client="usr/bin/own-client",
    request=("{program}", "{host}"),
    server="usr/sbin/own-server",
    serve=("{program}", "{port}"),
)
LIBRARY = "usr/lib/x86_64-linux-gnu/libown.so"
FILES = {
    "stand-in-client": ("usr/bin/own-client", "libown"),
    "stand-in-server": ("usr/sbin/own-server", "libown"),
    "libown": (LIBRARY, None),
}
"""The file of each package, and the package that it needs."""


def deb(folder: Path, name: str, version: str, file: str, needed: str | None) -> None:
    """Build a package with one file, a script that prints the package's version."""
    root = folder / f"{name}-{version}"
    (root / file).parent.mkdir(parents=True)
    (root / file).write_text(f"#!/bin/sh\necho {name} {version} $LD_LIBRARY_PATH\n", encoding="ascii")
    (root / file).chmod(0o755)
    (root / "DEBIAN").mkdir()
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@example.test>\n"
    control += f"Depends: {needed}\n" if needed else ""
    (root / "DEBIAN/control").write_text(f"{control}Description: x\n", encoding="ascii")
    argv = ["dpkg-deb", "--root-owner-group", "--build", str(root), str(folder)]
    subprocess.run(argv, check=True, capture_output=True)


def mirror(folder: Path, *versions: str, without: str = "") -> AptSource:
    """Make a mirror of all packages in `versions` in a flat folder. apt copies the files that it uses."""
    folder.mkdir()
    for version in versions:
        for name, (file, needed) in FILES.items():
            if name != without:
                deb(folder, name, version, file, needed)
    lines = []
    for package in sorted(folder.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "--field", str(package)], check=True, capture_output=True)
        digest = subprocess.run(["sha256sum", str(package)], check=True, capture_output=True, text=True)
        lines.append(
            f"{control.stdout.decode().strip()}\nFilename: ./{package.name}\n"
            f"Size: {package.stat().st_size}\nSHA256: {digest.stdout.split()[0]}\n"
        )
    (folder / "Packages").write_text("\n".join(lines), encoding="ascii")
    return AptSource((f"copy:{folder}",), ("./",), (), (("Trusted", "yes"),))


@pytest.fixture
def from_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes a mirror the machine's, and the cache folder a new one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def use(*versions: str, without: str = "", further: bool = False) -> None:
        folder = tmp_path / f"mirror-{len(list(tmp_path.iterdir()))}"
        sources = [mirror(folder, *versions, without=without)]
        if further:
            sources.append(AptSource((f"copy:{tmp_path}/none",), ("./",), (), (("Trusted", "yes"),)))

        def opened(folder: Path, priority: int) -> DebianArchive:
            (folder / "state").mkdir()
            return DebianArchive(folder / "state", sources, "own-backports", priority)

        monkeypatch.setattr(debian_package, "open_archive", opened)

    return use


def left(folder: Path) -> list[str]:
    """Return the names in a folder's parent folder."""
    return sorted(file.name for file in folder.parent.iterdir())


def test_the_newest_version_is_unpacked_with_what_it_needs(from_mirror: Any) -> None:
    from_mirror("1.2.3-1", "1.10.0+ds-2~bpo12+1")
    assert STACK.version("own") is None
    folder = packaged.unpack("own", STACK)
    assert folder == STACK.folder("own") and (folder / LIBRARY).is_file()
    assert STACK.version("own") == "1.10.0"
    libraries = folder / "usr/lib/x86_64-linux-gnu"
    for argv, name, rest in (
        (STACK.client_argv("own"), "stand-in-client", "{host}"),
        (STACK.server_argv("own"), "stand-in-server", "{port}"),
    ):
        assert argv[-1] == rest
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        assert done.stdout == f"{name} 1.10.0+ds-2~bpo12+1 {libraries}\n"
    # Only the folder and its lock remain.
    assert left(folder) == ["packaged-own", "packaged-own.lock"]


def test_unpacked_packages_are_not_unpacked_again(from_mirror: Any) -> None:
    from_mirror("1.2.3-1")
    # A killed run left these folders.
    for name in ("packaged-own", "unpack-own.x7", "packaged-own-other"):
        (STACK.folder("own").with_name(name) / "usr").mkdir(parents=True)
    packaged.unpack("own", STACK)
    # The folder of another stack remains.
    assert left(STACK.folder("own")) == ["packaged-own", "packaged-own-other", "packaged-own.lock"]
    from_mirror("1.2.4-1")
    packaged.unpack("own", STACK)
    assert STACK.version("own") == "1.2.3"


@pytest.mark.parametrize(
    ("changed", "without", "error", "message"),
    [
        ({}, "stand-in-server", UsageError, r"^the mirror of this machine has no package stand-in-server: "),
        ({}, "libown", FirstflightError, r"^`apt-get install .* failed: "),
        (
            {"server": "usr/bin/other"},
            "",
            FirstflightError,
            r"^no package of stand-in-client, stand-in-server 1-1 ",
        ),
    ],
)
def test_an_unavailable_package_is_one_sentence_and_leaves_nothing(
    from_mirror: Any, changed: dict[str, str], without: str, error: type[FirstflightError], message: str
) -> None:
    from_mirror("1-1", without=without)
    stack = STACK.model_copy(update=changed)
    with pytest.raises(error, match=message):
        packaged.unpack("own", stack)
    assert stack.version("own") is None
    assert left(stack.folder("own")) == ["packaged-own.lock"]


def test_a_suite_that_cannot_be_read_gives_no_older_version(from_mirror: Any) -> None:
    from_mirror("1-1", further=True)
    with pytest.raises(FirstflightError, match=r"^`apt-get update .*` failed: "):
        packaged.unpack("own", STACK)
    assert left(STACK.folder("own")) == ["packaged-own.lock"]


MANIFEST = """
answers = ["wfc"]
gso = "always"
bodies = true
[packaged]
packages = ["stand-in-client", "stand-in-server"]
client = "usr/bin/own-client"
request = ["{program}", "{host}"]
server = "usr/sbin/own-server"
serve = ["{program}", "{port}"]
"""


def test_a_stack_of_packages_is_client_and_server(
    tmp_path: Path, from_mirror: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.toml").write_text(MANIFEST, encoding="utf-8")
    from_mirror("2.0-1")
    load = stacks.load.__wrapped__
    before = load(tmp_path)["own"]
    assert before.missing() == ["own is not unpacked: run `make testbed-setup`"]
    assert before.version.text() == "unknown" and before.unavailable is None
    assert before.packaged is not None
    folder = packaged.unpack("own", before.packaged)
    stack = load(tmp_path)["own"]
    assert stack.missing() == [] and stack.folders("own") == [folder]
    assert stack.client is not None
    assert (stack.client.build, stack.server_build) == ("release", "release")
    assert stack.version.text() == stack.server_version == "2.0"
    assert stack.client_command(logged=False)[-2:] == [str(folder / "usr/bin/own-client"), "{host}"]
    assert stack.server_command()[-2:] == [str(folder / "usr/sbin/own-server"), "{port}"]
    assert stack.server_speaks("h3") and not stack.server_speaks("hq-interop")
    monkeypatch.setattr(stacks, "find", lambda name: stack if name == "own" else stacks.load()[name])
    # A guest has a separate /tmp, and the cache may be below the host's /tmp.
    given: list[Path] = []

    def begin(*_: object, **more: Any) -> None:
        given.extend(more["visible"])
        raise FirstflightError("no guest")

    monkeypatch.setattr("testbed.trials.block.guest.run", begin)
    monkeypatch.setattr("testbed.trials.block.binaries.find", Path)
    for client, server in (("own", "aioquic"), ("aioquic", "own"), ("own", "own")):
        given.clear()
        (planned,) = block.blocks("", Cell(client=client, server=server, answering="wfc"), 1)
        assert [row["outcome"] for row in block.run(planned, tmp_path / "block")] == ["guest_failed"]
        assert given.count(folder) == 1


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, None),
        ({"answering": "iack"}, "the server own sends no instant ACK"),
        ({"certificate_delay_ms": 1}, "the server own cannot delay its certificate"),
        ({"body_bytes": 1}, "the server own always sends several datagrams as one"),
        ({"body_bytes": 1, "gso": True}, None),
        ({"gso": True}, None),
    ],
)
def test_a_server_that_cannot_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], why: str | None
) -> None:
    (tmp_path / "own.toml").write_text(MANIFEST, encoding="utf-8")
    stack = stacks.load.__wrapped__(tmp_path)["own"]
    monkeypatch.setattr(stacks, "find", lambda name: stack if name == "own" else stacks.load()[name])
    cell = Cell(**{"client": "aioquic", "server": "own", "answering": "wfc", **more})
    (planned,) = block.blocks("", cell, 1)
    assert planned.unavailable() == why


@pytest.mark.parametrize("name", ["-oAPT::x=y", "../x", ""])
def test_a_package_has_the_name_of_one(name: str) -> None:
    with pytest.raises(ValueError, match="packages"):
        Packaged(**{**STACK.model_dump(), "packages": (name,)})


@pytest.mark.parametrize("more", ['unavailable = "x"', 'server = "aioquic"', 'client = {module = "a"}'])
def test_a_stack_of_packages_has_no_other_source(tmp_path: Path, more: str) -> None:
    (tmp_path / "own.toml").write_text(f"{more}\n{MANIFEST}", encoding="utf-8")
    with pytest.raises(UsageError, match="`packaged` has client and server"):
        stacks.load.__wrapped__(tmp_path)
