"""A pytest plugin that prints the cost of folders, modules and tests (`make test-profile`).

A test's cost is the CPU time, in user and system mode, of the process that runs it and of the children
that it waited for, from the test's setup to its teardown. The first test that uses a fixture has the cost of
the fixture. The second column is elapsed time, which depends on the load of the machine.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pytest

COSTLIEST = 40
MODULES = 60
_BEGUN = pytest.StashKey[tuple[float, float]]()


@dataclass(frozen=True)
class NodeCost:
    """A test's cost: CPU seconds and elapsed seconds."""

    nodeid: str
    cpu_s: float
    elapsed_s: float

    @property
    def folder(self) -> str:
        """The folder of the test's module."""
        return self.module.rpartition("/")[0]

    @property
    def module(self) -> str:
        """The path of the test's module."""
        return self.nodeid.partition("::")[0]


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the children that it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def table(costs: Iterable[NodeCost]) -> list[str]:
    """Return the lines of three tables: folders by cost, the costliest modules, the costliest tests."""
    everything = list(costs)
    lines = [f"{'CPU s':>8} {'elapsed':>8} {'tests':>6}  folder"]
    lines += _grouped(everything, lambda cost: cost.folder)
    lines.append(_line(_cpu(everything), _elapsed(everything), f"{len(everything):6}  all"))
    lines += ["", f"{'CPU s':>8} {'elapsed':>8} {'tests':>6}  the {MODULES} costliest modules"]
    lines += _grouped(everything, lambda cost: cost.module)[:MODULES]
    lines += ["", f"{'CPU s':>8} {'elapsed':>8}  the {COSTLIEST} costliest tests"]
    for cost in sorted(everything, key=lambda cost: -cost.cpu_s)[:COSTLIEST]:
        lines.append(_line(cost.cpu_s, cost.elapsed_s, f" {cost.nodeid}"))
    return lines


def _grouped(costs: Iterable[NodeCost], key: Callable[[NodeCost], str]) -> list[str]:
    groups: dict[str, list[NodeCost]] = defaultdict(list)
    for cost in costs:
        groups[key(cost)].append(cost)
    return [
        _line(_cpu(found), _elapsed(found), f"{len(found):6}  {name}")
        for name, found in sorted(groups.items(), key=lambda item: -_cpu(item[1]))
    ]


def _cpu(costs: Iterable[NodeCost]) -> float:
    return sum(cost.cpu_s for cost in costs)


def _elapsed(costs: Iterable[NodeCost]) -> float:
    return sum(cost.elapsed_s for cost in costs)


def _line(cpu_s: float, elapsed_s: float, rest: str) -> str:
    return f"{cpu_s:8.1f} {elapsed_s:8.1f} {rest}"


class CpuProfile:
    """Measures each test in its process, and collects the costs in the process that prints the summary."""

    def __init__(self) -> None:
        self._costs: list[NodeCost] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Record the start of the test."""
        item.stash[_BEGUN] = (cpu_seconds(), time.monotonic())
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Add the cost to the test's properties; the report of the teardown contains them."""
        try:
            return (yield)
        finally:
            cpu_s, at = item.stash[_BEGUN]
            item.user_properties.append(("cost", [cpu_seconds() - cpu_s, time.monotonic() - at]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect a finished test's cost."""
        for name, value in report.user_properties:
            if report.when == "teardown" and name == "cost" and isinstance(value, list):
                self._costs.append(NodeCost(report.nodeid, *value))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the tables."""
        terminalreporter.section("cost of the tests")
        for line in table(self._costs):
            terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Register the profile."""
    config.pluginmanager.register(CpuProfile(), "cost-profile")
