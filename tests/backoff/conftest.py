"""A lab with captures at the edges, for all tests in this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.end_to_end.site import LabFolders, raised


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabFolders]:
    """A separate lab, removed at the end."""
    with raised(tmp_path_factory.mktemp("backoff")) as made:
        yield made
