"""The handshake section of the report page, in a real browser and against counts by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reports.page import page
from reports.page.content import Content
from store import open_store
from store.load import loader
from tests import stores
from tests.browser import DESK, PHONE, Browser
from tests.report.test_page import opened
from tests.store.rows import RUN, handshake, probe, write

UNKNOWN = '[{"id":"0x99","name":null,"value":"00"}]'
HOSTILE = "</td><script>document.title='caught'</script>"
DONE = {
    "cdn": "Cloudflare",
    "handshake_us": 20_000,
    "rtt_min_us": 9_000,
    "stack": "quiche",
    "stack_fingerprint": "0x1,0x3",
    "transport_parameters": '[{"id":"0x01","name":"max_idle_timeout","value":30000}]',
    "hello_datagrams": 1,
    "bytes_received": 9_000,
    "bytes_first_flight": 3_130,
    "group": "X25519MLKEM768",
    "leaf_sha256": "aa" * 32,
    "chain_length": 2,
    "certificate_bytes": 2500,
    "certificate_uncompressed_bytes": 2500,
    "http": "response",
    "response_us": 30_000,
    "status": 200,
    "edge_location": "FRA",
}
ROWS = [
    handshake(**DONE),
    handshake(**DONE | {"domain": "b.example", "handshake_us": 24_000, "status": 404}),
    handshake(**DONE | {"domain": "c.example", "http": "not_offered", "response_us": None, "status": None,
                        "group": "X25519", "edge_location": None}),
    handshake(domain="d.example", cdn="Cloudflare", outcome="timeout", stage="sent"),
    handshake(domain="e.example", cdn="Cloudflare", outcome="handshake_failed", stage="ack"),
    handshake(**DONE | {"domain": "f.example", "cdn": HOSTILE, "stack": None, "stack_fingerprint": HOSTILE,
                        "edge_location": HOSTILE, "transport_parameters": UNKNOWN}),
    handshake(domain="g.example", cdn=None, outcome="blocked", stage=None, sent_at=None),
]  # fmt: skip


def made(folder: Path, kinds: dict[str, list[dict[str, Any]]]) -> tuple[Content, Path]:
    """Load rows into a store; return the page's content for their run, and the page."""
    paths = [write(folder / f"{kind}.parquet", rows, kind) for kind, rows in kinds.items()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_STORE", f"chdb:{folder / 'store'}")
        stores.with_tables(folder / "store")
        loader.load_files(paths)
        with open_store() as store:
            gathered = page.collect(store, RUN)
    assert gathered is not None
    return gathered, page.write(gathered, folder / "page")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Content, Path]]:
    """The page for a run with probes and handshakes."""
    yield made(tmp_path_factory.mktemp("both"), {"quic_probe": [probe()], "quic_handshake": ROWS})


def test_counts(both: tuple[Content, Path]) -> None:
    found = both[0].handshakes
    assert found is not None
    rows = {row["cdn"]: row for row in found.outcomes.rows}
    assert list(rows) == [HOSTILE, "Cloudflare", "Others"]
    cloudflare = rows["Cloudflare"]
    expected = {"handshakes": 5, "names": 5, "done": 3, "failed": 1, "unanswered": 1, "not_sent": 0}
    expected |= {"responses": 2, "successful": 1, "post_quantum": 2}
    assert {name: cloudflare[name] for name in expected} == expected
    assert cloudflare["handshake_quartiles_us"][1] == 20_000
    assert (rows["Others"]["not_sent"], rows["Others"]["done"]) == (1, 0)
    for row in rows.values():
        assert row["handshakes"] == sum(row[name] for name in ("done", "failed", "unanswered", "not_sent"))
    assert [(row["stack"], row["handshakes"]) for row in found.stacks.rows] == [(None, 1), ("quiche", 3)]
    assert [row["leaves"] for row in found.certificates.rows] == [1, 1]
    assert [(row["id"], row["handshakes"]) for row in found.parameters.rows] == [("0x99", 1), ("0x01", 3)]
    assert [row["first_flight_p50"] for row in found.amplification.rows] == [2.5, 2.5]
    assert {row["location"]: row["handshakes"] for row in found.locations.rows} == {HOSTILE: 1, "FRA": 2}


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_section_in_a_browser(
    both: tuple[Content, Path], browser: Browser, size: tuple[int, int]
) -> None:
    opened(browser, both[1], size)
    assert "caught" not in browser.script("return document.title")
    cells = browser.script(
        "return [...document.querySelectorAll('#handshakes-outcomes [data-column]')]"
        ".map(td => [td.closest('tr').dataset.cdn, td.dataset.column, td.textContent])"
    )
    found = both[0].handshakes
    assert found is not None
    rows = {row["cdn"]: row for row in found.outcomes.rows}
    assert len(cells) == 9 * len(rows)
    assert all(text == f"{rows[cdn][column]:,}" for cdn, column, text in cells)
    text = browser.script("return document.querySelector('#handshakes').parentElement.textContent")
    assert "Of 7 handshakes, 57.1 % were completed" in text


def test_each_query_of_the_section_gives_its_rows_again(both: tuple[Content, Path], browser: Browser) -> None:
    browser.open(both[1].as_uri())
    texts = browser.script(
        "return [...document.querySelectorAll('details.sql pre')].map(pre => pre.textContent)"
    )
    found = both[0].handshakes
    assert found is not None
    with open_store(f"chdb:{both[1].parent.parent / 'store'}") as store:
        for answer in (found.outcomes, found.stacks, found.parameters, found.amplification, found.locations):
            assert answer.sql in texts
            assert store.rows(answer.sql) == answer.rows


def test_without_handshakes_there_is_no_section(tmp_path: Path) -> None:
    gathered, path = made(tmp_path, {"quic_probe": [probe()]})
    assert gathered.handshakes is None
    assert "handshakes" not in path.read_text(encoding="utf-8").lower().replace("server handshakes", "")
