"""Servers on a patched copy of a stack whose interface cannot delay an answer: a folder for each.

NAME/changes.toml:

program   the server, in target/release like all native programs
go        the patched module; the server is lab/stacks/quic-go, built with the tag `held`, or
crate     the patched crate, `library` the folder of the server's own crate (built with the
          feature NAME), and `main` the program
add       files next to changes.toml to add to the copy
[[change]]   file, old, new: text that occurs once, and its replacement

The copy is made in the user's cache folder from the source that the package manager fetched for the build.
This repository contains no part of the stack.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, model_validator

from firstflight.errors import FirstflightError
from firstflight.system import binaries
from firstflight.system.files import explain_os_errors
from firstflight.system.lock import locked
from testbed import toml_file
from testbed.guest import compiler
from testbed.guest.cache_folder import cache

FOLDER = Path(__file__).parent
GO_SERVER = "lab/stacks/quic-go"


class _Change(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    file: str
    old: str = Field(min_length=1)
    new: str


class Patched(BaseModel):
    """A file changes.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    program: str = Field(pattern=r"^firstflight-[a-z0-9-]+$")
    go: str | None = None
    crate: str | None = None
    library: str = ""
    main: str = ""
    add: tuple[str, ...] = ()
    change: tuple[_Change, ...]

    @model_validator(mode="after")
    def _is_one(self) -> Patched:
        if (self.go is None) == (self.crate is None):
            raise ValueError("give either `go` or `crate`")
        return self


def load() -> dict[str, Patched]:
    """Return all patched servers, keyed and sorted by name. UsageError if a file is invalid."""
    return {file.parent.name: toml_file.read(file, Patched) for file in sorted(FOLDER.glob("*/changes.toml"))}


def build_all() -> list[str]:
    """Build all servers that are not up to date; return their names.

    FirstflightError if a stack's source has changed so that a change does not fit, or a compiler fails;
    OutputError if the cache folder cannot be written.
    """
    with explain_os_errors(cache()):
        cache().mkdir(parents=True, exist_ok=True)
    with locked(cache() / "patched.lock", "the testbed's changed copies", wait_s=1800):
        for name, one in load().items():
            with explain_os_errors(cache()):
                copy = changed(name, one, source(one))
                (_build_go if one.go else _build_crate)(name, one, copy)
    return [one.program for one in load().values()]


def source(one: Patched) -> Path:
    """Return the folder of the stack's own source, in the version in use.

    FirstflightError if it is not fetched.
    """
    return _go_source(one.go) if one.go else _crate_source(str(one.crate))


def changed(name: str, one: Patched, original: Path) -> Path:
    """Return the folder of the changed copy of `original`, which is made if it is not there.

    FirstflightError if a change does not fit.
    """
    key = hashlib.sha256(f"{original}\n{one.model_dump_json()}".encode())
    for added in one.add:
        key.update((FOLDER / name / added).read_bytes())
    folder = cache() / f"{name}-{key.hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    # Go's module cache is read-only. A copy with its permissions could not be changed or removed.
    shutil.copytree(original, part, copy_function=shutil.copyfile)
    for directory in (part, *(one for one in part.rglob("*") if one.is_dir())):
        directory.chmod(0o755)
    for added in one.add:
        shutil.copyfile(FOLDER / name / added, part / added)
    for change in one.change:
        file = part / change.file
        text = file.read_text(encoding="utf-8")
        if (times := text.count(change.old)) != 1:
            beginning = change.old.strip().splitlines()[0].strip()
            raise FirstflightError(
                f"{original / change.file} is not as testbed/stacks/patched/{name}/changes.toml expects: "
                f"{beginning!r} and what follows is there {times} times"
            )
        file.write_text(text.replace(change.old, change.new), encoding="utf-8")
    part.rename(folder)
    return folder


def _go_source(module: str) -> Path:
    found = _run(["go", "list", "-m", "-json", module], binaries.repository() / GO_SERVER)
    return Path(json.loads(found)["Dir"])


def _crate_source(crate: str) -> Path:
    # Without a platform, crates of other systems would be missing.
    about = _run(["rustc", "-vV"], binaries.repository())
    host = next(line.partition(" ")[2] for line in about.splitlines() if line.startswith("host: "))
    argv = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host]
    packages = json.loads(_run(argv, binaries.repository()))["packages"]
    (found,) = (one["manifest_path"] for one in packages if one["name"] == crate)
    return Path(found).parent


def _build_go(name: str, one: Patched, copy: Path) -> None:
    server = binaries.repository() / GO_SERVER
    with_copy = cache() / f"{name}.mod"
    text = (server / "go.mod").read_text(encoding="utf-8")
    with_copy.write_text(f"{text}\nreplace {one.go} => {copy}\n", encoding="utf-8")
    shutil.copyfile(server / "go.sum", with_copy.with_suffix(".sum"))
    out = binaries.repository() / "target/release" / one.program
    _run(["go", "build", "-trimpath", f"-modfile={with_copy}", "-tags", "held", "-o", str(out), "."], server)


def _build_crate(name: str, one: Patched, copy: Path) -> None:
    root = binaries.repository()
    package = cache() / f"{name}-program"
    (package / "src").mkdir(parents=True, exist_ok=True)
    library = f"path = {json.dumps(str(root / one.library))}, default-features = false"
    lines = [
        "[package]",
        f'name = "{one.program}"',
        'version = "0.1.0"',
        'edition = "2024"',
        "[workspace]",
        "[dependencies]",
        f'{_crate_name(root / one.library)} = {{ {library}, features = ["{name}"] }}',
        "[patch.crates-io]",
        f"{one.crate} = {{ path = {json.dumps(str(copy))} }}",
        # The same profile as the repository's, so that this build reuses its compiled crates.
        "[profile.release]",
        'debug = "line-tables-only"',
        'lto = "thin"',
    ]
    _write(package / "Cargo.toml", "".join(f"{line}\n" for line in lines))
    _write(package / "src/main.rs", one.main)
    # The same versions as in all other programs.
    shutil.copyfile(root / "Cargo.lock", package / "Cargo.lock")
    target = str(root / "target")
    _run(["cargo", "build", "--quiet", "--release", "--offline", "--target-dir", target], package)


def _crate_name(folder: Path) -> str:
    lines = (folder / "Cargo.toml").read_text(encoding="utf-8").splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith("name = "))


def _write(file: Path, text: str) -> None:
    """Write a file, unless it is the same already: a compiler looks at its time."""
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def _run(argv: list[str], folder: Path) -> str:
    # All that a copy needs has been fetched for the build.
    environment = {**os.environ, "GOPROXY": "off"}
    return compiler.run(argv, folder, "a changed copy of a stack needs it", environment)
