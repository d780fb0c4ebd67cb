"""Takes screenshots of every page, on a store with one day and on a store with a year.

`python -m tests.dashboard.screenshots DIR` writes them to DIR: desktop and phone, light and dark. The exit
status is 1, with a line for each fault, if a page is wider than its window, has a chart that is not drawn, or
logs an error on the console. `make test-long GROUP=pages` runs it.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path

from store.load import loader
from tests import browser
from tests.browser import DESK, PHONE, Browser
from tests.dashboard.everything import SHOWN
from tests.dashboard.serving import dashboard
from tests.report import world
from tests.store.rows import DAY_NS, download, handshake, write
from tests.stores import with_tables
from tests.watch.test_watch_views import slot

DAY = 86_400 * 10**9
DAYS = {"day": [0], "year": [*range(-364, 0, 7), *range(-6, 1)]}
"""Store -> days, counted from the newest day."""
PAGES = {
    "overview": "/",
    "cdn": "/cdn/Amazon",
    "name": "/name/amazon1.example",
    "vantage": "/vantage/hamburg",
    "watch": "/watch",
    "downloads": "/downloads",
    "handshakes": "/handshakes",
    "queries": "/queries",
    "query": "/queries/share_over_time",
}
SETS = ("warmup", "bl", "ws14", "all14", "quiche")
_WATCHED_DAYS = 7
_FAULTS = """
const faults = [];
if (document.documentElement.scrollWidth > window.innerWidth) faults.push("wider than its window");
for (const panel of document.querySelectorAll(".panel")) {
  const box = panel.querySelector(".chart");
  if (box && !box.querySelector("canvas, .dots")) faults.push(`${panel.id} has no chart`);
}
return faults;
"""


def made(days: Iterable[int], folder: Path) -> str:
    """Create a store below `folder` with a run on each of these days; return the store's address."""
    drawn = random.Random(1)
    rows: dict[str, list[dict[str, object]]] = {
        kind: [] for kind in ("quic_probe", "quic_handshake", "download", "watch_slot")
    }
    for day in days:
        at = DAY_NS + day * DAY
        run = f"{date(2026, 11, 20) + timedelta(days=day):%Y%m%d}T060000Z-abcdef"
        for vantage in world.VANTAGES:
            for row in world.answers(vantage, 1, run):
                sent_at = None if row["sent_at"] is None else row["sent_at"] + day * DAY
                rows["quic_probe"].append(row | {"sent_at": sent_at})
            for number, name in enumerate(SETS * 4):
                quic = name == "quiche"
                rows["download"].append(
                    download(
                        run=run,
                        vantage=vantage,
                        position=number % len(SETS),
                        domain=f"name{number // len(SETS)}.example",
                        set=name,
                        client="quiche" if quic else "curl",
                        started_at=at + number * 10**9,
                        application_goodput_bps=round(1e7 * drawn.lognormvariate(0, 0.5)),
                    )
                )
        for cdn in world.CDNS:
            reset = f'{{"id":"0x02","name":"stateless_reset_token","value":"{drawn.getrandbits(128):032x}"}}'
            sent = SHOWN | {"run": run, "cdn": cdn, "domain": f"{cdn.lower()}1.example", "sent_at": at}
            sent["transport_parameters"] = f"[{reset},{str(SHOWN['transport_parameters'])[1:]}"
            rows["quic_handshake"].append(handshake(**sent | {"edge_location": "FRA"}))
        for number in range(0, 1440, 5) if day > -_WATCHED_DAYS else ():
            late = round(drawn.gauss(20_000, 500))
            probe = slot(number, "iack" if number % 3 else "coalesced", late, late + 4_000, run=run)
            rows["watch_slot"].append(
                probe | {key: probe[key] + day * DAY for key in ("planned_at", "sent_at")}
            )
    url = with_tables(folder / "store")
    paths = [write(folder / "files" / f"{kind}.parquet", found, kind) for kind, found in rows.items()]
    results = loader.load_files(paths, url)
    assert all(isinstance(result, loader.Loaded) for result in results), results
    return url


def look(opened: Browser, url: str, stem: str, folder: Path) -> list[str]:
    """Take a screenshot of each page in each window and mode; return the faults."""
    faults = []
    for mode in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": mode}]
        opened.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for window, size in (("desk", DESK), ("phone", PHONE)):
            for page, path in PAGES.items():
                name = f"{stem}-{page}-{window}-{mode}"
                visit = opened.open(url + path, size)
                faults += [f"{name}: {fault}" for fault in (*visit.complaints, *opened.script(_FAULTS))]
                (folder / f"{name}.png").write_bytes(opened.screenshot())
    return faults


def main(folder: Path) -> int:
    """Write all screenshots to `folder`; return the exit status."""
    folder.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    opened = browser.start()
    try:
        for stem, days in DAYS.items():
            with (
                tempfile.TemporaryDirectory() as made_in,
                dashboard(made(days, Path(made_in))) as served,
            ):
                faults += look(opened, served.url, stem, folder)
    finally:
        opened.driver.quit()
    print("\n".join(faults or [f"{len(list(folder.glob('*.png')))} passed, screenshots in {folder}"]))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
