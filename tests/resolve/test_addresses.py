"""A watch's addresses: each round of answers is on disk once, whatever becomes of the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firstflight.egress.permitted import Permitted
from firstflight.errors import OutputError
from firstflight.settings import Resolve
from scanner.resolver.addresses import Addresses
from scanner.resolver.configured import Resolver
from scanner.resolver.names import Name
from tests.engines import record_rows
from tests.resolve.named import Named
from tests.store.rows import answer
from tests.waiting import until

NAMES = ("www.example.test", "nope.example.test")


def addresses(named: Named) -> Addresses:
    resolver = Resolver("127.0.0.1", named.port, timeout_s=60, attempts=2)
    settings = Resolve(resolver=resolver.address, port=named.port, rate=10_000)
    of_stage = ("run", "vantage", "repetition", "resolver", "tool_version")
    common = {name: value for name, value in answer("", "A").items() if name in of_stage}
    return Addresses(
        [Name(None, name, "list") for name in NAMES], (4,), resolver, settings, Permitted([], []), common
    )


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    # Opened once, since it may be replaced meanwhile: `read_table` opens it for the schema and for the rows.
    found = record_rows.read(path) if path.is_file() else []
    return [(row["domain"], row["asked_at"]) for row in found]


def test_each_round_is_written_when_it_ends(named: Named, tmp_path: Path) -> None:
    made, out = addresses(named), tmp_path / "dns_answer.parquet"
    made.resolve()
    made.write(out)
    first = rows_of(out)
    assert sorted(name for name, _ in first) == sorted(NAMES)
    made.resolve_every(0.01, out)
    until(lambda: len(rows_of(out)) >= 3 * len(NAMES), "three rounds")
    made.close()
    made.write(out)
    rows = rows_of(out)
    assert rows[: len(first)] == first and len(set(rows)) == len(rows)
    assert len(rows) % len(NAMES) == 0
    made.write(out)
    assert rows_of(out) == rows
    assert made.of(NAMES[0], 4) == "198.18.0.1" and made.of(NAMES[1], 4) is None


def test_unwritten_rows_are_written_next_time(named: Named, tmp_path: Path) -> None:
    made, folder = addresses(named), tmp_path / "folder"
    folder.write_text("")  # where a folder has to be
    made.resolve()
    with pytest.raises(OutputError):
        made.write(folder / "dns_answer.parquet")
    folder.unlink()
    made.write(folder / "dns_answer.parquet")
    assert sorted(name for name, _ in rows_of(folder / "dns_answer.parquet")) == sorted(NAMES)
