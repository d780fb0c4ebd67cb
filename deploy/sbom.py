"""Lists the parts of `dist/` with their versions (CycloneDX 1.6, JSON).

A wheel is a component with its SHA-256. A crate, which is inside programs, is a component with name and
version. The list has no time or serial number, so that the same parts give the same text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.utils import parse_wheel_filename

from firstflight.system import files

Crate = tuple[str, str]
"""Name and version."""


TREE_FORMAT = ("--edges", "normal", "--prefix", "none", "--format", "{p}")
"""Options of `cargo tree` for `crates`."""


def crates(tree_text: str) -> list[Crate]:
    """Return the crates of lines `NAME vVERSION [(*)]`; a line with a path, `(/...)`, names one of ours."""
    components = {
        (words[0], words[1].removeprefix("v"))
        for words in map(str.split, tree_text.splitlines())
        if len(words) >= 2 and not any(word.startswith("(/") for word in words)
    }
    return sorted(components)


def text(folder: Path, inside: Iterable[Crate]) -> str:
    """Return the bill of materials of wheels and static programs of `folder`, and of the crates `inside`."""
    components = [_wheel(path) for path in sorted(folder.glob("*.whl"))]
    components += [
        {"type": "application", "name": path.name, "hashes": _hashes(path)}
        for path in sorted((folder / "static").glob("*"))
    ]
    components += [_library(f"pkg:cargo/{name}@{version}", name, version) for name, version in inside]
    document = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "components": components}
    return json.dumps(document, indent=1) + "\n"


def _wheel(path: Path) -> dict[str, Any]:
    name, version, _, _ = parse_wheel_filename(path.name)
    return {**_library(f"pkg:pypi/{name}@{version}", name, str(version)), "hashes": _hashes(path)}


def _library(purl: str, name: str, version: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _hashes(path: Path) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": files.sha256_of(path)}]
