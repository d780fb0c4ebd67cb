"""Applies the engines' rules: runs tests/rules/src/main.rs, which describes the questions."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

from firstflight.system import binaries
from tests import drawn
from tests.waiting import PATIENCE_S

CASES, FEW = 100_000, 5_000


def answers(questions: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the answer to each question, in order, from one process."""
    given = "".join(f"{json.dumps(question)}\n" for question in questions)
    argv = [str(binaries.find("firstflight-rules"))]
    done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(questions)
    return found


def count() -> int:
    """Return the number of random cases: CASES in `make test-long`, else FEW."""
    return CASES if drawn.are_all() else FEW
