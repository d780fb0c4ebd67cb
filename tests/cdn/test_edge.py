"""An edge's location, from its response. The engine's tests have the same cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firstflight.cdn import edge

CASES = json.loads((Path(__file__).parent / "edges.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["fields"])[:60])
def test_location(case: dict[str, Any]) -> None:
    assert edge.location([(name, value) for name, value in case["fields"]]) == case["location"]


def test_a_long_value_is_not_looked_at() -> None:
    ray = "x" * (edge.MAX_VALUE - 4) + "-FRA"
    assert edge.location([("cf-ray", ray)]) == "FRA"
    assert edge.location([("cf-ray", "x" + ray)]) is None
