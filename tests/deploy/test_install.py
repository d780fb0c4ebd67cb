"""deploy/install.py: it installs exactly the packages and programs that the demo uses."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy import install
from deploy.dist import applicable
from lab import stacks

TREE = install.TREE
# The demo does not need the packages that only crawls, sites and notebooks use.
FOLDERS = (
    "cli",
    "crawler",
    "dissector",
    "firstflight",
    "lab",
    "orchestration",
    "reports",
    "scanner",
    "schemas",
    "store",
)
WITHOUT = (
    *("crawler/files", "lab/site", "orchestration/airflow", "orchestration/site/centre_token.py"),
    *("firstflight/notebook.py", "orchestration/site/machine_metrics.py"),
)
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python for which the lists of packages are complete (docs/how-to/install.md)."""
IMPORT = re.compile(r"^\s*(?:import|from) (\w+)(?=[\w.]*(?: import |,| as |$))", re.MULTILINE)


def listed(name: str) -> set[str]:
    """Return the packages that a file of requirements names."""
    return set(map(canonicalize_name, install.names((TREE / name).read_text(encoding="utf-8"))))


DEMO = listed(install.DEMO_NAMES)


def test_versions_of_the_demo_are_in_the_campaigns_file() -> None:
    assert listed(install.CAMPAIGN) > DEMO
    assert "==" not in (TREE / install.DEMO_NAMES).read_text(encoding="utf-8")


def test_the_demo_has_what_its_packages_need() -> None:
    needed = {
        canonicalize_name(requirement.name)
        for package in DEMO
        for requirement in map(Requirement, metadata.requires(package) or ())
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    }
    assert needed <= DEMO


@functools.cache
def requirements_of(package: str) -> list[Requirement]:
    """Return what an installed package says that it needs, extras included; empty if it is not installed."""
    try:
        return list(map(Requirement, metadata.requires(package) or ()))
    except metadata.PackageNotFoundError:
        return []


def applies(requirement: Requirement, python: str, extra: str = "") -> bool:
    """Return whether this version of Python needs it, for this extra of the package that names it."""
    return requirement.marker is None or requirement.marker.evaluate(environment(python, extra))


def environment(python: str, extra: str = "") -> dict[str, str]:
    """Return the variables of markers in this version of Python, for an extra."""
    return {"python_version": python, "python_full_version": f"{python}.5", "extra": extra}


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("files", [(install.CAMPAIGN,), install.SITE, install.TEST], ids=len)
def test_every_version_of_python_gets_what_the_packages_need(files: tuple[str, ...], python: str) -> None:
    """pip resolves nothing: without a version and hashes for each package, it stops."""
    chosen = {name for file in files for name in applicable(TREE / file, environment(python))}
    missing: dict[str, str] = {}
    pending = [(package, "") for package in chosen]
    seen = set(pending)
    while pending:
        package, extra = pending.pop()
        for needed in requirements_of(package):
            if not applies(needed, python, extra):
                continue
            name = canonicalize_name(needed.name)
            if name not in chosen:
                missing[name] = package
            further = {(name, word) for word in ("", *needed.extras)} - seen
            seen |= further
            pending += further
    assert missing == {}


def test_the_demo_has_what_its_modules_import() -> None:
    packages = metadata.packages_distributions()
    imported: dict[str, Path] = {}
    for path in (path for folder in FOLDERS for path in (TREE / folder).rglob("*.py")):
        if not str(path.relative_to(TREE)).startswith(WITHOUT):
            imported |= dict.fromkeys(IMPORT.findall(path.read_text(encoding="utf-8")), path)
    others = {
        name: path
        for name, path in imported.items()
        if name not in sys.stdlib_module_names
        and not (TREE / name).is_dir()
        and DEMO.isdisjoint(map(canonicalize_name, packages.get(name, ())))
    }
    assert others == {}


def test_the_demo_has_the_programs_of_the_lab() -> None:
    servers = {str(stack.program) for stack in stacks.load().values() if stack.program}
    assert servers <= {*install.DEMO_PROGRAMS, *install.LAB_GO}


@pytest.mark.parametrize("profile", install.PROFILES)
def test_profiles_have_files_that_exist(profile: str) -> None:
    assert all((TREE / name).is_file() for name in install.PROFILES[profile].requirements)


def pinned(path: Path) -> dict[str, str]:
    """Return the version of each package that a file of requirements pins, by canonical name."""
    found = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in found}


@pytest.mark.parametrize("path", sorted(TREE.glob("requirements*.txt")), ids=lambda path: path.name)
def test_hashes_are_known_of_exactly_the_listed_packages(path: Path) -> None:
    hashed = TREE / install.HASHES / path.name
    versions = pinned(TREE / install.CAMPAIGN) if path.name == install.DEMO_NAMES else pinned(path)
    assert pinned(hashed) == {name: versions[name] for name in listed(path.name)}, "run `make hashes`"
    for entry in re.split(r"\n(?=\S)", hashed.read_text(encoding="utf-8").strip()):
        assert re.fullmatch(r"\S+==\S+( ; .*)?( \\\n    --hash=sha256:[0-9a-f]{64})+", entry), entry
    for python in PYTHONS:
        of_list = (
            listed(path.name) if path.name == install.DEMO_NAMES else applicable(path, environment(python))
        )
        assert applicable(hashed, environment(python)) == of_list, python


def test_no_file_of_hashes_is_left_over() -> None:
    lists = {path.name for path in TREE.glob("requirements*.txt")}
    assert {path.name for path in (TREE / install.HASHES).iterdir()} == lists


def test_pinned_build_packages_are_those_of_the_project() -> None:
    build = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert build == [f"{name}=={version}" for name, version in pinned(TREE / install.BUILD).items()]


@pytest.mark.parametrize("files", [(install.DEMO_NAMES,), install.TEST, (install.SUPERSET,)])
def test_all_that_is_downloaded_is_compared_with_hashes(files: tuple[str, ...]) -> None:
    """The last step installs the checkout itself, which has no dependencies then."""
    job = install.python_job("packages", Path("/none"), files, ("--no-deps", "--editable", "."))
    _, first, *others = job.commands
    tools: dict[str, list[list[str]]] = {"uv": [], "pip": [list(first)]}
    for shell, option, command in others:
        assert (shell, option) == ("sh", "-c")
        for words in map(shlex.split, command.replace("exec ", "").split(" || ")):
            tools[Path(words[0]).name].append(words)
    for tool, downloaded in (("uv", files), ("pip", (install.BUILD, install.INSTALLER, *files))):
        *packages, own = tools[tool]
        assert all("--require-hashes" in command for command in packages) and "--no-deps" in own
        assert all("--no-build-isolation" in command for command in (*packages, own)[-2:])
        named = [
            word.partition("=")[2]
            for command in packages
            for word in command
            if word.startswith("--requirement")
        ]
        assert named == [str(install.HASHES / name) for name in downloaded]


@pytest.mark.parametrize("is_uv_able", [True, False])
def test_pip_installs_what_uv_cannot(is_uv_able: bool, tmp_path: Path) -> None:
    """For example, uv does not read pip's settings."""
    (tmp_path / "bin").mkdir()
    for name, status in (("uv", int(not is_uv_able)), ("pip", 0)):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/calls\nexit {status}\n')
        program.chmod(0o755)
    job = install.python_job("packages", tmp_path, (), ("--no-deps", "--editable", "."))
    for command in job.commands[1:]:
        subprocess.run(command, check=True)
    calls = [line.split()[0] for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls == (["pip", "uv", "uv"] if is_uv_able else ["pip", "uv", "pip", "uv", "pip"])
