"""Questions without answer: the kinds of failure, and their HTTP status."""

from __future__ import annotations

from collections.abc import Mapping

STATUS: Mapping[str, int] = {
    "busy": 503,
    "store": 503,
    "time": 504,
    "size": 413,
    "parameter": 400,
    "cost": 429,
}
"""Kind of failure -> HTTP status."""


class NoAnswer(Exception):
    """A question without answer: `fault` is a name of STATUS, the text one sentence."""

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault
