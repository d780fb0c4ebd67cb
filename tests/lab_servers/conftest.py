"""One server of each stack, for all tests in this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import stacks

from .running import RunningServer, endpoint, running

QUICHE_DELAY_US = 3200
SECOND_DELAY_US = 9000  # for the second address
# Whole milliseconds and fractions, hundreds apart, to detect a timer that rounds.
QUICHE_DELAYS_US = (300, 6400, 20_900, 30_300)
CERTIFICATE_DELAY_US = 15_000
AIOQUIC_DELAY_US = 11_000
ROGUE_DELAY_US = 5000

ROGUE_MODES = sorted(stacks.find("rogue").modes)


@pytest.fixture(scope="session")
def quiche(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    modes = [
        ("iack", QUICHE_DELAY_US),
        ("wait", 4000),
        ("retry", None),
        ("retry_iack", QUICHE_DELAY_US),
        ("hello_retry", None),
        ("sh_then_certificate", CERTIFICATE_DELAY_US),
    ]
    endpoints = [
        endpoint("quiche", mode, delay, certificate=size)
        for mode, delay in modes
        for size in ("small", "large")
    ]
    endpoints += [
        endpoint("quiche", "iack", delay, domain=f"after-{delay}.small.test") for delay in QUICHE_DELAYS_US
    ]
    endpoints.append(endpoint("quiche", "iack", SECOND_DELAY_US, domain="second.small.test", ip="127.0.0.2"))
    endpoints.append(endpoint("quiche", "wait", None, domain="six.small.test", ip="::1"))
    with running(tmp_path_factory.mktemp("quiche"), "quiche", endpoints) as server:
        yield server


@pytest.fixture(scope="session")
def aioquic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    endpoints = [
        endpoint("aioquic", mode, delay, certificate=size)
        for mode, delay in [("wait", 4000), ("iack", AIOQUIC_DELAY_US)]
        for size in ("small", "large")
    ]
    with running(tmp_path_factory.mktemp("aioquic"), "aioquic", endpoints) as server:
        yield server


@pytest.fixture(scope="session")
def quicgo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    endpoints = [endpoint("quic-go", "wait", 4000, certificate=size) for size in ("small", "large")]
    with running(tmp_path_factory.mktemp("quicgo"), "quic-go", endpoints) as server:
        yield server


@pytest.fixture(scope="session")
def rogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    at_once = [
        endpoint("rogue", mode, None, domain=f"{mode.replace('_', '-')}.now.test")
        for mode in ROGUE_MODES
        if mode
        not in ("small_ack", "sh_first_late_ack", "sh_then_certificate", "slow_crypto", "ecn_decreasing")
    ]
    delayed = [endpoint("rogue", mode, ROGUE_DELAY_US) for mode in ROGUE_MODES]
    with running(tmp_path_factory.mktemp("rogue"), "rogue", [*delayed, *at_once]) as server:
        yield server


@pytest.fixture
def server(request: pytest.FixtureRequest) -> RunningServer:
    """The server of the stack in the test's parameter."""
    found = request.getfixturevalue({"quic-go": "quicgo"}.get(request.param, request.param))
    assert isinstance(found, RunningServer)
    return found


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "lab"
