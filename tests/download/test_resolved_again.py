"""A crawled file's name is resolved again before its downloads, which use its address at that time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from downloader import outline
from firstflight.egress import current
from firstflight.run.outline import Known
from firstflight.run.run import Run
from firstflight.system import files
from tests.download.runs import HERE, stage
from tests.download.world import DOMAIN, NAME, SERVER_V4, DownloadWorld

OLD, LISTED = "198.18.9.3", "198.18.9.4"
BROKEN = "broken.test"
RESOLVER = f"""
[resolve]
resolver = "{SERVER_V4}"
attempts = 1
timeout_s = 1
"""
# By name: the address in the draw, the addresses now, the address in the row, status, outcome.
NAMES: dict[str, tuple[str, str | None, str | None, str, str]] = {
    f"moved.{DOMAIN}": (OLD, SERVER_V4, SERVER_V4, "NOERROR", "done"),
    f"same.{DOMAIN}": (SERVER_V4, SERVER_V4, SERVER_V4, "NOERROR", "done"),
    f"new.{DOMAIN}": ("", SERVER_V4, SERVER_V4, "NOERROR", "done"),
    f"many.{DOMAIN}": (OLD, f"{SERVER_V4} {OLD} {LISTED}", SERVER_V4, "NOERROR", "done"),
    f"gone.{DOMAIN}": (SERVER_V4, None, None, "NXDOMAIN", "no_address"),
    f"listed.{DOMAIN}": (SERVER_V4, LISTED, LISTED, "NOERROR", "blocked"),
    f"www.{BROKEN}": (SERVER_V4, None, SERVER_V4, "SERVFAIL", "done"),
}


def crawled(run: Run) -> None:
    """Write the records of a crawl and of a resolution that found the addresses in the draw."""
    found = [
        {"domain": name, "url": f"https://{NAME if BROKEN in name else name}/small", "outcome": "found"}
        for name in NAMES
    ]
    answers = [
        {"domain": name, "qtype": "A", "status": "NOERROR", "answer_rank": 0, "address": drawn}
        for name, (drawn, *_) in NAMES.items()
        if drawn
    ]
    for path, rows in (
        (run.layout.crawl("download_file"), found),
        (run.layout.dns_answer(run.key("here", 1)), answers),
    ):
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), path)


def rows_of(run: Run) -> dict[str, dict[str, dict[str, Any]]]:
    """Return a run's rows by name and set."""
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in NAMES}
    for row in pq.read_table(run.layout.downloads(run.key("here", 1))).to_pylist():
        found[row["domain"]][row["set"]] = row
    return found


def test_downloads_use_the_address_of_the_moment(
    world: DownloadWorld, run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "optout").write_text(f"{LISTED}\n")
    monkeypatch.setenv(current.VARIABLE, str(tmp_path / "optout"))
    made = run(RESOLVER, files="")
    crawled(made)
    with world.names({name: now for name, (_, now, *_) in NAMES.items() if now}, [BROKEN]):
        stage(world, made)
    for name, of_name in rows_of(made).items():
        drawn, _, ip, status, outcome = NAMES[name]
        assert set(of_name) == {"warmup", "bl", "all14"}
        for row in of_name.values():
            found = (row["drawn_ip"], row["ip"], row["resolved_status"], row["outcome"])
            assert found == (drawn or None, ip, status, outcome), name
            assert row["asn"] == (None if ip is None else 13335), "of the address in use"
            assert row["started_at"] is None or row["resolved_at"] < row["started_at"]
        assert len({row["resolved_at"] for row in of_name.values()}) == 1, "once for all sets"
    report = made.report("download", made.key("here", 1))
    assert report is not None
    # A name without an address has moved too, and so has one that had none.
    assert (report.facts["resolved_again"], report.facts["moved"]) == (7, 5)
    assert [line for line in report.warnings if "resolved again" in line] == [
        "1 names could not be resolved again: their downloads used the address in the draw"
    ]
    queries = files.read_json(made.layout.downloads(made.key("here", 1)).with_name("resolve.json"))
    planned = outline.outline(made.settings, Known(names=1), made.settings.vantage[0])
    assert planned.count == "at most 1 files to download, each after at most 4 DNS queries"
    assert queries["sent"]["datagrams"] <= 4


def test_the_address_in_the_draw_stays(world: DownloadWorld, run: Callable[..., Run]) -> None:
    """Without `resolve_again`, and if no resolver answers."""
    for settings, status in (("resolve_again = false", None), (RESOLVER, "TIMEOUT")):
        made = run(settings, files="")
        crawled(made)
        # Two names suffice.
        path = made.layout.crawl("download_file")
        pq.write_table(pq.read_table(path).slice(1, 2), path)
        stage(world, made)
        of_name = {name: rows for name, rows in rows_of(made).items() if rows}
        found = {
            name: {(row["drawn_ip"], row["ip"], row["resolved_status"]) for row in rows.values()}
            for name, rows in of_name.items()
        }
        assert found == {
            f"same.{DOMAIN}": {(SERVER_V4, SERVER_V4, status)},
            f"new.{DOMAIN}": {(None, None, status)},
        }
        outcomes = {name: rows["bl"]["outcome"] for name, rows in of_name.items()}
        assert outcomes == {f"same.{DOMAIN}": "done", f"new.{DOMAIN}": "no_address"}
        resolved_at = {row["resolved_at"] is None for rows in of_name.values() for row in rows.values()}
        assert resolved_at == {status is None}


def test_a_resolver_on_a_list_is_not_queried(
    world: DownloadWorld, run: Callable[..., Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "optout").write_text("198.18.9.53\n")
    monkeypatch.setenv(current.VARIABLE, str(tmp_path / "optout"))
    made = run('[resolve]\nresolver = "198.18.9.53"', files="")
    crawled(made)
    done = world.run("stage", "download", "--run", made.id, *HERE)
    assert (done.returncode, done.stderr) == (
        2,
        f"firstflight: moved.{DOMAIN} is not resolved: the server 198.18.9.53 may not be contacted: address "
        "on the opt-out list; correct [resolve], or set download.resolve_again = false\n",
    )
