"""Broken output of other scanners and arbitrary answers: a one-sentence error, or valid rows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from firstflight.cdn import rules
from firstflight.cdn.methods import Methods
from firstflight.errors import InputError
from scanner.external import forced_negotiation
from scanner.imports import write
from scanner.imports.qscanner import QScanner
from tests.attack.files.mutation import mutations

FIXTURE = Path(__file__).parents[2] / "fixtures" / "qscanner"
METHODS = Methods.read(rules.DEFAULT)
STAMP = {"run": "r", "vantage": "v", "repetition": 1, "tool_version": "t", "ruleset": "s"}
OURS, THEIRS = b"12345678", b"abcdefgh"


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURE.glob("*.csv")))
def test_broken_files_of_qscanner(tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(FIXTURE, tmp_path / "qscanner"))
    read = refused = rejected = 0
    for broken in mutations(13, [(FIXTURE / name).read_bytes()], 80):
        (folder / name).write_bytes(broken)
        out = tmp_path / "out"
        out.mkdir()
        source = QScanner(folder, METHODS)
        try:
            source.run_id()
            write.write(source.targets(out), out, STAMP)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 1000, error
        else:
            read += 1
        rejected += len(source.rejected)
        shutil.rmtree(out)
    # Not everything is refused, and not everything taken.
    assert read > 0 and refused + rejected > 0, (read, refused, rejected)


def test_broken_answers_to_a_forced_negotiation() -> None:
    head = b"\x80\0\0\0\0\x08" + OURS + b"\x08" + THEIRS
    samples = [head + b"\0\0\0\x01", head + b"\x6b\x33\x43\xcf\0\0\0\x01\x0a\x1a\x2a\x3a"]
    listed = 0
    for broken in mutations(14, samples, 5000):
        found = forced_negotiation.versions(broken, OURS, THEIRS)
        if found is None:
            continue
        listed += 1
        assert broken[0] & 0x80 and broken[5 : len(head)] == head[5:]
        assert b"".join(version.to_bytes(4) for version in found) == broken[len(head) :]
    assert listed > 0
