"""The baseline for the prober's cost (bench/kernel_alone) sends and reads as much as a prober."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from firstflight.system import binaries
from tests.prober.conftest import answering
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Port of a responder on all loopback addresses."""
    with answering() as number:
        yield number


def _run(*options: object) -> subprocess.CompletedProcess[str]:
    argv = [str(binaries.find("firstflight-kernel-alone")), *map(str, options)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)


@pytest.mark.parametrize("rate, together, targets, passes", [(1000, 4, 100, 25), (200, 8, 100, 13)])
def test_each_target_is_answered_and_stamped(
    port: int, rate: int, together: int, targets: int, passes: int
) -> None:
    done = _run("--port", port, "--rate", rate, "--together", together, "--targets", targets)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("cpu_s") > 0
    # In both cases, 196 datagrams left: the four Initials of the last pass are not closed.
    sent = 2 * targets - 4
    assert found == {
        "targets": targets,
        "sent": sent,
        "datagrams": 2 * targets,
        "stamps": targets,
        "passes": passes,
    }


def test_wrong_use_is_one_sentence() -> None:
    done = _run("--port", 1, "--rate", 50, "--together", 33)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "33 is not in 1..=32" in done.stderr
