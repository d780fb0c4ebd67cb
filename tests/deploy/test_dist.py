"""What `make dist` writes beside the wheels: bill of materials, checksums, the platform."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tomllib
from pathlib import Path

import jinja2
import pytest
import yaml

from deploy import audit, dist, sbom


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


def test_a_signature_is_of_these_checksums_by_this_key(tmp_path: Path) -> None:
    """As docs/operations.md and the playbook check it."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{'0' * 64}  a\n")
    signature = dist.sign(sums, str(key))
    signers = tmp_path / "signers"
    signers.write_text(f"release {key.with_suffix('.pub').read_text()}")
    tasks = yaml.safe_load((dist.TREE / "deploy/ansible/roles/common/tasks/release.yml").read_text())
    (task,) = (one for one in tasks if one["name"] == "Check who signed the release")
    values = {"firstflight_signers": signers, "firstflight_dist": tmp_path}
    argv = [jinja2.Template(word).render(values) for word in task["ansible.builtin.command"]["argv"]]

    def is_accepted() -> bool:
        return subprocess.run(argv, check=False, capture_output=True).returncode == 0

    assert is_accepted()
    genuine = sums.read_text()
    sums.write_text(genuine.replace("  a", "  b"))
    assert not is_accepted()
    sums.write_text(genuine)
    signers.write_text("")
    assert not is_accepted()
    signature.unlink()
    assert not is_accepted()


@pytest.mark.parametrize("key", ["", "nosuch"])
def test_a_signing_key_that_is_none_is_one_sentence(tmp_path: Path, key: str) -> None:
    with pytest.raises(dist.DistError, match="there is no key"):
        dist.sign(tmp_path / "SHA256SUMS", key)


def test_what_builds_the_wheel_is_pinned() -> None:
    build = tomllib.loads((dist.TREE / "pyproject.toml").read_text())["build-system"]["requires"]
    assert build and all(re.fullmatch(r"[\w.-]+==[\w.]+", one) for one in build)
    names = {package.name for package in audit.pinned(dist.TREE)}
    assert {one.partition("==")[0] for one in build} <= names


def test_the_newest_glibc_counts(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"\0GLIBC_2.9\0GLIBC_2.2.5\0")
    (tmp_path / "two").write_bytes(b"\0GLIBC_2.34\0")
    assert dist.glibc([tmp_path / "one", tmp_path / "two"]) == 34
    (tmp_path / "two").write_bytes(b"static")
    with pytest.raises(dist.DistError, match="target with glibc"):
        dist.glibc([tmp_path / "two"])
