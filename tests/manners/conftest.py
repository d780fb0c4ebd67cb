"""One lab, with captures at its edges, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.site import Site


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A lab of its own, removed at the end."""
    made = Site(Path(tmp_path_factory.mktemp("manners")))
    made.firstflight("lab", "up", "--capture-edges")
    try:
        yield made
    finally:
        made.firstflight("lab", "down")
