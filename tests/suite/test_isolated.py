"""tests/isolated: a program's network namespace, and the message if there is no such program."""

from __future__ import annotations

import subprocess
from pathlib import Path

ISOLATED = Path(__file__).parents[1] / "isolated"


def isolated(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ISOLATED), *argv], capture_output=True, text=True, check=False)


def test_a_program_has_a_separate_namespace_with_only_loopback() -> None:
    done = isolated("sh", "-c", "readlink /proc/self/ns/net; cat /proc/self/net/dev")
    namespace, *devices = done.stdout.splitlines()
    assert namespace.startswith("net:")
    assert namespace != str(Path("/proc/self/ns/net").readlink())
    assert [line.partition(":")[0].strip() for line in devices if ":" in line] == ["lo"]


def test_a_missing_program_is_one_sentence() -> None:
    done = isolated("no-such-program")
    assert done.returncode == 1
    assert done.stderr == "cannot start no-such-program: No such file or directory\n"
