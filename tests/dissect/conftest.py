"""Runs the native dissector for tests."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from firstflight.system import binaries

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "interop"

Row = dict[str, Any]


def dissect(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run firstflight-dissect to the end."""
    argv = [str(binaries.find("firstflight-dissect")), *map(str, arguments)]
    return subprocess.run(argv, input=stdin, capture_output=True, check=False)


def rows(*arguments: str | Path, stdin: bytes = b"") -> list[Row]:
    """Return its JSON lines; it must succeed."""
    done = dissect(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]
