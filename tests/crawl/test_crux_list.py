"""CrUX lists: origins to names, buckets instead of ranks, and the join of both kinds of list."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crawler import https
from crawler.lists import crux_list, stage
from crawler.lists.distinct_targets import DistinctTargets, Target
from crawler.lists.target_list import TargetList, joined
from firstflight.errors import InputError, UsageError

from .conftest import MakeRun

LIST = """\
origin,rank
https://www.example.com,1000
http://example.com:8080,1000
http://www.example.com,5000
https://xn--bcher-kva.example,5000
https://192.0.2.1,5000
https://UPPER.example,10000
ftp://ftp.example,10000
https://example.org/path,10000
https://far.example,1000000
nonsense
https://no-rank.example,
https://zero.example,0
"""


def cached(tmp_path: Path, text: str, month: str = "202408") -> Path:
    """Return a folder that contains the month's list, so that no download is necessary."""
    folder = tmp_path / "cache" / "crux"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{month}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return folder


def read(tmp_path: Path, text: str = LIST, top: int | None = None) -> TargetList:
    return crux_list.read("202408", top, "https://nowhere.test", cached(tmp_path, text), https.Session(None))


def test_a_file_of_broken_lines_is_no_list(tmp_path: Path) -> None:
    """A compressed file with a megabyte can expand to about a hundred million broken lines."""
    most = "origin,rank\n" + "x\n" * crux_list.MOST_REJECTED
    assert len(read(tmp_path, most).rejected) == crux_list.MOST_REJECTED
    with pytest.raises(InputError, match=r"more than 100,000 lines are not .*; remove it to fetch it again"):
        read(tmp_path, most + "x\n")


def test_names_take_the_smallest_bucket_of_their_origins(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found.targets == [
        Target(None, "www.example.com", 1_000),
        Target(None, "example.com", 1_000),
        Target(None, "xn--bcher-kva.example", 5_000),
        Target(None, "upper.example", 10_000),
        Target(None, "far.example", 1_000_000),
    ]
    assert [line for line, _ in found.rejected] == [6, 8, 9, 11, 12, 13]
    assert found.duplicates == 1
    assert found.lines == len(found.targets) + len(found.rejected) + found.duplicates
    assert found.list_id.startswith("crux:202408:") and len(found.list_id) == len("crux:202408:") + 12
    assert read(tmp_path, LIST + "https://more.example,1000000\n").list_id != found.list_id


def test_top_takes_complete_buckets(tmp_path: Path) -> None:
    assert [t.domain for t in read(tmp_path, top=5_000).targets] == [
        "www.example.com",
        "example.com",
        "xn--bcher-kva.example",
    ]
    assert len(read(tmp_path, top=4_999).targets) == 2
    with pytest.raises(
        UsageError, match=r"top = 999: CrUX gives no ranks but buckets, the smallest of crux:.* is 1000"
    ):
        read(tmp_path, top=999)


@pytest.mark.parametrize("text", ["", "rank,origin\n1000,https://a.example\n", "<html>404</html>"])
def test_an_invalid_list_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="is no CrUX list"):
        read(tmp_path, text)


def test_a_list_that_is_cut_is_refused(tmp_path: Path) -> None:
    folder = cached(tmp_path, LIST)
    path = folder / "202408.csv.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(InputError, match="is no whole gzip file"):
        crux_list.read("202408", None, "https://nowhere.test", folder, https.Session(None))


def test_joined_lists_keep_rank_and_bucket(tmp_path: Path) -> None:
    listed = DistinctTargets([Target(1, "example.com"), Target(2, "only.example")])
    tranco = TargetList("X6QPN", listed, lines=12)
    both = joined(tranco, read(tmp_path, top=5_000))
    assert both.targets == [
        Target(1, "example.com", 1_000),
        Target(2, "only.example", None),
        Target(None, "www.example.com", 1_000),
        Target(None, "xn--bcher-kva.example", 5_000),
    ]
    assert both.list_id.startswith("X6QPN+crux:202408:")
    assert both.lines == 12 + 8


def test_stage_writes_buckets(tmp_path: Path, make_run: MakeRun) -> None:
    cached(tmp_path, LIST)
    run = make_run(
        targets='source = "crux"\ncrux_month = "202408"\ncrux_cache_dir = "cache/crux"\ntop = 10_000'
    )
    stage.stage(run)
    rows = pq.read_table(run.layout.targets).to_pylist()
    assert [(row["rank"], row["rank_bucket"]) for row in rows] == [
        (None, n) for n in (1_000, 1_000, 5_000, 10_000)
    ]
    report = run.report("targets")
    assert report is not None and (report.rows_in, report.rows_out) == (11, 4)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ('source = "crux"', "`crux_month`"),
        ('source = "crux"\ncrux_month = "2024-08"', "should match pattern"),
        ('source = "crux"\ncrux_month = "202413"', "should match pattern"),
        ('source = "crux"\ncrux_month = "202408"\ndate = 2024-08-07', "and no `date`"),
        ('source = "tranco"\ndate = 2024-08-07\ntop = 5\ncrux_month = "202408"', "`crux_month`"),
        ('source = "tranco+crux"\ncrux_month = "202408"\ntop = 5', "needs either `date` or `list_id`"),
        ('source = "tranco+crux"\ncrux_month = "202408"\ndate = 2024-08-07', "needs `top`"),
        ('source = "crux"\ncrux_month = "202408"\ncrux_url = "http://plain.example"', "should match pattern"),
    ],
)
def test_settings_that_do_not_fit(make_run: MakeRun, wanted: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_run(targets=wanted)
    assert says in str(caught.value)
