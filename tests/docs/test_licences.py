"""Every package, patch and file from another project names its licence."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LISTED = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
FILES = [name for name in LISTED.stdout.split("\0") if name and (ROOT / name).is_file()]
OURS = "Apache-2.0"
# A file from another project contains one of these phrases. Some of our files quote them.
FOREIGN = re.compile(
    r"copyright (?:\(c\)|©|\d{4})|@license|all rights reserved|spdx-license-identifier", re.I
)
QUOTES = {"LICENSE", "NOTICE", "tests/docs/test_licences.py"}


def noticed() -> list[tuple[list[str], dict[str, str]]]:
    """Return the entries of NOTICE: the patterns of files, and the other keys."""
    entries = []
    for block in (ROOT / "NOTICE").read_text(encoding="utf-8").split("\n\n"):
        pairs = [line.split(": ", 1) for line in block.splitlines() if ": " in line]
        patterns = [value for key, value in pairs if key == "File"]
        if patterns:
            entries.append((patterns, {key: value for key, value in pairs if key != "File"}))
    return entries


def is_noticed(name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for patterns, _ in noticed() for pattern in patterns)


def foreign_without_notice(files: dict[str, str]) -> set[str]:
    """Return the names of files from other projects that are missing in NOTICE."""
    return {
        name
        for name, text in files.items()
        if (FOREIGN.search(text) or ".min." in name or name.endswith(".patch"))
        and not is_noticed(name)
        and not Path(name).name.endswith("LICENSE")
        and name not in QUOTES
    }


def test_the_licence_is_complete() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_every_package_names_the_licence() -> None:
    top = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert top["workspace"]["package"]["license"] == OURS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == OURS and {"LICENSE", "NOTICE"} <= set(project["license-files"])
    missing = {}
    for name in FILES:
        if Path(name).name == "Cargo.toml" and name != "Cargo.toml":
            licence = tomllib.loads((ROOT / name).read_text(encoding="utf-8"))["package"].get("license")
            if licence not in (OURS, {"workspace": True}):
                missing[name] = licence
        if Path(name).name == "pom.xml" and f"<name>{OURS}</name>" not in (ROOT / name).read_text("utf-8"):
            missing[name] = None
    assert missing == {}


def test_patches_of_the_kernel_are_gpl() -> None:
    patches = [name for name in FILES if name.endswith(".patch")]
    assert patches
    for name in patches:
        head = (ROOT / name).read_text(encoding="utf-8").partition("\n--- ")[0]
        assert "SPDX-License-Identifier: GPL-2.0-only" in head, name


def test_notice_names_files_from_other_projects() -> None:
    texts = {}
    for name in FILES:
        try:
            texts[name] = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            texts[name] = ""
    assert foreign_without_notice(texts) == set()
    for patterns, keys in noticed():
        assert set(keys) >= {"Project", "License", "Used for"}, patterns
        for pattern in patterns:
            assert any(fnmatch.fnmatch(name, pattern) for name in FILES), f"NOTICE: no file matches {pattern}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("reports/x.js", "/*! x 1.0\n * Copyright (c) 2020 Somebody */"),
        ("lib/y.py", "# All rights reserved."),
        ("a/z.min.js", "var z"),
        ("testbed/guest/changes/new.patch", "--- a/kernel/fork.c"),
        ("a/b.c", "// SPDX-License-Identifier: MIT"),
    ],
)
def test_a_file_of_another_project_is_found(name: str, text: str) -> None:
    assert foreign_without_notice({name: text, "ours.py": "print(1)"}) == {name}


def test_the_citation_names_the_papers_and_the_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (cited["version"], cited["license"]) == (project["version"], OURS)
    assert {"cff-version", "message", "title", "authors", "type"} <= cited.keys()
    dois = {entry["doi"] for entry in cited["references"]}
    assert len(dois) == len(cited["references"]) == 4
    for entry in cited["references"]:
        assert {"type", "title", "authors", "year"} <= entry.keys()
        assert all({"family-names", "given-names"} == author.keys() for author in entry["authors"])


def test_issue_forms_are_well_formed() -> None:
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    forms = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in folder.glob("*.yml")}
    assert forms.keys() == {"bug", "config", "feature", "probed"}
    for name, form in forms.items():
        if name == "config":
            continue
        assert form["name"] and form["description"], name
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert fields and all(field["attributes"]["label"] for field in fields), name
        ids = [field["id"] for field in fields]
        assert len(ids) == len(set(ids)), name
