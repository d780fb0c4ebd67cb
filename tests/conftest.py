"""Distributes the tests over the processes of `make test`, and isolates these processes."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import pytest

from tests import drawn, isolation

# Tests in each of these folders share a lab, a campaign or servers, so one process runs them all.
TOGETHER = (
    "tests/end_to_end/",
    "tests/lab_network/",
    "tests/lab_servers/",
    "tests/lab_services/",
    "tests/backoff/",
    "tests/crawl_files/",
    "tests/dashboard/",
    "tests/download/",
    "tests/queries/",
    "tests/recipes/",
    "tests/report/",
)
# These start first, in the order of their length, so that short tests finish last.
LONGEST = (
    "tests/testbed/guests/test_trials.py",
    "tests/airflow/test_site.py",
    "tests/end_to_end/",
    "tests/lab_network/",
    "tests/store/loads/test_crash.py",
    "tests/watch/",
    "tests/backoff/",
    "tests/campaign_loopback/",
)

# `make test` runs a random sample of costly tests (`--sample`): a quarter of the modules in each of
# CAMPAIGNS, a quarter of COSTLY, and one of SITE_SCENARIOS. `make test-long` runs all.
CAMPAIGNS = ("tests/campaign_loopback/", "tests/watch/", "tests/backoff/")

# Other modules that took more than 15 CPU seconds (`make test-profile`). Tests of loads, migrations, crashes
# and packets outside the lab are not among them.
COSTLY = (
    "tests/airflow/test_backup.py",
    "tests/attack/files/test_fetched_files.py",
    "tests/attack/servers/test_terminal.py",
    "tests/attack/store/test_login.py",
    "tests/attack/store/test_prepared.py",
    "tests/calibrate/test_answer.py",
    "tests/crawl_files/test_command.py",
    "tests/crawl_files/test_memory.py",
    "tests/crawl_files/test_stage.py",
    "tests/dashboard/test_dashboard.py",
    "tests/dashboard/test_live.py",
    "tests/dashboard/test_pages_in_a_browser.py",
    "tests/differential/test_fields.py",
    "tests/dissect/quic/test_flights.py",
    "tests/download/test_stage.py",
    "tests/end_to_end/test_documented_commands.py",
    "tests/end_to_end/test_one_change.py",
    "tests/end_to_end/test_published.py",
    "tests/lab_crawl/test_truth.py",
    "tests/queries/downloads/test_downloads.py",
    "tests/queries/downloads/test_explained.py",
    "tests/queries/downloads/test_option_shares.py",
    "tests/queries/handshakes/test_verdicts.py",
    "tests/queries/interfaces/test_named.py",
    "tests/queries/interfaces/test_notebooks.py",
    "tests/queries/test_roll_up.py",
    "tests/queries/test_sharded.py",
    "tests/queries/test_what_counts.py",
    "tests/report/test_export.py",
    "tests/report/test_page.py",
    "tests/report/test_report_command.py",
    "tests/store/loads/test_bad_days.py",
    "tests/store/served/test_integration_server.py",
    "tests/store/tables/test_views.py",
    "tests/store/test_report.py",
    "tests/store/test_sql.py",
    "tests/testbed/report/test_report.py",
    "tests/testbed/stacks/test_browsers.py",
)

# Tests of airflow/test_site that start more runs than its scan. A scenario's tests share a run.
SITE = "tests/airflow/test_site.py"
SITE_SCENARIOS = (
    (f"{SITE}::test_pause_centre_and_vantage_point_fail_while_two_runs_of_a_day_overlap",),
    (f"{SITE}::test_a_killed_site_restarts_with_its_runs",),
    (
        f"{SITE}::test_a_crawl_publishes_the_files_that_it_found",
        f"{SITE}::test_downloads_start_by_themselves_after_a_crawl",
    ),
    (f"{SITE}::test_a_survey_asks_each_name_from_each_vantage_point",),
    (f"{SITE}::TestAStolenSecretOfAWorker",),
)

# Groups that can run separately (`make test-unit` ...). A test is in exactly one group.
GROUPS = {
    "unit": "needs no lab, no site and no browser",
    "lab": "starts the lab or servers",
    "site": "starts real Airflow and PostgreSQL",
    "browser": "opens pages in a browser",
    "testbed": "runs guests in simulated time; needs the kernel of `make testbed-setup`",
    "superset": "starts Superset; needs the environment of `deploy/setup.sh superset` (`make superset-test`)",
    "cloud": "runs OpenTofu or cloud-init, which `make cloud-test` builds and unpacks",
    "dist": "installs the output of `make dist`",
    "recipes": "changes a copy of the tree as docs/extending.md says (`make test-long GROUP=recipes`)",
    "machines": "installs a site on machines of systemd-nspawn (`make deploy-test`); needs root",
}
LAB = (
    *("tests/campaign_loopback/", "tests/end_to_end/", "tests/lab_network/", "tests/lab_servers/"),
    *("tests/lab_services/", "tests/backoff/", "tests/prober/", "tests/watch/"),
    *("tests/crawl_files/", "tests/lab_crawl/", "tests/download/", "tests/optout/"),
    *("tests/handshake/", "tests/differential/test_handshakes.py", "tests/dissect/test_prober_agrees.py"),
    *("tests/crawl/test_fetched.py", "tests/crawl/test_lab_answers.py"),
    *("tests/dashboard/test_live.py", "tests/tcp_options/test_stage.py", "tests/bench/test_stack_delays.py"),
)


# Tests that depend on a clock. The table in docs/design/0013 has the purpose of each, and
# tests/suite/test_timing_table.py compares the two lists. `make test-timing` repeats them, idle and
# under load.
TIMING = (
    *("tests/end_to_end/test_agreement.py", "tests/end_to_end/test_delays.py"),
    *("tests/end_to_end/test_truth.py", "tests/end_to_end/test_table1.py::test_trace"),
    *("tests/end_to_end/test_handshakes.py", "tests/lab_network/test_link.py"),
    *("tests/lab_network/test_bottleneck.py", "tests/lab_network/test_up_and_down.py"),
    *("tests/lab_network/test_hosts.py", "tests/download/test_throughput.py"),
    *("tests/lab_servers/test_first_answers.py", "tests/lab_servers/test_rogue.py::test_the_delay"),
    *("tests/lab_servers/test_outcomes.py", "tests/lab_servers/test_listening.py"),
    *("tests/lab_services/test_names.py", "tests/prober/", "tests/optout/"),
    *("tests/resolve/test_resolve_query.py", "tests/resolve/test_native_engine.py"),
    *("tests/resolve/test_resolve_stage.py", "tests/resolve/test_waits.py"),
    *(
        "tests/handshake/test_feed.py",
        "tests/handshake/misbehaving/test_hostile.py",
        "tests/handshake/test_paths.py",
    ),
    *(
        "tests/campaign_loopback/test_first_flight.py",
        "tests/campaign_loopback/test_shards.py::test_the_limits",
    ),
    "tests/campaign_loopback/test_stop.py",
    *("tests/tcp_options/test_runs.py", "tests/watch/test_watch.py", "tests/watch/test_two_watches.py"),
    *("tests/backoff/test_limits_of_all.py", "tests/backoff/test_shards.py"),
    "tests/backoff/test_paused_network.py",
    *("tests/firstflight/test_clock.py", "tests/firstflight/test_capture.py"),
    *("tests/differential/test_handshakes.py", "tests/scanner/test_stopped_prober.py"),
    "tests/dissect/test_prober_agrees.py",
    *(
        "tests/dissect/captures/test_input.py::test_interrupted",
        "tests/dissect/captures/test_input.py::test_a_second_signal",
    ),
    *(
        "tests/store/served/test_interrupt.py",
        "tests/store/loads/test_crash.py",
        "tests/store/served/test_serve.py",
    ),
    *("tests/attack/files/test_captures.py", "tests/airflow/test_dags.py::test_parsing_costs_little"),
    "tests/airflow/test_dags.py::test_a_heavy_import",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test`."""
    parser.addoption(
        "--sample",
        action="store_true",
        help="run a random sample of CAMPAIGNS, COSTLY and SITE_SCENARIOS (tests/conftest.py)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Move a process that runs tests into a separate network namespace before it imports any module."""
    for name, meaning in GROUPS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.addinivalue_line("markers", "timing: depends on a clock (docs/design/0013)")
    config.addinivalue_line("markers", "drawn: in the sample of costly cases (tests/drawn.py)")
    drawn.ensure_seed()
    hands_out = getattr(config.option, "dist", "no") != "no" and "PYTEST_XDIST_WORKER" not in os.environ
    if not hands_out:
        isolation.enter()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed of the sample of costly cases."""
    which = "all" if drawn.are_all() else f"{drawn.SEED}={os.environ[drawn.SEED]}"
    terminalreporter.write_line(f"sample of costly cases: {which} (tests/drawn.py)")


def group(nodeid: str) -> str:
    """Return the unit of distribution: a folder with a shared test environment, else a file."""
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), nodeid.split("::")[0])


def rank(nodeid: str) -> int:
    """Return the position in the order: tests in LONGEST as listed, then all others."""
    return next((n for n, start in enumerate(LONGEST) if nodeid.startswith(start)), len(LONGEST))


def left_out(modules: Iterable[str]) -> tuple[str, ...]:
    """Return how the node IDs begin that a sample leaves out; `modules` are the paths of all modules."""
    known = sorted(set(modules))
    groups = {folder: [module for module in known if module.startswith(folder)] for folder in CAMPAIGNS}
    groups["costly modules"] = list(COSTLY)
    without = [
        name for group, names in groups.items() for name in drawn.rest(group, names, (len(names) + 3) // 4)
    ]
    scenarios = drawn.rest("scenarios of a site", SITE_SCENARIOS, 1)
    return (*without, *chain.from_iterable(scenarios))


def group_of(nodeid: str, fixtures: Sequence[str]) -> str:
    """Return the name for a test's group (GROUPS)."""
    if nodeid.startswith("tests/airflow/"):
        return "site"
    for name in ("superset", "cloud", "dist", "machines", "recipes"):
        if nodeid.startswith(f"tests/{name}/"):
            return name
    if "browser" in fixtures:
        return "browser"
    if nodeid.startswith("tests/testbed/guests/"):
        return "testbed"
    return "lab" if nodeid.startswith(LAB) else "unit"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep thousands of tests out of garbage collections: they exist until the process exits."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before `-m` deselects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its group, mark tests that depend on a clock, and sort the longest first."""
    if config.getoption("sample"):
        without = left_out(item.nodeid.split("::")[0] for item in items)
        chosen: list[pytest.Item] = []
        others: list[pytest.Item] = []
        for item in items:
            (others if item.nodeid.startswith(without) else chosen).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = chosen
    sampled = (*CAMPAIGNS, *COSTLY, *chain.from_iterable(SITE_SCENARIOS))
    for item in items:
        if item.nodeid.startswith(sampled):
            item.add_marker("drawn")
        if item.nodeid.startswith(TIMING):
            item.add_marker("timing")
        item.add_marker(group_of(item.nodeid, getattr(item, "fixturenames", ())))
    items.sort(key=lambda item: rank(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute tests by `group`, in the order of `rank`."""
    from xdist.scheduler.loadscope import LoadScopeScheduling

    config.option.loadscopereorder = False
    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = group
    return scheduler
