"""Descriptions are parsed like PyYAML's Python parser does, and invalid YAML is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from schemas import yaml_text

ROOT = Path(__file__).parents[2]


def test_every_description_is_what_the_parser_in_python_reads() -> None:
    files = sorted((ROOT / "schemas").rglob("*.yaml"))
    assert len(files) > 60
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert repr(yaml_text.read(text)) == repr(yaml.safe_load(text)), path


def test_this_installation_has_the_fast_parser() -> None:
    assert yaml_text._Loader is yaml.CSafeLoader


@pytest.mark.parametrize("text", ["a: [1", "a: !!python/object/apply:os.getcwd []", "a: 1\n---\nb: 2\n"])
def test_documents_with_other_than_plain_values_are_refused(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        yaml_text.read(text)
