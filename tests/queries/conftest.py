"""Separate stores, and an invented campaign of two runs with results that can be computed by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import Store, open_store
from store.load import loader
from tests.store.conftest import emptied_tables, place, shared_store, tables, template
from tests.store.rows import probe, write

__all__ = ["emptied_tables", "place", "shared_store", "tables", "template"]

RUN_1, RUN_2 = "20261120T055900Z-aaaaaa", "20261127T055900Z-bbbbbb"
DAY_1, DAY_2 = 1_795_154_400 * 10**9, (1_795_154_400 + 7 * 86_400) * 10**9  # 06:00 UTC
LIST = "X6QPN+crux:202611:0123456789ab"
SECOND = 10**9


def iack(ack_us: int, delta_us: int, **changes: Any) -> dict[str, Any]:
    """Return a row with an instant ACK after `ack_us`, the ServerHello `delta_us` later."""
    return probe("iack", ack_us=ack_us, sh_us=ack_us + delta_us, **changes)


def first_run() -> list[dict[str, Any]]:
    """a: always instant. b: waits. c: ServerHello first. d: instant at the second attempt. e: silent.

    f: no origin AS. g: IPv4 waits, IPv6 does not. h: closes. i: Retry first. j: blocked.
    """
    common = {"run": RUN_1, "repetition": 1, "sent_at": DAY_1}
    others = {"cdn": "Others", "asn": 3320}
    return [
        iack(
            20_000,
            3_200,
            **common | {"domain": "a.example", "sent_at": DAY_1 + 5 * SECOND, "sh_to_handshake_us": 0},
        ),
        probe("coalesced", **common, domain="b.example", sh_to_handshake_us=0, bytes_received=3_757),
        probe("sh_first", **common | others, domain="c.example", sh_to_handshake_us=900),
        iack(20_000, 9_000, **common | others, domain="d.example", attempts=2),
        probe("timeout", **common, domain="e.example"),
        iack(20_000, 1_000, **common, domain="f.example", cdn=None, asn=None),
        probe("coalesced", **common, domain="g.example", ip="198.18.48.7"),
        iack(20_000, 1_000, **common, domain="g.example", ip="2001:db8:48::7"),
        probe("closed", **common, domain="h.example", cdn="Amazon", asn=16509),
        iack(20_000, 3_200, **common, domain="i.example", cdn="Google", asn=15169, retried=True),
        probe("blocked", **common | others | {"sent_at": None}, domain="j.example"),
        iack(20_000, 4_200, **common | {"domain": "a.example", "repetition": 2, "sh_to_handshake_us": 150}),
        probe("coalesced", **common | {"repetition": 2}, domain="b.example"),
        iack(10_000, 40_000, **common, domain="a.example", vantage="hong_kong", bytes_received=3_756),
    ]


def second_run() -> list[dict[str, Any]]:
    """Return the rows of a week later, when b sends instant ACKs."""
    common = {"run": RUN_2, "repetition": 1, "sent_at": DAY_2}
    return [
        iack(20_000, 5_200, **common, domain="a.example"),
        iack(20_000, 3_000, **common, domain="b.example"),
    ]


def targets() -> list[dict[str, Any]]:
    """The list of the first run, joined from Tranco and CrUX; z was never probed."""
    rows: list[tuple[str, int | None, int | None]] = [
        ("a", 1, 1_000),
        ("z", 2, 1_000),
        ("b", 500, 5_000),
        ("c", 1_001, None),
        ("e", 20_000, 10_000),
        ("d", None, 1_000),
    ]
    return [
        {"rank": rank, "domain": f"{name}.example", "list_id": LIST, "rank_bucket": bucket}
        for name, rank, bucket in rows
    ]


def write_run(folder: Path, run: str, probes: list[dict[str, Any]]) -> list[Path]:
    """Write a run's folder as a campaign leaves it: a probe file per vantage point and repetition."""
    (folder / run).mkdir(parents=True)
    (folder / run / "manifest.json").write_text(json.dumps({"id": run}))
    units = sorted({(row["vantage"], row["repetition"]) for row in probes})
    return [
        write(
            folder / run / vantage / str(repetition) / "probe" / "quic_probe.parquet",
            [row for row in probes if (row["vantage"], row["repetition"]) == (vantage, repetition)],
        )
        for vantage, repetition in units
    ]


@pytest.fixture(scope="session")
def campaign(template: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a store with both runs, loaded once."""
    folder = tmp_path_factory.mktemp("campaign")
    shutil.copytree(template, folder / "store", symlinks=True)
    paths = write_run(folder, RUN_1, first_run()) + write_run(folder, RUN_2, second_run())
    paths.append(write(folder / RUN_1 / "targets" / "targets.parquet", targets(), "target"))
    url = f"chdb:{folder / 'store'}"
    results = loader.load_files(paths, url)
    assert all(isinstance(result, loader.Loaded) for result in results), results
    return url


@pytest.fixture(scope="module")
def known(campaign: str) -> Iterator[Store]:
    """That store, open for reading until the module ends: its tests open no other store."""
    with open_store(campaign) as store:
        yield store
