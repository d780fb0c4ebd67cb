"""Compares the pinned dependencies of Python, Rust and Go with known vulnerabilities, without a network.

    FIRSTFLIGHT_ADVISORIES=DIR make audit

DIR has a copy of the OSV database (OSV schema 1.x): in PyPI, crates.io and Go either an `all.zip` as the
database publishes it per ecosystem, or single advisories as JSON files. Exit status 0: no known
vulnerability; 1: known vulnerabilities, one line each; 2: the database, or a part of it, is missing or
damaged.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from firstflight.system.terminal import visible

TREE = Path(__file__).resolve().parent.parent
VARIABLE = "FIRSTFLIGHT_ADVISORIES"
ECOSYSTEMS = ("PyPI", "crates.io", "Go")
CARGO_PACKAGES = ("testbed/clients/msquic", "testbed/clients/quiche", "testbed/clients/tquic")
"""Folders of programs that are not in the workspace, with a lock file each."""
_EVENTS = ("introduced", "fixed", "last_affected")
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
_GO_SUM = re.compile(r"^(\S+) v(\S+) h1:", re.MULTILINE)
_SEMVER = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?")


Key = Callable[[str], Any]
"""Returns a version's sort key; `None` for text that is not a version."""


class Package(NamedTuple):
    """A pinned dependency."""

    ecosystem: str
    name: str
    version: str


class AuditError(Exception):
    """The audit is not possible; one sentence says why."""


def pinned(tree: Path) -> list[Package]:
    """Return what requirements*.txt, pyproject.toml, Cargo.lock and go.sum files pin, without our own."""
    requirements = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted(tree.glob("requirements*.txt"))
    )
    build = tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    requirements = "\n".join([requirements, *build])
    packages = [Package("PyPI", canonicalize_name(n), v) for n, v in _PINNED.findall(requirements)]
    locked = [
        package
        for folder in ("", *CARGO_PACKAGES)
        for package in tomllib.loads((tree / folder / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    ]
    of_cargo = [
        Package("crates.io", package["name"], package["version"]) for package in locked if "source" in package
    ]
    packages += dict.fromkeys(of_cargo)
    sums = "".join(
        (tree / folder / "go.sum").read_text(encoding="utf-8")
        for folder in ("lab/stacks/quic-go", "deploy/grafana/check", "deploy/cloud/check")
    )
    of_go = dict.fromkeys(_GO_SUM.findall(sums))
    packages += [Package("Go", name, version) for name, version in of_go]
    return packages


def known(packages: list[Package], database: Path) -> list[str]:
    """Return a line for each advisory that applies to a pinned version; AuditError if unreadable."""
    lines = []
    for ecosystem in ECOSYSTEMS:
        by_name: dict[str, list[Package]] = {}
        for package in packages:
            if package.ecosystem == ecosystem:
                by_name.setdefault(package.name, []).append(package)
        for advisory in _advisories(database / ecosystem):
            if "withdrawn" in advisory:
                continue
            for affected in advisory.get("affected", []):
                affected_package = affected.get("package", {})
                if affected_package.get("ecosystem") != ecosystem:
                    continue
                name = str(affected_package.get("name"))
                for package in by_name.get(canonicalize_name(name) if ecosystem == "PyPI" else name, []):
                    if is_affected(package, affected):
                        summary = str(advisory.get("summary", "")).strip() or "no summary"
                        pinned_package = f"{package.name} {package.version} ({ecosystem})"
                        lines.append(visible(f"{pinned_package}: {advisory['id']}: {summary}"))
    return sorted(set(lines))


def is_affected(package: Package, affected: dict[str, Any]) -> bool:
    """Return whether `affected` names the version or has it in a range (OSV schema, "Evaluation")."""
    if package.version in affected.get("versions", []):
        return True
    key: Key = _pypi_key if package.ecosystem == "PyPI" else _semver_key
    pinned_version = key(package.version)
    for span in affected.get("ranges", []):
        if span.get("type") not in ("SEMVER", "ECOSYSTEM") or pinned_version is None:
            continue
        inside = False
        for kind, text in _in_order(span.get("events", []), key):
            at = key(text)
            if kind == "introduced":
                inside = inside or text == "0" or (at is not None and pinned_version >= at)
            elif at is not None and (pinned_version >= at if kind == "fixed" else pinned_version > at):
                inside = False
        if inside:
            return True
    return False


def _in_order(events: list[dict[str, str]], key: Key) -> list[tuple[str, str]]:
    """Return (kind, version) of the events sorted by version, without events of invalid versions."""
    flat = [item for event in events for item in event.items() if item[0] in _EVENTS]
    from_the_start = [item for item in flat if item[1] == "0"]
    others = [item for item in flat if item[1] != "0" and key(item[1]) is not None]
    return from_the_start + sorted(others, key=lambda item: key(item[1]))


def _pypi_key(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _semver_key(text: str) -> tuple[Any, ...] | None:
    """Return a sort key by semver.org 11: pre-releases sort below the release, numbers below words."""
    match = _SEMVER.fullmatch(text.removeprefix("v"))
    if match is None:
        return None
    parts = tuple(
        (0, int(part), "") if part.isdigit() else (1, 0, part) for part in (match[4] or "").split(".") if part
    )
    return (int(match[1]), int(match[2]), int(match[3]), not parts, parts)


def _advisories(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the advisories in an ecosystem's folder. AuditError if it has no advisory."""
    count = 0
    try:
        for content in _files(folder):
            count += 1
            yield json.loads(content)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise AuditError(f"{folder} is not a copy of the OSV database ({error}): fetch it again") from error
    if not count:
        raise AuditError(f"{folder} has no advisories: put the database's all.zip of {folder.name} there")


def _files(folder: Path) -> Iterator[bytes]:
    if (folder / "all.zip").is_file():
        with zipfile.ZipFile(folder / "all.zip") as archive:
            yield from (archive.read(name) for name in archive.namelist() if name.endswith(".json"))
    else:
        yield from (path.read_bytes() for path in sorted(folder.glob("*.json")))


def main() -> int:
    """Print the known vulnerabilities of the pinned versions."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        sys.stderr.write(
            f"audit: {VARIABLE} is not set: set it to a folder with a copy of the OSV database "
            "(SECURITY.md says how to create one)\n"
        )
        return 2
    packages = pinned(TREE)
    try:
        lines = known(packages, Path(folder))
    except AuditError as error:
        sys.stderr.write(f"audit: {error}\n")
        return 2
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stderr.write(f"audit: {len(packages)} pinned packages, {len(lines)} known vulnerabilities\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
