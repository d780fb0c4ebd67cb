"""A lab for most tests in this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab_network.running import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with captures at the edges, removed at the end."""
    made = Lab(tmp_path_factory.mktemp("lab"))
    made.run("up", "--capture-edges")
    try:
        yield made
    finally:
        made.run("down")


@pytest.fixture
def other_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab that is not started yet. It is stopped at the end of the test."""
    made = Lab(tmp_path_factory.mktemp("other"))
    try:
        yield made
    finally:
        made.run("down")
