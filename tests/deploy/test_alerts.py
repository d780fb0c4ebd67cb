"""Every rule of deploy/prometheus is PromQL: Prometheus refuses the whole file for one that is not."""

from __future__ import annotations

from pathlib import Path

import promql_parser
import pytest
import yaml

from firstflight.settings.sections import Clock

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"
RULES: dict[str, str] = {
    rule["alert"]: rule["expr"]
    for group in yaml.safe_load(ALERTS.read_text())["groups"]
    for rule in group["rules"]
}


@pytest.mark.parametrize("name", RULES)
def test_expressions_are_promql(name: str) -> None:
    promql_parser.parse(RULES[name])


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("a < 0.2 * on (vantage) b", "vector matching only allowed between vectors"),
        ("rate(a)", "expected type matrix"),
        ("a and 1", "set operator"),
        ("a >> 1", "invalid promql query"),
    ],
)
def test_the_parser_finds_what_is_not(expression: str, shown: str) -> None:
    """So that the test above can fail."""
    with pytest.raises(ValueError, match=shown):
        promql_parser.parse(expression)


def test_a_clock_is_off_where_a_stage_warns() -> None:
    assert RULES["ClockIsOff"] == f"abs(firstflight_clock_offset_seconds) > {Clock().warn_s:g}"
