"""A campaign on loopback while a dashboard page is open: loads do not wait, and the page updates itself."""

from __future__ import annotations

import re
from pathlib import Path

from firstflight.system.lock import holder_pid
from store.address.served_address import LOCK
from tests.browser import Browser
from tests.browser import browser as browser
from tests.campaign_loopback.conftest import world as world
from tests.campaign_loopback.world import ANSWERING, CampaignWorld
from tests.dashboard.serving import dashboard
from tests.waiting import until


def test_a_page_grows_while_a_campaign_loads(world: CampaignWorld, browser: Browser) -> None:
    url = f"chdb:{world.folder}/store"
    vantage = '[[vantage]]\nname = "east"\ninterface = "lo"\nports = "61000-61031"\n'
    config = world.settings(vantages=vantage)
    first = world.campaign("--config", str(config))
    assert first.returncode == 0, first.stderr
    with dashboard(url) as served:
        browser.open(served.url + "/vantage/east")
        rows = "return document.querySelectorAll('#p-vantage_runs tbody tr').length"
        assert browser.script(rows) == 1
        stamp = browser.script("return document.body.dataset.stamp")
        before = browser.script("return document.getElementById('until').textContent")
        browser.script("window.opened = true")
        holder = holder_pid(Path(world.folder) / "store" / LOCK)
        second = world.campaign("--config", str(config))
        assert second.returncode == 0, second.stderr
        # The dashboard's store server held the store all the time, and the loads went through this server.
        assert holder is not None and holder_pid(Path(world.folder) / "store" / LOCK) == holder
        assert "has been held" not in second.stderr
        until(lambda: browser.script(rows) == 2, "the second run on the open page")
        assert browser.script("return window.opened") is True
        assert browser.script("return document.body.dataset.stamp") != stamp
        assert browser.script("return document.getElementById('until').textContent") > before
        runs = re.findall(r'<th scope="row">([0-9TZ]+-[0-9a-f]+)', served.get("/vantage/east").text)
        assert runs == [run.name for run in reversed(world.runs())]
        got = served.get("/queries/coverage_over_time.csv?all_addresses=true&vantage=east").text
        assert f",{2 * ANSWERING}," in got
