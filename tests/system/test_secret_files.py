"""Files with secrets, and the notation of addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstflight.system import files
from firstflight.system.network.tcp_listener import host_and_port


def test_a_secret_is_readable_only_by_this_user_even_if_the_file_existed(tmp_path: Path) -> None:
    path, other = tmp_path / "secret", tmp_path / "other"
    other.write_text("somebody's")
    # A killed program or another user may have left this at the name of the temporary file.
    (tmp_path / "secret.part").symlink_to(other)
    for text in ("first", "sec\u00f6nd"):
        files.write_secret(path, text)
        assert (path.read_text(encoding="utf-8"), path.stat().st_mode & 0o777) == (text, 0o600)
        path.chmod(0o644)
    assert other.read_text() == "somebody's"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "secret"]
    with pytest.raises(FileNotFoundError):
        files.write_secret(tmp_path / "none" / "secret", "x")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "127.0.0.1:9000"), ("store.test", "store.test:9000"), ("::1", "[::1]:9000")],
)
def test_an_ipv6_address_is_in_brackets_before_a_port(host: str, expected: str) -> None:
    assert host_and_port(host, 9000) == expected
