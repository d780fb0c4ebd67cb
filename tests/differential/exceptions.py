"""The allowed differences between tshark and the dissector: exceptions.yaml."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from tests.differential.compare import HERE, Comparison, Difference

MOST = 20
Exception_ = dict[str, object]


def exceptions(scope: str | None = None) -> list[Exception_]:
    """Return the exceptions of `quic` or `tcp` captures, or all."""
    listed: list[Exception_] = yaml.safe_load((HERE / "exceptions.yaml").read_text()) or []
    return [entry for entry in listed if scope in (None, entry["scope"])]


def is_excepted(difference: Difference, listed: Iterable[Exception_]) -> bool:
    """Return whether the list explains a difference."""
    return any(
        exception["capture"] == difference.capture
        and exception["field"] == difference.field
        and (exception["frames"] == "any" or difference.frame in _numbers(exception["frames"]))
        for exception in listed
    )


def unexplained(comparisons: list[Comparison], scope: str) -> str:
    """Return the first differences that no exception explains, or nothing."""
    listed = exceptions(scope)
    found = [
        difference
        for comparison in comparisons
        for difference in comparison.differences
        if not is_excepted(difference, listed)
    ]
    return f"{len(found)}: " + "\n".join(str(difference) for difference in found[:20]) if found else ""


def check_needed(comparisons: list[Comparison], captures: list[Path], scope: str) -> None:
    """Check that each exception explains a difference, and that the capture still contains its bytes."""
    differences = [difference for comparison in comparisons for difference in comparison.differences]
    contents = {path.stem: path.read_bytes() for path in captures}
    for exception in exceptions(scope):
        assert any(is_excepted(difference, [exception]) for difference in differences), exception
        assert bytes.fromhex(str(exception["bytes"])) in contents[str(exception["capture"])], exception


def _numbers(frames: object) -> list[object]:
    return frames if isinstance(frames, list) else [frames]
