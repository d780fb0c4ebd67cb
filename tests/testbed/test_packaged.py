"""Programs of packages: by the real apt and dpkg-deb, from a folder that is a mirror of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from firstflight.errors import FirstflightError, UsageError
from testbed import stacks
from testbed.experiment.cell import Cell
from testbed.guest import debian_package
from testbed.guest.debian_package import Archive, Source
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
    """Build a package, whose file says its version."""
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


def mirror(folder: Path, *versions: str, without: str = "") -> Source:
    """Make a mirror with all packages in `versions`, in a flat folder. apt copies what it takes of it."""
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
    return Source((f"copy:{folder}",), ("./",), (), (("Trusted", "yes"),))


@pytest.fixture
def from_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes a mirror the machine's, and the cache folder a new one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def use(*versions: str, without: str = "", further: bool = False) -> None:
        folder = tmp_path / f"mirror-{len(list(tmp_path.iterdir()))}"
        sources = [mirror(folder, *versions, without=without)]
        if further:
            sources.append(Source((f"copy:{tmp_path}/none",), ("./",), (), (("Trusted", "yes"),)))

        def opened(folder: Path, priority: int) -> Archive:
            (folder / "state").mkdir()
            return Archive(folder / "state", sources, "own-backports", priority)

        monkeypatch.setattr(debian_package, "open_archive", opened)

    return use


def left(folder: Path) -> list[str]:
    """Return what is beside a folder, and it."""
    return sorted(one.name for one in folder.parent.iterdir())


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
    # Beside the folder only its lock is left.
    assert left(folder) == ["packaged-own", "packaged-own.lock"]


def test_what_is_unpacked_stays(from_mirror: Any) -> None:
    from_mirror("1.2.3-1")
    # Of one that was killed.
    for name in ("packaged-own", "unpack-own.x7", "packaged-own-other"):
        (STACK.folder("own").with_name(name) / "usr").mkdir(parents=True)
    packaged.unpack("own", STACK)
    # Nor is another stack's folder touched.
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
def test_what_is_not_to_be_had_is_one_sentence_and_leaves_nothing(
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
    own = load(tmp_path)["own"]
    assert own.missing() == [] and own.folders("own") == [folder]
    assert own.client is not None
    assert (own.client.build, own.server_build) == ("release", "release")
    assert own.version.text() == own.server_version == "2.0"
    assert own.client_command(logged=False)[-2:] == [str(folder / "usr/bin/own-client"), "{host}"]
    assert own.server_command()[-2:] == [str(folder / "usr/sbin/own-server"), "{port}"]
    assert own.server_speaks("h3") and not own.server_speaks("hq-interop")
    monkeypatch.setattr(stacks, "find", lambda name: own if name == "own" else stacks.load()[name])
    # A guest has a /tmp of its own, and the cache may be below the host's.
    given: list[Path] = []

    def begin(*_: object, **more: Any) -> None:
        given.extend(more["visible"])
        raise FirstflightError("no guest")

    monkeypatch.setattr("testbed.trials.block.guest.run", begin)
    monkeypatch.setattr("testbed.trials.block.binaries.find", Path)
    for client, server in (("own", "aioquic"), ("aioquic", "own"), ("own", "own")):
        given.clear()
        (one,) = block.blocks("", Cell(client=client, server=server, answering="wfc"), 1)
        assert [row["outcome"] for row in block.run(one, tmp_path / "block")] == ["guest_failed"]
        assert given.count(folder) == 1


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, None),
        ({"answering": "iack"}, "the server own sends no instant ACK"),
        ({"certificate_delay_ms": 1}, "the server own has its certificate at once"),
        ({"body_bytes": 1}, "the server own always sends several datagrams as one"),
        ({"body_bytes": 1, "gso": True}, None),
        ({"gso": True}, None),
    ],
)
def test_a_server_that_cannot_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], why: str | None
) -> None:
    (tmp_path / "own.toml").write_text(MANIFEST, encoding="utf-8")
    own = stacks.load.__wrapped__(tmp_path)["own"]
    monkeypatch.setattr(stacks, "find", lambda name: own if name == "own" else stacks.load()[name])
    cell = Cell(**{"client": "aioquic", "server": "own", "answering": "wfc", **more})
    (one,) = block.blocks("", cell, 1)
    assert one.unavailable() == why


@pytest.mark.parametrize("name", ["-oAPT::x=y", "../x", ""])
def test_a_package_has_the_name_of_one(name: str) -> None:
    with pytest.raises(ValueError, match="packages"):
        Packaged(**{**STACK.model_dump(), "packages": (name,)})


@pytest.mark.parametrize("more", ['unavailable = "x"', 'server = "aioquic"', 'client = {module = "a"}'])
def test_a_stack_of_packages_is_nothing_else(tmp_path: Path, more: str) -> None:
    (tmp_path / "own.toml").write_text(f"{more}\n{MANIFEST}", encoding="utf-8")
    with pytest.raises(UsageError, match="`packaged` is client and server"):
        stacks.load.__wrapped__(tmp_path)
