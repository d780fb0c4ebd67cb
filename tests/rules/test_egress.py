"""The egress policy in Python and the engines' decide alike: a table (policies.json), and random cases."""

from __future__ import annotations

import json
import re
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from firstflight.egress import lab, lists
from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError
from tests import drawn
from tests.rules import engine, policies
from tests.rules.policies import Lists

CASES: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("policies.json").read_text(encoding="utf-8")
)
# The text of each program for a reason. Python does not tell the lists apart, and gives a range no name.
REASONS = {
    "address on the block list": "its address is on a list",
    "address on the opt-out list": "its address is on a list",
    "name on the opt-out list": "its name is on a list",
    "special-purpose address": "its address is special",
    "an address of this machine": "its address is this machine's",
    "an address of the lab, and this is not the lab": "not the lab",
}
CHECKS_PER_POLICY = 50


def permitted(folder: Path, parts: Lists) -> Permitted:
    """Return the policy in Python. Raise FirstflightError if it is refused."""
    (folder / "block").write_bytes(parts.block.encode())
    (folder / "optout").write_bytes(parts.optout.encode())
    files = [folder / "block"], [folder / "optout"]
    return Permitted(*files, parts.allow, parts.servers, parts.own)


def reason(policy: Permitted, address: str, name: str) -> str | None:
    """Return why Python forbids an address, in the words of REASONS."""
    try:
        return policy.why_not(address, name)
    except lab.NotTheLab:
        return "not the lab"


def in_python(why: str | None) -> str | None:
    """Return Python's words for an engine's reason."""
    return None if why is None else REASONS[why.partition(" (")[0]]


def meaning(line: str) -> Any:
    """Return what a line in a list means in Python, in the form of the program's answers."""
    try:
        content = lists.content(line)
        found = None if content is None else lists.entry_of(content)
    except ValueError as error:
        return {"error": str(error)}
    return list(map(str, found)) if isinstance(found, tuple) else found


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that this namespace is not the lab's, and that no machine's list is in force."""
    monkeypatch.delenv("FIRSTFLIGHT_OPTOUT", raising=False)
    assert not lab.is_lab()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"])
def test_policies_decide_as_the_table_says(tmp_path: Path, case: dict[str, Any]) -> None:
    """The engines' own test of the table is in scanner/native/core/src/limits/policy.rs."""
    parts = Lists(**{key: case[key] for key in ("allow", "block", "optout", "own", "servers") if key in case})
    if "refused" in case:
        with pytest.raises(FirstflightError) as refused:
            permitted(tmp_path, parts)
        assert all(part in str(refused.value) for part in case["refused"]), refused.value
        return
    policy = permitted(tmp_path, parts)
    for address, name, why in case["checks"]:
        assert reason(policy, address, name) == in_python(why), (address, name)


@pytest.mark.drawn
def test_random_lines_mean_the_same() -> None:
    numbers = drawn.generator("lines")
    lines = [policies.line(numbers) for _ in range(engine.count() // 2)]
    found = engine.answers([{"line": line} for line in lines])
    for line, answer in zip(lines, found, strict=True):
        assert meaning(line) == same_form(answer), repr(line)
    errors = sum(isinstance(answer, dict) for answer in found)
    assert len(lines) / 10 < errors < len(lines) * 0.9


def same_form(answer: Any) -> Any:
    """Return an answer with addresses in Python's form: Rust writes IPv4-mapped addresses in another one."""
    return [str(ip_address(text)) for text in answer] if isinstance(answer, list) else answer


def place(refusal: str | None) -> str | None:
    """Return the list and the line that a message names, or any text; `None`: the policy is in force."""
    found = re.search(r"(block|optout), line \d+: ", refusal or "")
    return found[0] if found else refusal and "no list"


@pytest.mark.drawn
def test_random_policies_decide_the_same(tmp_path: Path) -> None:
    numbers = drawn.generator("policies")
    special = policies.special_networks()
    questions: list[dict[str, Any]] = []
    expected: list[str | None] = []
    checks = 0
    while checks < engine.count() // 2:
        parts = policies.lists(numbers)
        questions.append(parts.question())
        try:
            policy = permitted(tmp_path, parts)
        except FirstflightError as error:
            expected.append(str(error))
            continue
        expected.append(None)
        for _ in range(CHECKS_PER_POLICY):
            address = str(policies.close_to(numbers, parts.addresses, special))
            name = policies.name(numbers)
            questions.append({"address": [address, name]})
            expected.append(reason(policy, address, name))
        checks += CHECKS_PER_POLICY
    found = engine.answers(questions)
    for question, answer, python in zip(questions, found, expected, strict=True):
        if "policy" in question:
            assert place(answer) == place(python), (question, answer, python)
        else:
            assert in_python(answer) == python, (question, answer)
    permissions = sum(python is None for python in expected)
    assert len(expected) / 10 < permissions < len(expected) * 0.9
    if drawn.are_all():
        assert set(REASONS.values()) <= set(expected)
