"""Groups of ASes in addition to CAIDA's organisations, and CDNs by organisation."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path

import pytest

from crawler.routing import as2org_plus, cdn_map, outline
from crawler.routing import stage as as_data
from crawler.routing.as2org import Organisation
from crawler.routing.as2org_plus import Group
from firstflight.as_map import Mapper
from firstflight.errors import InputError, UsageError
from firstflight.run.outline import Known
from tests.engines import record_rows

from .conftest import MakeRun
from .test_as2org import HOLDERS, TEXT
from .test_as_data import ROUTES

GROUPS = [Group(frozenset({13335, 3320}), None), Group(frozenset({7, 64500}), "Mine")]


@pytest.mark.parametrize(
    "text",
    [
        # The output of as2org+'s program, then a group per line.
        "[[13335, 3320]]\n",
        "[13335, 3320]\n",
        '{"asns": [13335, 3320]}\n\n',
    ],
)
@pytest.mark.parametrize("gzipped", [False, True])
def test_each_format(tmp_path: Path, text: str, gzipped: bool) -> None:
    path = tmp_path / "plus.json"
    content = (text + '{"asns": [64500, 7], "organisation": "Mine"}').encode()
    path.write_bytes(gzip.compress(content) if gzipped else content)
    assert as2org_plus.read(path) == GROUPS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no AS"),
        ("[[1, 2], [2, 3]]", "line 1: AS2 is in two groups"),
        ("[1]\n[1]", "line 2: AS1 is in two groups"),
        ('["13335"]', "line 1: '13335' is not an AS number"),
        ("[0]", "line 1: '0' is not an AS number"),
        ("[]", "line 1: expected an array of AS numbers"),
        ('{"organisation": "Mine"}', "line 1: expected an array of AS numbers"),
        ('{"asns": [7], "organisation": ""}', "line 1: expected an array of AS numbers"),
        ("[1, 2", "line 1 is not JSON"),
        (TEXT, "line 1 is not JSON"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "plus.json"
    path.write_text(text)
    with pytest.raises(InputError, match=says) as caught:
        as2org_plus.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_groups_join_organisations() -> None:
    cloudflare = HOLDERS[13335]
    found = as2org_plus.merged(HOLDERS, GROUPS)
    assert list(found) == [7, 8, 3320, 13335, 64500]
    # Both have one AS in the group: the one with the smaller number decides.
    assert found[13335][1:3] == found[3320][1:3] == HOLDERS[3320][1:3]
    assert (found[13335].as_name, found[3320].as_name) == (cloudflare.as_name, HOLDERS[3320].as_name)
    assert found[7] == Organisation(None, None, "Mine", None, "ARIN")
    assert found[64500] == Organisation(None, None, "Mine", None, None)
    assert found[8] == HOLDERS[8]
    three = {**HOLDERS, 209242: cloudflare}
    joined = as2org_plus.merged(three, [Group(frozenset({13335, 209242, 3320}), None)])
    assert {joined[asn].organisation for asn in (13335, 209242, 3320)} == {"Cloudflare, Inc."}
    # ASes that CAIDA's file does not have stay unknown.
    assert as2org_plus.merged(HOLDERS, [Group(frozenset({64500, 64501}), None)]) == HOLDERS


def test_a_cdn_has_all_ases_of_its_organisations() -> None:
    holders = {
        1: Organisation("A", "ORG-X", "X", None, None),
        2: Organisation("B", "ORG-X", "X", None, None),
        3: Organisation("C", None, "Named", None, None),
        4: Organisation("D", None, "Named", None, None),
        5: Organisation("E", None, None, None, None),
        6: Organisation("F", None, None, None, None),
    }
    cdns = {1: "First", 3: "Second", 5: "Third", 9: "Fourth"}
    assert cdn_map.by_organisation(cdns, holders) == {**cdns, 2: "First", 4: "Second"}
    with pytest.raises(UsageError, match=r"AS1 of First and AS2 of Second belong to one organisation"):
        cdn_map.by_organisation({1: "First", 2: "Second"}, holders)


@pytest.mark.parametrize(("by", "cdn"), [("asn", "Others"), ("organisation", "Cloudflare")])
def test_groups_of_a_run_can_be_organisations(tmp_path: Path, make_run: MakeRun, by: str, cdn: str) -> None:
    (tmp_path / "rib.bz2").write_bytes(bz2.compress(ROUTES))
    (tmp_path / "orgs.txt").write_text(TEXT)
    (tmp_path / "plus.json").write_text('[[13335, 3320]]\n{"asns": [8], "organisation": "Mine"}')
    run = make_run(
        as_data='rib = "file"\nfiles = ["rib.bz2"]\nas2org = "file"\nas2org_file = "orgs.txt"\n'
        f'as2org_plus = "plus.json"\ncdn_by = "{by}"'
    )
    _, organisations, *cdns = outline.outline(run.settings, Known(), None).lines
    assert organisations.endswith(f"orgs.txt, joined by the groups in {tmp_path / 'plus.json'}")
    assert bool(cdns) is (by == "organisation")
    as_data.stage(run)
    report = run.report("as_data")
    # AS7 remains: the file does not name its organisation.
    assert report is not None and (report.counts["as_orgs"], report.counts["as_orgs_unknown"]) == (4, 1)
    assert Mapper(run.layout.as_data).origin("198.18.48.9").cdn == cdn
    prefixes = record_rows.read(run.layout.as_data / "as_prefix.parquet")
    assert {row["asn"]: row["cdn"] for row in prefixes}[3320] == cdn
    rows = record_rows.read(run.layout.as_data / "as_org.parquet")
    of = {row["asn"]: (row["org_id"], row["as2org_file"]) for row in rows}
    assert of[13335] == of[3320] == ("ORG-DTAG1-RIPE", "orgs.txt+plus.json")
    about = json.loads((run.layout.as_data / "as_data.json").read_text())
    assert (about["cdn_by"], about["as2org_plus"]["file"]) == (by, "plus.json")
