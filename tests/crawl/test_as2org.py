"""Files of AS organisations: CAIDA's two formats, old field names, and rejected files."""

from __future__ import annotations

import bz2
import gzip
import json
from datetime import datetime
from pathlib import Path

import pytest

from crawler.routing import as2org
from crawler.routing import stage as as_data
from crawler.routing.as2org import Organisation
from firstflight.errors import InputError
from store import open_store
from store.load import loader
from tests.engines import record_rows

from .conftest import MakeRun
from .test_as_data import ROUTES

TEXT = """\
# name: AS Org
# some more comments
# format:org_id|changed|org_name|country|source
CLOUD14-ARIN|20170321|Cloudflare, Inc.|US|ARIN
ORG-DTAG1-RIPE|20240424|Deutsche Telekom "T" & Söhne AG|DE|RIPE
EMPTY-ARIN||||ARIN
# format:aut|changed|aut_name|org_id|opaque_id|source
13335|20170217|CLOUDFLARENET|CLOUD14-ARIN|e0a0f6b0_ARIN|ARIN
3320|20240425|DTAG|ORG-DTAG1-RIPE||RIPE
7|20000101||EMPTY-ARIN||ARIN
8|20000101|LOST|GONE-ARIN||ARIN
"""
HOLDERS = {
    7: Organisation(None, "EMPTY-ARIN", None, None, "ARIN"),
    8: Organisation("LOST", "GONE-ARIN", None, None, "ARIN"),
    3320: Organisation("DTAG", "ORG-DTAG1-RIPE", 'Deutsche Telekom "T" & Söhne AG', "DE", "RIPE"),
    13335: Organisation("CLOUDFLARENET", "CLOUD14-ARIN", "Cloudflare, Inc.", "US", "ARIN"),
}


def json_lines() -> str:
    """Return the same data in the JSON lines format, with organisations last."""
    rows: list[dict[str, str]] = []
    for asn, holder in HOLDERS.items():
        rows.append({"asn": str(asn), "changed": "20170217", "name": holder.as_name or "", "opaqueId": "x"})
        rows[-1] |= {
            "organizationId": holder.org_id or "",
            "source": "RIPE" if asn == 3320 else "ARIN",
            "type": "ASN",
        }
    for holder in HOLDERS.values():
        if holder.org_id != "GONE-ARIN":
            rows.append(
                {"organizationId": holder.org_id or "", "changed": "20170321", "type": "Organization"}
            )
            rows[-1] |= {"name": holder.organisation or "", "country": holder.country or "", "source": "ARIN"}
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.mark.parametrize("gzipped", [False, True])
@pytest.mark.parametrize("layout", ["txt", "jsonl"])
def test_both_layouts(tmp_path: Path, layout: str, gzipped: bool) -> None:
    content = (TEXT if layout == "txt" else json_lines()).encode()
    path = tmp_path / f"20240701.as-org2info.{layout}"
    path.write_bytes(gzip.compress(content) if gzipped else content)
    found = as2org.read(path)
    assert found == HOLDERS
    assert list(found) == sorted(found)


def test_layout_of_the_first_years(tmp_path: Path) -> None:
    (tmp_path / "old").write_text(
        "# format: aut|changed|name|org_id|source\n1|20120224|LVLT-1|LVLT-ARIN|ARIN\n"
        "# format: org_id|changed|name|country|source\nLVLT-ARIN|20120130|Level 3|US|ARIN\n"
    )
    assert as2org.read(tmp_path / "old") == {1: Organisation("LVLT-1", "LVLT-ARIN", "Level 3", "US", "ARIN")}


def test_a_name_that_no_record_file_can_hold(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"type":"ASN","asn":"1","name":"a\\ud800b"}\n')
    assert as2org.read(tmp_path / "x.jsonl") == {1: Organisation("a?b", None, None, None, None)}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "names no AS"),
        (b"<html>not found</html>", "line 1: 1 fields between bars, expected 0"),
        (TEXT.encode()[:-10], "line 11: 4 fields between bars, expected 6"),
        (TEXT.replace("13335|", "AS13335|").encode(), "line 8: 'AS13335' is not an AS number"),
        (b'{"asn": "1"\n', "line 1 is not JSON"),
        (gzip.compress(TEXT.encode())[:-20], "is no whole gzip file"),
    ],
)
def test_incomplete_files_are_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "20240701.as-org2info.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=says) as caught:
        as2org.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        as2org.read(tmp_path / "none")


def test_stage_to_sql(tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage's records are loaded, and any address can be queried."""
    monkeypatch.setenv("FIRSTFLIGHT_STORE", f"chdb:{tmp_path / 'store'}")
    (tmp_path / "rib.bz2").write_bytes(bz2.compress(ROUTES))
    (tmp_path / "20240701.as-org2info.txt").write_text(TEXT)
    wanted = 'rib = "file"\nfiles = ["rib.bz2"]\nas2org = "file"\nas2org_file = "20240701.as-org2info.txt"'
    run = make_run(as_data=wanted)
    as_data.stage(run)
    report = run.report("as_data")
    assert report is not None
    assert (report.counts["as_orgs"], report.counts["as_orgs_unknown"]) == (4, 2)
    prefixes = record_rows.read(run.layout.as_data / "as_prefix.parquet")
    at = prefixes[0]["table_at"]
    assert [(row["prefix"], row["asn"], row["cdn"]) for row in prefixes] == [
        ("198.18.16.0/20", 13335, "Cloudflare"),
        ("198.18.32.0/20", 16509, "Amazon"),
        ("198.18.48.0/20", 3320, "Others"),
    ]
    about = json.loads((run.layout.as_data / "as_data.json").read_text())
    assert about["as2org"]["file"] == "20240701.as-org2info.txt"
    assert int(datetime.fromisoformat(about["dumped_at"]).timestamp()) * 10**9 == at

    results = loader.load_run_folder(run)
    assert {r.kind: r.in_store for r in results if isinstance(r, loader.Loaded)} == {
        "as_prefix": 3,
        "as_org": 4,
    }
    question = "SELECT ip, address_info(ip, now()) AS v FROM (SELECT arrayJoin({ips:Array(String)}) AS ip)"
    with open_store() as store:
        found = store.rows(question, {"ips": "['198.18.48.1','198.18.32.1','198.18.64.1']"})
    assert [tuple(row["v"].values()) for row in found] == [
        (3320, "DTAG", 'Deutsche Telekom "T" & Söhne AG', "DE", "Others"),
        (16509, None, None, None, "Amazon"),
        (None, None, None, None, None),
    ]
    # If the next run has no such file, the records of the old run are not used.
    other = make_run(as_data='rib = "file"\nfiles = ["rib.bz2"]')
    as_data.stage(other)
    assert not (other.layout.as_data / "as_org.parquet").exists()
