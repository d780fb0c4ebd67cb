"""Where a rate limits, questions leave and answers are read several at a time: waits are counted."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstflight.system import binaries
from tests.engines.waits import counted
from tests.free_port import free_port


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A resolver that answers every question immediately."""
    number = free_port()
    argv = [str(binaries.find("firstflight-responder")), "--dns", "--listen", f"127.0.0.1:{number}"]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None and server.stdout.readline() == b"READY\n"
        yield number
    finally:
        server.kill()
        server.wait()


# Three questions a name. At 1,000 a second they leave four at a time, at 5,000 twenty; a wait for each
# question and each answer would be six a name.
@pytest.mark.parametrize(("rate", "count", "each"), [(1000, 600, 3.0), (5000, 3000, 1.0)])
def test_questions_share_waits(port: int, tmp_path: Path, rate: int, count: int, each: float) -> None:
    names = tmp_path / "names"
    names.write_text("".join(f"n{number}.example.test\n" for number in range(count)))
    options = ["--names", str(names), "--resolver", f"127.0.0.1:{port}", "--rate", str(rate)]
    done, waits = counted([str(binaries.find("firstflight-resolve")), *options], tmp_path)
    assert done.returncode == 0, done.stderr
    domains = Counter(line.split('"domain":"')[1].split('"')[0] for line in done.stdout.splitlines())
    assert len(domains) == count and min(domains.values()) >= 3
    # Further waits are for the first names, the last answers and signals.
    assert 0 < waits <= each * count + 200, waits
