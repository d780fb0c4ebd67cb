"""HTTP/0.9 between all stacks that support it, over loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed import http09


@pytest.mark.parametrize(("client", "server"), http09.pairs())
def test_a_client_downloads_by_http09(tmp_path: Path, client: str, server: str) -> None:
    http09.downloads(tmp_path, client, server)
