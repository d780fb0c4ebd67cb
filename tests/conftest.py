"""Which tests may run beside which others, when pytest has two processes (`make test`)."""

from __future__ import annotations

import os
from typing import Any

import pytest

# Tests that compare times of packets, fill the loopback with servers, or raise a lab: one after the other,
# in one process.
# What the other process does beside them is work without a clock: databases, pages, captures of the past.
BY_THE_CLOCK = (
    "tests/airflow/test_database.py",
    "tests/airflow/test_site.py",
    "tests/airflow/test_stopped_run.py",
    "tests/attack/test_prober_answers.py",
    "tests/campaign_loopback/",
    "tests/dissect/test_prober_agrees.py",
    "tests/end_to_end/",
    "tests/lab_network/",
    "tests/lab_servers/",
    "tests/lab_services/",
    "tests/manners/",
    "tests/prober/",
    "tests/test_bad_use.py",
    "tests/test_capture.py",
    "tests/watch/",
)


# The process of those is the first; the other one gives way to it.
FIRST, NICENESS = "gw0", 10


def pytest_configure() -> None:
    """Lower the priority of a process that does not get the tests by the clock, and of all it starts."""
    if os.environ.get("PYTEST_XDIST_WORKER", FIRST) != FIRST:
        os.nice(NICENESS)


def by_the_clock(nodeid: str) -> bool:
    """Whether the test with this id must not run beside another of its kind."""
    return nodeid.startswith(BY_THE_CLOCK)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest row of tests to be kept together, and in it with what needs most quiet."""
    items.sort(key=lambda item: (not by_the_clock(item.nodeid), "/end_to_end/" not in item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out tests by file, since fixtures are shared there; those by the clock as one piece."""
    from xdist.scheduler.loadscope import LoadScopeScheduling

    config.option.loadscopereorder = False
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = lambda nodeid: "by the clock" if by_the_clock(nodeid) else nodeid.split("::")[0]
    hand_out = scheduler.schedule

    def to_the_first_first() -> None:
        # The first piece is that by the clock: not for the process that was ready first.
        processes = scheduler.assigned_work.items()
        scheduler.assigned_work = dict(sorted(processes, key=lambda one: str(one[0].gateway.id)))
        hand_out()

    scheduler.schedule = to_the_first_first
    return scheduler
