"""The as_data stage in a run: table, CDN map, cache, rejected inputs, and the lookup for other stages."""

from __future__ import annotations

import bz2
import json
from pathlib import Path

import pytest

from crawler.routing import cdn_map, rib
from crawler.routing import stage as as_data
from crawler.routing.cdn_map import TABLE_5
from firstflight.as_map import AddressOrigin, Mapper
from firstflight.cdn import rules as cdn_rules
from firstflight.errors import InputError, UsageError
from firstflight.run.run import Run
from firstflight.system import files

from .conftest import RIB_4, MakeRun
from .test_rib import route, sequence, whole_records

ROUTES = (
    route(b"\xc6\x12\x10", 20, sequence(64500, 13335))
    + route(b"\xc6\x12\x20", 20, sequence(64500, 16509))
    + route(b"\xc6\x12\x30", 20, sequence(64500, 3320))
)


def with_routes(tmp_path: Path, make_run: MakeRun, more: str = "") -> Run:
    (tmp_path / "rib.bz2").write_bytes(bz2.compress(ROUTES))
    return make_run(as_data=f'rib = "file"\nfiles = ["rib.bz2"]\n{more}')


def test_origin_and_cdn(tmp_path: Path, make_run: MakeRun) -> None:
    run = with_routes(tmp_path, make_run)
    as_data.stage(run)
    mapper = Mapper(run.layout.as_data)
    assert mapper.origin("198.18.16.1") == AddressOrigin(13335, "Cloudflare")
    assert mapper.origin("198.18.47.255") == AddressOrigin(16509, "Amazon")
    assert mapper.origin("198.18.48.9") == AddressOrigin(3320, "Others")
    assert mapper.origin("198.18.64.1") == AddressOrigin(None, None)
    assert mapper.origin("2001:db8::1") == AddressOrigin(None, None)
    with pytest.raises(ValueError):
        mapper.origin("nonsense")
    about = json.loads((run.layout.as_data / "as_data.json").read_text())
    assert (about["prefixes_v4"], about["prefixes_v6"]) == (3, 0)
    assert about["sources"][0]["file"] == "rib.bz2"
    assert about["cdn_map_sha256"] == mapper.cdn_map_sha256
    report = run.report("as_data")
    assert report is not None
    assert report.warnings == ["the routing table has no IPv6 prefix; asn and cdn will be null there"]


def test_table_5_of_the_paper() -> None:
    assert cdn_map.load(None, []) == {
        16625: "Akamai",
        20940: "Akamai",
        14618: "Amazon",
        16509: "Amazon",
        13335: "Cloudflare",
        209242: "Cloudflare",
        54113: "Fastly",
        15169: "Google",
        396982: "Google",
        32934: "Meta",
        8075: "Microsoft",
    }


def test_additions_count_and_are_stored_with_the_run(tmp_path: Path, make_run: MakeRun) -> None:
    (tmp_path / "more.toml").write_text('[cdn]\n"Deutsche \\"T\\"" = [3320]\nGoogle = [19527]\n')
    run = with_routes(tmp_path, make_run, 'cdn_map_extra = ["more.toml"]')
    as_data.stage(run)
    assert Mapper(run.layout.as_data).origin("198.18.48.9") == AddressOrigin(3320, 'Deutsche "T"')
    stored = cdn_map.load(run.layout.as_data / "cdn_map.toml", [])
    assert stored == cdn_map.load(TABLE_5, [tmp_path / "more.toml"])
    assert stored[19527] == "Google"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[cdn]\nMine = [13335]\n", r"AS13335 is claimed by Mine and by Cloudflare"),
        ("[cdn]\nA = [7]\nB = [7]\n", r"AS7 is claimed by B and by A"),
        ("[cdn]\nOthers = [7]\n", r"'Others' cannot be the name of a CDN"),
        ("[cdn]\nA = 7\n", r"A: expected a list of AS numbers"),
        ('[cdn]\nA = ["AS7"]\n', r"A: expected a list of AS numbers"),
        ("[cdn]\nA = [0]\n", r"A: expected a list of AS numbers"),
        ("A = [7]\n", r"expected one table \[cdn\]"),
        ("[cdn\n", r"is not TOML"),
    ],
)
def test_maps_that_do_not_hold_together(tmp_path: Path, make_run: MakeRun, text: str, says: str) -> None:
    (tmp_path / "more.toml").write_text(text)
    run = with_routes(tmp_path, make_run, 'cdn_map_extra = ["more.toml"]')
    with pytest.raises(UsageError, match=says):
        as_data.stage(run)
    assert not (run.layout.as_data / "rib.pyasn").exists()


