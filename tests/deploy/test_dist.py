"""Files that `make dist` adds to the wheels: bill of materials, checksums, the platform."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import jinja2
import pytest
import yaml

from deploy import audit, dist, sbom
from tests.machines import upgrade


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
    """As docs/how-to/build-a-release.md and the playbook check it."""
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    sums = tmp_path / "SHA256SUMS"
    sums.write_text(f"{'0' * 64}  a\n")
    signature = dist.sign(sums, str(key))
    signers = tmp_path / "signers"
    signers.write_text(f"release {key.with_suffix('.pub').read_text()}")
    tasks = yaml.safe_load((dist.TREE / "deploy/ansible/roles/common/tasks/release.yml").read_text())
    (task,) = (each_task for each_task in tasks if each_task["name"] == "Check who signed the release")
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
def test_an_invalid_signing_key_is_one_sentence(tmp_path: Path, key: str) -> None:
    with pytest.raises(dist.DistError, match="there is no key"):
        dist.sign(tmp_path / "SHA256SUMS", key)


def test_build_packages_of_the_wheel_are_pinned() -> None:
    build = tomllib.loads((dist.TREE / "pyproject.toml").read_text())["build-system"]["requires"]
    assert build and all(re.fullmatch(r"[\w.-]+==[\w.]+", requirement) for requirement in build)
    names = {package.name for package in audit.pinned(dist.TREE)}
    assert {requirement.partition("==")[0] for requirement in build} <= names


def test_the_newest_glibc_counts(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"\0GLIBC_2.9\0GLIBC_2.2.5\0")
    (tmp_path / "two").write_bytes(b"\0GLIBC_2.34\0")
    assert dist.glibc([tmp_path / "one", tmp_path / "two"]) == 34
    (tmp_path / "two").write_bytes(b"static")
    with pytest.raises(dist.DistError, match="target with glibc"):
        dist.glibc([tmp_path / "two"])


def write_wheel(folder: Path, name: str, version: str) -> Path:
    """Write a package without content."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in texts.items():
            archive.writestr(f"{info}/{file}", text)
    return path


@pytest.fixture
def small_dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as of `make dist`, of a project that needs one package."""
    other = 'of_another_python==1.0; python_version < "3.11"\n'
    (tmp_path / "requirements.txt").write_text(f"# What it needs\nhelper==1.0\n{other}")
    monkeypatch.setattr(dist, "TREE", tmp_path)
    monkeypatch.setattr(dist, "REQUIREMENTS", ("requirements.txt",))
    out = tmp_path / "dist"
    out.mkdir()
    for name, version in (("firstflight", "0.1.0"), ("helper", "1.0"), ("builder", "2.0")):
        write_wheel(out, name, version)
    dist.requirements_with_hashes(out)
    return out


def playbook_installs(out: Path) -> subprocess.CompletedProcess[str]:
    """Let pip look at what the playbook's task would install."""
    tree = Path(__file__).parents[2]
    (task,) = re.findall(
        r"name: Install what this machine.*?argv:\n(.*?)\n        creates:",
        (tree / "deploy/ansible/roles/common/tasks/release.yml").read_text(),
        re.DOTALL,
    )
    text = task.replace("/opt/firstflight/releases/{{ firstflight_release }}/dist", str(out))
    _, *options = yaml.safe_load(text.replace("{{ common_part }}", ""))
    pip = [sys.executable, "-m", "pip", *options, "--dry-run", "--ignore-installed", "--report=-"]
    return subprocess.run(pip, capture_output=True, text=True, check=False, cwd=out)


def test_a_machine_installs_the_wheels_of_the_release(small_dist: Path) -> None:
    """pip ignores a newer wheel in the same folder, which SHA256SUMS does not list."""
    write_wheel(small_dist, "firstflight", "0.2.0")
    done = playbook_installs(small_dist)
    assert done.returncode == 0, done.stderr
    chosen = {
        package["metadata"]["name"]: package["metadata"]["version"]
        for package in json.loads(done.stdout)["install"]
    }
    assert chosen == {"firstflight": "0.1.0", "helper": "1.0"}


def test_a_machine_does_not_install_a_changed_wheel(small_dist: Path) -> None:
    with zipfile.ZipFile(small_dist / "helper-1.0-py3-none-any.whl", "a") as archive:
        archive.writestr("helper.py", "stolen = True\n")
    done = playbook_installs(small_dist)
    assert done.returncode == 1 and "DO NOT MATCH THE HASHES" in done.stderr


def test_the_tests_on_machines_upgrade_to_a_release_that_installs(
    small_dist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wheel with another commit has another hash, which the lists of requirements must have."""
    wheel = small_dist / "firstflight-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(upgrade.COMMIT, "one\n")
        archive.writestr("firstflight-0.1.0.dist-info/RECORD", f"{upgrade.COMMIT},sha256=x,4\n")
        archive.writestr("firstflight-0.1.0.dist-info/METADATA", "Name: firstflight\nVersion: 0.1.0\n")
        archive.writestr("firstflight-0.1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    monkeypatch.setattr(dist, "OUT", small_dist)
    made = upgrade.release(tmp_path / "next", "two")
    with zipfile.ZipFile(made / wheel.name) as archive:
        assert archive.read(upgrade.COMMIT) == b"two\n"
    done = playbook_installs(made)
    assert done.returncode == 0, done.stderr


def test_a_package_without_a_wheel_is_one_sentence(small_dist: Path) -> None:
    (small_dist / "helper-1.0-py3-none-any.whl").unlink()
    with pytest.raises(dist.DistError, match="there is no wheel of helper: run `make hashes`"):
        dist.requirements_with_hashes(small_dist)
