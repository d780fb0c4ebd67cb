"""Servers with a patched copy of a stack whose interface cannot delay an answer. Each server has a folder.

NAME/changes.toml:

program   the server, in target/release like all native programs
go        the patched module; the server is lab/stacks/quic-go, built with the tag `held`, or
crate     the patched crate, `library` the folder of the server's own crate (built with `features`,
          without default features), and `main` the program
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

from firstflight.system import binaries
from firstflight.system.files import explain_os_errors
from firstflight.system.lock import locked
from testbed import toml_file
from testbed.guest import compiler
from testbed.guest.cache_folder import cache
from testbed.stacks import changes
from testbed.stacks.changes import Change

FOLDER = Path(__file__).parent
GO_SERVER = "lab/stacks/quic-go"


class Patched(BaseModel):
    """The content of a file changes.toml."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    program: str = Field(pattern=r"^firstflight-[a-z0-9-]+$")
    go: str | None = None
    crate: str | None = None
    library: str = ""
    features: tuple[str, ...] = ()
    main: str = ""
    add: tuple[str, ...] = ()
    change: tuple[Change, ...]

    @model_validator(mode="after")
    def _is_one(self) -> Patched:
        if (self.go is None) == (self.crate is None):
            raise ValueError("give either `go` or `crate`")
        return self


def load() -> dict[str, Patched]:
    """Return a sorted mapping from name to patched server. UsageError if a file is invalid."""
    return {file.parent.name: toml_file.read(file, Patched) for file in sorted(FOLDER.glob("*/changes.toml"))}


def build_all() -> list[str]:
    """Build all servers that are not up to date; return their names.

    FirstflightError if a stack's source has changed so that a change does not fit, or a compiler fails;
    OutputError if the cache folder cannot be written.
    """
    with explain_os_errors(cache()):
        cache().mkdir(parents=True, exist_ok=True)
    with locked(cache() / "patched.lock", "the testbed's changed copies", wait_s=1800):
        for name, patched in load().items():
            with explain_os_errors(cache()):
                copy = patched_folder(name, patched, source(patched))
                (_build_go if patched.go else _build_crate)(name, patched, copy)
    return [patched.program for patched in load().values()]


def source(patched: Patched) -> Path:
    """Return the folder of the stack's own source, in the version in use.

    FirstflightError if it is not fetched.
    """
    return _go_source(patched.go) if patched.go else _crate_source(str(patched.crate))


def patched_folder(name: str, patched: Patched, original: Path) -> Path:
    """Return the folder of the patched copy of `original`; create it if it does not exist.

    FirstflightError if a change does not apply.
    """
    key = hashlib.sha256(f"{original}\n{patched.model_dump_json()}".encode())
    for added in patched.add:
        key.update((FOLDER / name / added).read_bytes())
    folder = cache() / f"{name}-{key.hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    # Go's module cache is read-only. A copy with its permissions could not be changed or removed.
    shutil.copytree(original, part, copy_function=shutil.copyfile)
    for directory in (part, *(path for path in part.rglob("*") if path.is_dir())):
        directory.chmod(0o755)
    for added in patched.add:
        shutil.copyfile(FOLDER / name / added, part / added)
    changes.apply(patched.change, part, original, f"testbed/stacks/patched/{name}/changes.toml")
    part.rename(folder)
    return folder


def _go_source(module: str) -> Path:
    module_json = _run(["go", "list", "-m", "-json", module], binaries.repository() / GO_SERVER)
    return Path(json.loads(module_json)["Dir"])


def _crate_source(crate: str) -> Path:
    # Without a platform, the result would lack crates of other systems.
    version = _run(["rustc", "-vV"], binaries.repository())
    host = next(line.partition(" ")[2] for line in version.splitlines() if line.startswith("host: "))
    argv = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host]
    packages = json.loads(_run(argv, binaries.repository()))["packages"]
    (manifest,) = (entry["manifest_path"] for entry in packages if entry["name"] == crate)
    return Path(manifest).parent


def _build_go(name: str, patched: Patched, copy: Path) -> None:
    server = binaries.repository() / GO_SERVER
    with_copy = cache() / f"{name}.mod"
    text = (server / "go.mod").read_text(encoding="utf-8")
    with_copy.write_text(f"{text}\nreplace {patched.go} => {copy}\n", encoding="utf-8")
    shutil.copyfile(server / "go.sum", with_copy.with_suffix(".sum"))
    out = binaries.repository() / "target/release" / patched.program
    _run(["go", "build", "-trimpath", f"-modfile={with_copy}", "-tags", "held", "-o", str(out), "."], server)


def _build_crate(name: str, patched: Patched, copy: Path) -> None:
    root = binaries.repository()
    package = cache() / f"{name}-program"
    (package / "src").mkdir(parents=True, exist_ok=True)
    library = f"path = {json.dumps(str(root / patched.library))}, default-features = false"
    lines = [
        "[package]",
        f'name = "{patched.program}"',
        'version = "0.1.0"',
        'edition = "2024"',
        "[workspace]",
        "[dependencies]",
        f"{_crate_name(root / patched.library)} = {{ {library}, features = {json.dumps(patched.features)} }}",
        "[patch.crates-io]",
        f"{patched.crate} = {{ path = {json.dumps(str(copy))} }}",
        # The same profile as the repository's, so that this build reuses its compiled crates.
        "[profile.release]",
        'lto = "off"',
    ]
    _write(package / "Cargo.toml", "".join(f"{line}\n" for line in lines))
    _write(package / "src/main.rs", patched.main)
    # Use the same versions as all other programs.
    shutil.copyfile(root / "Cargo.lock", package / "Cargo.lock")
    target = str(root / "target")
    _run(["cargo", "build", "--quiet", "--release", "--offline", "--target-dir", target], package)


def _crate_name(folder: Path) -> str:
    lines = (folder / "Cargo.toml").read_text(encoding="utf-8").splitlines()
    return next(line.split('"')[1] for line in lines if line.startswith("name = "))


def _write(file: Path, text: str) -> None:
    """Write a file unless its content is the same: compilers look at its time."""
    if not file.is_file() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def _run(argv: list[str], folder: Path) -> str:
    # The build has already fetched everything that a copy needs.
    environment = {**os.environ, "GOPROXY": "off"}
    return compiler.run(argv, folder, "a changed copy of a stack needs it", environment)
