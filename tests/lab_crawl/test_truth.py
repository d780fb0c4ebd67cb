"""A campaign over the lab with a crawl: each row of download_file equals `lab truth --files`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.end_to_end.site import LabFolders, raised, without_behaviour

SIZE_SLACK = 100_000
"""A truncated body can exceed the requested number of bytes by a few TLS records."""

SETTINGS = """[campaign]
name = "files"
contact = "crawl@example.org"
[targets]
source = "file"
file = "names.txt"
[as_data]
rib = "routeviews"
date = 2024-08-07
cache_dir = "cache"
[resolve]
resolver = "198.18.0.53"
rate = 1000
[probe]
rate = 500
attempts = 1
timeout_s = 0.5
per_prefix_rate = 0
blocklist = ["{lab}/lists/blocklist.conf"]
optout = ["{lab}/lists/optout.conf"]
allow_net = ["198.18.0.0/15", "2001:db8::/32"]
[crawl]
enabled = true
rate = 500
per_address_rate = 50
roots = "{lab}/certificates/ca.pem"
[network]
ca_bundle = "{lab}/certificates/ca.pem"
[centre]
command = ["firstflight", "lab", "exec", "centre"]
[[vantage]]
name = "hamburg"
command = ["firstflight", "lab", "exec", "hamburg"]
interface = "eth0"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabFolders]:
    with raised(tmp_path_factory.mktemp("crawl")) as made:
        yield made


def test_every_row_equals_the_truth(site: LabFolders) -> None:
    truth = {line["domain"]: line for line in site.lines("lab", "truth", "--files")}
    (site.folder / "names.txt").write_text("".join(f"{name}\n" for name in truth))
    config = site.folder / "files.toml"
    config.write_text(SETTINGS.format(lab=site.lab))
    with without_behaviour(site) as blind:
        run = blind.firstflight("campaign", "run", "--config", str(config)).splitlines()[-1]
    rows = site.sql(f"SELECT * FROM download_file WHERE run = '{run}'")
    assert sorted(row["domain"] for row in rows) == sorted(truth)
    assert [different for row in rows if (different := difference(row, truth[row["domain"]]))] == []
    pages = site.sql(f"SELECT domain, outcome, requests, bytes_received FROM crawl_page WHERE run = '{run}'")
    assert {page["domain"]: page["outcome"] for page in pages} == {d: t["outcome"] for d, t in truth.items()}
    assert max(page["requests"] for page in pages) == 200
    assert all(page["bytes_received"] < 20_000_000 for page in pages)


def difference(row: dict[str, Any], truth: dict[str, Any]) -> dict[str, Any]:
    """Return the columns in a row that differ from the truth."""
    found = {name: (row[name], wanted) for name, wanted in truth.items() if row[name] != wanted}
    size = found.get("size")
    if size and truth["size_is_lower_bound"] and 0 <= int(size[0]) - size[1] < SIZE_SLACK:
        del found["size"]
    return {"domain": row["domain"], **found} if found else {}
