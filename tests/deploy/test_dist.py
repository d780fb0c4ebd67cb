"""What `make dist` writes beside the wheels: bill of materials, checksums, the platform."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from deploy import dist, sbom


def test_bill_of_materials(tmp_path: Path) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "firstflight-prober").write_bytes(b"program")
    (tmp_path / "some_name-1.2.0-py3-none-any.whl").write_bytes(b"wheel")
    parts = json.loads(sbom.text(tmp_path, [("ring", "0.17.14")]))["components"]
    assert [(part["name"], part.get("purl")) for part in parts] == [
        ("some-name", "pkg:pypi/some-name@1.2.0"),
        ("firstflight-prober", None),
        ("ring", "pkg:cargo/ring@0.17.14"),
    ]
    assert parts[0]["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"wheel").hexdigest()}]


def test_crates_are_those_of_others_and_once() -> None:
    listed = "ours v0.1.0 (/tree/ours)\nring v0.17.14\ncc v1.11.1 (*)\nring v0.17.14 (*)\n\n"
    assert sbom.crates(listed) == [("cc", "1.11.1"), ("ring", "0.17.14")]


def test_checksums_are_of_all_files_but_themselves(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one").write_bytes(b"1")
    (tmp_path / "SHA256SUMS").write_text("old")
    assert dist.checksums(tmp_path) == f"{hashlib.sha256(b'1').hexdigest()}  a/one\n"


def test_the_newest_glibc_counts(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"\0GLIBC_2.9\0GLIBC_2.2.5\0")
    (tmp_path / "two").write_bytes(b"\0GLIBC_2.34\0")
    assert dist.glibc([tmp_path / "one", tmp_path / "two"]) == 34
    (tmp_path / "two").write_bytes(b"static")
    with pytest.raises(dist.DistError, match="target with glibc"):
        dist.glibc([tmp_path / "two"])
