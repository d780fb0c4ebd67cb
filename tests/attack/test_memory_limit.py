"""A control group with less memory than the machine: the engine refuses a query before the kernel kills it.

One query from a client killed a store in a small group, because the engine's limits counted the machine's
memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from firstflight.system.memory import usable_bytes
from store.engine import access

MIB = 1 << 20
MACHINE = usable_bytes(Path("/nonexistent"))


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/", {}, MACHINE),
        ("0::/a.slice/b.service", {"a.slice/b.service/memory.max": "max"}, MACHINE),
        ("0::/a.slice/b.service", {"a.slice/b.service/memory.max": f"{64 * MIB}"}, 64 * MIB),
        (
            "0::/a.slice/b.service",
            {"a.slice/b.service/memory.max": f"{64 * MIB}", "a.slice/memory.max": f"{32 * MIB}"},
            32 * MIB,
        ),
        # A container sees its group as the root.
        ("0::/", {"memory.max": f"{64 * MIB}"}, 64 * MIB),
        # Version 1; without a limit the kernel writes the greatest number of whole pages.
        ("5:cpu,cpuacct:/x\n4:memory:/x\n0::/", {"memory/x/memory.limit_in_bytes": f"{64 * MIB}"}, 64 * MIB),
        ("4:memory:/x", {"memory/x/memory.limit_in_bytes": "9223372036854771712"}, MACHINE),
        ("0::/a", {"a/memory.max": "a lot"}, MACHINE),
        ("no line of groups", {}, MACHINE),
    ],
)
def test_the_smallest_limit_counts(tmp_path: Path, own: str, files: dict[str, str], expected: int) -> None:
    (tmp_path / "own").write_text(f"{own}\n")
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    assert usable_bytes(tmp_path / "own", tmp_path / "groups") == expected


def test_the_engine_stays_below_half_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "usable_bytes", lambda: 1200 * MIB)
    assert f"<max_memory_usage>{600 * MIB}</max_memory_usage>" in access.SERVER.users()
    text = Path(access.configured(access.SERVER)).read_text()
    assert f"<max_server_memory_usage>{600 * MIB}</max_server_memory_usage>" in text
