"""The allowed differences between tshark and the dissector: exceptions.yaml."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml

from tests.differential.compare import HERE, Comparison, Difference
from tests.dissect import tshark

MOST = 20
Exception_ = dict[str, object]


def exceptions() -> list[Exception_]:
    """Return all listed exceptions."""
    listed: list[Exception_] = yaml.safe_load((HERE / "exceptions.yaml").read_text()) or []
    return listed


def in_force(scope: str) -> list[Exception_]:
    """Return the exceptions of `quic` or `tcp` captures that apply to the installed version of tshark."""
    version = ".".join(map(str, tshark.version()))
    return [
        entry for entry in exceptions() if entry["scope"] == scope and entry.get("tshark", version) == version
    ]


def is_excepted(difference: Difference, listed: Iterable[Exception_]) -> bool:
    """Return whether the list explains a difference."""
    return any(
        exception["capture"] == difference.capture
        and difference.field in listed_fields(exception)
        and (exception["frames"] == "any" or difference.frame in _numbers(exception["frames"]))
        for exception in listed
    )


def unexplained(comparisons: list[Comparison], scope: str) -> str:
    """Return the first differences that no exception explains, or nothing."""
    listed = in_force(scope)
    found = [
        difference
        for comparison in comparisons
        for difference in comparison.differences
        if not is_excepted(difference, listed)
    ]
    return f"{len(found)}: " + "\n".join(str(difference) for difference in found[:20]) if found else ""


def check_needed(comparisons: list[Comparison], captures: list[Path], scope: str) -> None:
    """Check each exception: every listed field must differ, and its bytes must be in the capture."""
    differences = [difference for comparison in comparisons for difference in comparison.differences]
    contents = {path.stem: path.read_bytes() for path in captures}
    for exception in in_force(scope):
        explained = {d.field for d in differences if is_excepted(d, [exception])}
        assert explained == set(listed_fields(exception)), exception
        assert bytes.fromhex(str(exception["bytes"])) in contents[str(exception["capture"])], exception


def listed_fields(exception: Exception_) -> list[str]:
    """Return the fields in which an exception allows a difference."""
    field = exception["field"]
    return field if isinstance(field, list) else [str(field)]


def _numbers(frames: object) -> list[object]:
    return frames if isinstance(frames, list) else [frames]
