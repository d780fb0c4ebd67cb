"""docs/schema.md is up to date with schemas/, and record kinds with wrong YAML are rejected."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from schemas import document, records

ROOT = Path(__file__).parents[3]
FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")


def test_page_is_current() -> None:
    page = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8")
    assert page == document.markdown(), "run: python -m schemas.document > docs/schema.md"


def test_schema_command_prints_names_types_units_and_meaning() -> None:
    done = subprocess.run(
        [FIRSTFLIGHT, "schema", "quic_probe", "--format", "json"], capture_output=True, check=True
    )
    described = json.loads(done.stdout)
    column = next(c for c in described["columns"] if c["name"] == "ack_us")
    assert (column["type"], column["unit"], column["nullable"]) == ("int64", "us", True)
    assert column["meaning"].startswith("Arrival of the first ACK")
    assert [c["name"] for c in described["columns"]] == [c.name for c in records.load("quic_probe").columns]


def test_unknown_kind_is_named_with_the_known_ones() -> None:
    done = subprocess.run([FIRSTFLIGHT, "schema", "quic_prob"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no record kind 'quic_prob'" in done.stderr
    assert "quic_probe" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: k\nmeaning: m\ncolumns: [{name: a, type: strin, meaning: m}]", "unknown type 'strin'"),
        (
            "kind: k\nmeaning: m\ncolumns: [{name: a, type: string, unit: kg, meaning: m}]",
            "unknown unit 'kg'",
        ),
        (
            "kind: k\nmeaning: m\ncolumns: [{name: a, type: string, nulable: true, meaning: m}]",
            "key 'nulable'",
        ),
        (
            "kind: k\nmeaning: m\ncolumns: [{name: a, type: string, nullable: maybe, meaning: m}]",
            "unknown value nullable: 'maybe'",
        ),
        ("kind: k\nmeaning: m\nunit: [b]\ncolumns: [{name: a, type: string, meaning: m}]", "names b"),
        (
            "kind: k\nmeaning: m\ncolumns: "
            "[{name: a, type: string, meaning: m}, {name: a, type: bool, meaning: m}]",
            "column a is defined twice",
        ),
        ("kind: k\nmeaning: m\ncolumns: [rum from stage]", "columns.yaml has no column 'rum'"),
        (
            "kind: k\nmeaning: m\ncolumns: [capture from x, source_file from y]",
            "source_file is defined twice",
        ),
    ],
)
def test_wrong_descriptions_are_refused(text: str, message: str) -> None:
    with pytest.raises(records.DescriptionError, match=message):
        records.parse(text, "k.yaml")


def test_every_column_has_the_unit_in_its_name() -> None:
    for kind in records.names():
        for column in records.load(kind).columns:
            for ending in ("ns", "us", "ms", "bytes"):
                if column.name.endswith(f"_{ending}"):
                    assert column.unit == ending, f"{kind}.{column.name}"
            assert column.meaning.endswith(".") or column.derived, f"{kind}.{column.name}"
