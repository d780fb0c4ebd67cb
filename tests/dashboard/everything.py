"""A store with rows of every kind that pages show, and a dashboard for this store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.load import loader
from tests.dashboard.serving import Dashboard, dashboard
from tests.queries.conftest import DAY_1, iack
from tests.store.rows import download, handshake, probe, write
from tests.watch.test_watch_views import slot

HOSTILE = "\"><script>document.title='caught'</script>"
RUN = "20261125T060000Z-cccccc"
SHOWN = {
    "cdn": "Cloudflare",
    "stack": "quiche",
    "stack_fingerprint": "01,03=1452",
    "transport_parameters": '[{"id":"0x01","name":"max_idle_timeout","value":30000}]',
    "leaf_sha256": "aa" * 32,
    "chain_length": 2,
    "certificate_bytes": 2_500,
    "edge_location": HOSTILE,
    "rtt_min_us": 9_000,
}
DAY = DAY_1 + 5 * 86_400 * 10**9  # 2026-11-25
# Downloads are newer than all probes.
DOWNLOADS_AT = DAY + 86_400 * 10**9


def fill(campaign: str, folder: Path) -> str:
    """Copy the store `campaign` below `folder`, add rows of the other kinds, and return its address."""
    shutil.copytree(campaign.removeprefix("chdb:"), folder / "store", symlinks=True)
    common = {"run": RUN, "vantage": "hamburg", "repetition": 1, "sent_at": DAY}
    probes = [
        iack(20_000, 3_000, **common, domain="a.example", bytes_sent=1_200, ack_datagram_bytes=1_200),
        probe("coalesced", **common, domain="b.example", clock_offset_us=1_500),
        iack(20_000, 3_000, **common, domain="h.example", cdn=HOSTILE),
    ]
    slots = [slot(n, "iack" if n % 2 else "coalesced", 20_000 + n, 24_000 + n) for n in range(120)]
    slots.append(slot(120, None, None, None))
    files = folder / "files"
    url = f"chdb:{folder / 'store'}"
    results = loader.load_files(
        [
            write(files / "quic_probe.parquet", probes),
            write(files / "watch_slot.parquet", slots, "watch_slot"),
            write(files / "quic_handshake.parquet", [handshake(**common | SHOWN)], "quic_handshake"),
            write(
                files / "download.parquet",
                [
                    download(run=RUN, started_at=DOWNLOADS_AT, application_goodput_bps=8_000_000),
                    download(run=RUN, started_at=DOWNLOADS_AT, position=2, outcome="timeout"),
                ],
                "download",
            ),
        ],
        url,
    )
    assert all(isinstance(result, loader.Loaded) for result in results), results
    return url


@pytest.fixture(scope="module")
def everything(campaign: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The store's address."""
    return fill(campaign, tmp_path_factory.mktemp("everything"))


@pytest.fixture(scope="module")
def pages(everything: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """The dashboard on that store; one run has a report."""
    reports = tmp_path_factory.mktemp("reports")
    (reports / RUN).mkdir()
    (reports / RUN / "index.html").write_text("<!doctype html><title>the report</title>")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_REPORTS", str(reports))
        with dashboard(everything) as served:
            yield served