def test_a_table_is_converted_once(
    tmp_path: Path, make_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = with_routes(tmp_path, make_run)
    as_data.stage(first)

    def never(*_: object) -> None:
        raise AssertionError("the table must not be read again")

    monkeypatch.setattr(rib, "convert", never)
    second = with_routes(tmp_path, make_run)
    as_data.stage(second)
    assert (second.layout.as_data / "rib.pyasn").read_bytes() == (
        first.layout.as_data / "rib.pyasn"
    ).read_bytes()
    counts = [
        json.loads((run.layout.as_data / "as_data.json").read_text())["counts"] for run in (first, second)
    ]
    assert counts[0] == counts[1]


def test_a_real_table_that_is_cut_leaves_nothing(tmp_path: Path, make_run: MakeRun) -> None:
    (tmp_path / "whole.bz2").write_bytes(bz2.compress(whole_records(RIB_4)[:200_000], 1))
    run = make_run(as_data=f'rib = "file"\nfiles = ["{RIB_4}"]')
    with pytest.raises(InputError, match="is cut short"):
        as_data.stage(run)
    assert not (run.layout.as_data / "rib.pyasn").exists()
    assert not list((tmp_path / "cache").rglob("*.pyasn"))
    with pytest.raises(InputError, match="run the as_data stage of this run first"):
        Mapper(run.layout.as_data)


def test_a_broken_database_is_reported(tmp_path: Path, make_run: MakeRun) -> None:
    run = with_routes(tmp_path, make_run)
    as_data.stage(run)
    (run.layout.as_data / "rib.pyasn").write_text("10.0.0.0/8\tnot a number\nnonsense\n")
    with pytest.raises(InputError, match="is not a pyasn database"):
        Mapper(run.layout.as_data)


def test_rules_of_cdns_are_stored_with_the_run(tmp_path: Path, make_run: MakeRun) -> None:
    text = '[[rule]]\ncdn = "Mine"\nsource = "x"\ncname = ["mine.example"]\n'
    for name in ("mine.toml", "more.toml"):
        (tmp_path / name).write_text(text.replace("mine.", f"{name[:4]}."))
    run = with_routes(tmp_path, make_run, 'cdn_rules = "mine.toml"\ncdn_rules_extra = ["more.toml"]')
    as_data.stage(run)
    stored = cdn_rules.in_force(run.layout.as_data)
    assert stored == run.layout.as_data / "cdn_rules.toml"
    assert [rule.values for rule in cdn_rules.load(stored)] == [("more.example",), ("mine.example",)]
    about = json.loads((run.layout.as_data / "as_data.json").read_text())
    assert [source["file"] for source in about["cdn_rules_sources"]] == ["more.toml", "mine.toml"]
    assert about["cdn_rules_sha256"] == files.sha256_of(stored)


def test_rules_that_are_wrong_are_refused_before_anything_is_written(
    tmp_path: Path, make_run: MakeRun
) -> None:
    (tmp_path / "mine.toml").write_text("[[rule]]\n")
    run = with_routes(tmp_path, make_run, 'cdn_rules = "mine.toml"')
    with pytest.raises(UsageError, match=r"mine.toml, rule 1: needs one of cname"):
        as_data.stage(run)
    assert not (run.layout.as_data / "rib.pyasn").exists()
