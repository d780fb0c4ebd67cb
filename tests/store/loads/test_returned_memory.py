"""After a long query, a reader's allocator returns freed memory. A report runs about forty queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from store import open_store
from store.backends import embedded
from store.engine.session import EngineSession

PURGE = "SYSTEM JEMALLOC PURGE"


@pytest.mark.parametrize(("after_s", "purges"), [(0.0, 2), (1e9, 0)])
def test_memory_is_returned_after_long_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_s: float, purges: int
) -> None:
    location = f"chdb:{tmp_path / 'store'}"
    with open_store(location, write=True):
        pass
    done: list[str] = []
    run = EngineSession.run

    def noted(self: EngineSession, sql: str, *arguments: object) -> bytes:
        answer = run(self, sql, *arguments)  # type: ignore[arg-type]
        done.append(sql)  # only if the engine permits it
        return answer

    monkeypatch.setattr(embedded, "_PURGED_AFTER_S", after_s)
    with open_store(location) as store:
        monkeypatch.setattr(EngineSession, "run", noted)
        for _ in range(2):
            assert store.rows("SELECT 1 AS one") == [{"one": 1}]
    assert done.count(PURGE) == purges
    assert len(done) == 2 + purges
