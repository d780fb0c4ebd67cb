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
    return [one for one in listed if scope in (None, one["scope"])]


def is_excepted(difference: Difference, listed: Iterable[Exception_]) -> bool:
    """Return whether the list explains a difference."""
    return any(
        one["capture"] == difference.capture
        and one["field"] == difference.field
        and (one["frames"] == "any" or difference.frame in _numbers(one["frames"]))
        for one in listed
    )


def unexplained(comparisons: list[Comparison], scope: str) -> str:
    """Return the first differences that no exception explains, or nothing."""
    listed = exceptions(scope)
    found = [one for each in comparisons for one in each.differences if not is_excepted(one, listed)]
    return f"{len(found)}: " + "\n".join(str(one) for one in found[:20]) if found else ""


def check_needed(comparisons: list[Comparison], captures: list[Path], scope: str) -> None:
    """Check that each exception explains a difference, and that its capture still holds its bytes."""
    differences = [difference for comparison in comparisons for difference in comparison.differences]
    contents = {path.stem: path.read_bytes() for path in captures}
    for one in exceptions(scope):
        assert any(is_excepted(difference, [one]) for difference in differences), one
        assert bytes.fromhex(str(one["bytes"])) in contents[str(one["capture"])], one


def _numbers(frames: object) -> list[object]:
    return frames if isinstance(frames, list) else [frames]
