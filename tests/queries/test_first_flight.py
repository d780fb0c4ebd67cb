"""The queries of probes with an ECN mark and of a reserved version, on rows made by hand."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import Store, open_store
from store.load import loader
from tests.store.rows import probe

from .conftest import DAY_1, RUN_1, iack, write_run
from .test_named import near, table


def marked(domain: str, verdict: str | None, marks: tuple[int, int, int] = (0, 0, 0)) -> dict[str, Any]:
    """Return a probe with ECT(0); `marks`: datagrams received with ECT(0), ECT(1) and CE."""
    fields = dict(zip(("received_ect0", "received_ect1", "received_ce"), marks, strict=True))
    given: dict[str, Any] = {"run": RUN_1, "repetition": 1, "sent_at": DAY_1, "domain": domain, "ecn": "ect0"}
    return iack(20_000, 1_000, **given, **fields, ecn_verdict=verdict)


def reserved(domain: str, outcome: str, **changes: Any) -> dict[str, Any]:
    """Return a probe of a reserved version."""
    given: dict[str, Any] = {"run": RUN_1, "repetition": 1, "sent_at": DAY_1, "domain": domain}
    return probe(outcome, **given, version="0x1a2a3a4a", **changes)


@pytest.fixture(scope="module")
def flights(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with probes of both kinds and an ordinary one, open for reading."""
    folder = tmp_path_factory.mktemp("flights")
    shutil.copytree(template, folder / "store", symlinks=True)
    rows = [
        marked("a.example", "valid", (2, 0, 0)),
        marked("b.example", "wrong", (0, 0, 1)),
        marked("c.example", "not_mirrored", (0, 1, 0)),
        marked("d.example", "not_mirrored"),
        marked("e.example", None),
        reserved("f.example", "version_negotiation", vn_us=9_000, version_grease=1),
        reserved("g.example", "version_negotiation", vn_us=11_000, version_grease=0),
        reserved("h.example", "version_negotiation", vn_us=90_000, version_grease=2, attempts=2),
        reserved("i.example", "timeout"),
        iack(20_000, 1_000, run=RUN_1, repetition=1, sent_at=DAY_1, domain="j.example"),
    ]
    results = loader.load_files(write_run(folder, RUN_1, rows), url := f"chdb:{folder / 'store'}")
    assert all(isinstance(result, loader.Loaded) for result in results), results
    with open_store(url) as store:
        yield store


def test_ecn_mirroring(flights: Store) -> None:
    columns = "cdn vantage acknowledged mirrored mirrored_share valid valid_share marking"
    assert table(flights, "ecn_mirroring", columns) == [["Cloudflare", None, 4, 2, 0.5, 1, 0.25, 3]]
    assert table(flights, "ecn_mirroring", "vantage acknowledged", by_vantage="true") == [["hamburg", 4]]


def test_version_negotiation(flights: Store) -> None:
    columns = "cdn vantage probes negotiated negotiated_share greased"
    assert table(flights, "version_negotiation", columns) == [["Cloudflare", None, 4, 3, 0.75, 2]]
    # The second attempt of h is in no delay.
    found = table(flights, "version_negotiation", "vn_p90_us", vantage="hamburg")
    assert found == [[near(11_000)]]


def test_reserved_versions_are_in_no_share_of_instant_acks(flights: Store) -> None:
    assert table(flights, "iack_share", "answered counted iack_share strict_share") == [[6, 6, 1.0, 1.0]]
