"""The testbed's own clients refuse bad input with one line each. tests/testbed/guests has their trials.

It also has these tests for the clients that `make testbed-setup` builds.
"""

from __future__ import annotations

import pytest

from tests.testbed import client_checks as checks

PROGRAMS = checks.programs()


def test_they_are_what_the_manifests_name() -> None:
    assert len(PROGRAMS) >= 4


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("arguments", "given", "message"), checks.WRONG)
def test_errors_are_one_line(program: str, arguments: list[str], given: str, message: str) -> None:
    checks.refuses_in_one_line(program, arguments, given, message)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("networks", checks.ELSEWHERE)
def test_an_address_outside_the_networks_is_never_contacted(program: str, networks: list[str]) -> None:
    checks.contacts_no_other_address(program, networks)


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_address_inside_them_is(program: str) -> None:
    checks.needs_its_roots(program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_they_print_version_and_help(program: str) -> None:
    checks.says_what_it_is(program)
    checks.takes_the_networks_of_the_policy(program)
