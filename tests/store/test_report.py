"""`firstflight report table1` and its intervals."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from firstflight.errors import InputError
from reports.numbers import bootstrap, truth
from store.load import loader
from tests.store.rows import RUN, probe, write

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FIRSTFLIGHT, "report", "table1", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def loaded(tables: Path, tmp_path: Path) -> None:
    """Load probes: 8 Amazon names, with instant ACKs from 4 and then 2 names; other names without answers."""
    assert tables.is_dir()
    rows = []
    for repetition, iack in ((1, 4), (2, 2)):
        for n in range(8):
            outcome = "iack" if n < iack else "coalesced"
            rows.append(probe(outcome, domain=f"{n}.example", cdn="Amazon", repetition=repetition))
        rows.append(probe("timeout", domain="t.example", cdn="Others", repetition=repetition))
    loader.load_files([write(tmp_path / "quic_probe.parquet", rows)])


@pytest.mark.usefixtures("loaded")
def test_table_prints_percent_counts_and_declared_values(tmp_path: Path) -> None:
    declared = tmp_path / "truth.jsonl"
    declared.write_text(
        '{"cdn": "Amazon", "domains": 8, "iack_share_max": 0.5, "variation": 0.25}\n'
        '{"cdn": "Meta", "domains": 20, "iack_share_max": 0, "variation": 0}\n',
        encoding="utf-8",
    )
    done = report("--truth", str(declared))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"Table 1 of run {RUN}: 1 vantage points, 2 repetitions")
    amazon, others = (
        next(line for line in lines if line.startswith(name)).split() for name in ("Amazon", "Others")
    )
    # Measured, declared and published values.
    assert amazon[:7] == ["Amazon", "8", "8", "4338", "50.0", "50.0", "41.0"]
    assert amazon[9:13] == ["4/8", "25.0", "25.0", "18.0"]
    assert others[:7] == ["Others", "0", "-", "26404", "-", "-", "21.5"]
    variation = "Largest variation at one vantage point: 25.0 % (Amazon; published: 8.3 % (Amazon))."
    assert variation in lines
    assert "2000 resamples, seed 1" in done.stdout
    assert lines[-1] == "Declared and not in the store: Meta."
    assert "\x1b" not in done.stdout


@pytest.mark.usefixtures("loaded")
def test_json_lines_and_csv_give_shares() -> None:
    amazon, others = map(json.loads, report("--format", "jsonl").stdout.splitlines())
    assert (amazon["run"], amazon["cdn"], amazon["domains"]) == (RUN, "Amazon", 8)
    assert (amazon["iack_share_max"], amazon["variation"], amazon["probes"]) == (0.5, 0.25, 16)
    low, high = amazon["iack_share_max_interval"]
    assert 0 <= low < 0.5 < high <= 1
    assert (others["iack_share_max"], others["iack_share_max_interval"]) == (None, None)
    assert (others["excluded"], others["probes"]) == (2, 2)
    table = list(csv.DictReader(report("--format", "csv").stdout.splitlines()))
    assert float(table[0]["iack_share_max_interval_low"]) == low
    assert table[1]["iack_share_max"] == ""
    assert report("--format", "jsonl").stdout == report("--format", "jsonl").stdout


@pytest.mark.usefixtures("loaded")
def test_published_values_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    (amazon, _) = map(json.loads, report("--format", "jsonl").stdout.splitlines())
    assert (amazon["published_iack_share_max"], amazon["variation_one_vantage"]) == (0.41, 0.25)
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "hide")
    hidden = report().stdout
    assert "publ" not in hidden + report("--format", "csv").stdout
    assert "Largest variation at one vantage point: 25.0 % (Amazon)." in hidden


@pytest.mark.usefixtures("loaded")
def test_unknown_run_and_broken_truth_are_one_sentence(tmp_path: Path) -> None:
    done = report("--run", "nope")
    assert done.returncode == 2
    assert "has no probe of run nope" in done.stderr
    broken = tmp_path / "truth.jsonl"
    broken.write_text('{"cdn": "Amazon", "domains": "many"}\n', encoding="utf-8")
    done = report("--truth", str(broken))
    assert done.returncode == 3
    assert f"{broken}, line 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_truth_in_csv(tmp_path: Path) -> None:
    path = tmp_path / "truth.csv"
    path.write_text("cdn,domains,iack_share_max,variation,more\nMeta,20,0.0,,x\n", encoding="utf-8")
    assert truth.read(path) == {"Meta": truth.Declared("Meta", 20, 0.0, None)}
    with pytest.raises(InputError, match="cannot read"):
        truth.read(tmp_path / "absent.csv")


def test_interval_covers_the_true_share_about_as_often_as_it_says() -> None:
    """For 200 samples of 150 names, 88 to 100 % of the 95 % intervals contain the true share of 0.3."""
    rng = np.random.default_rng(7)
    covering = 0
    for _ in range(200):
        hits = int(rng.binomial(150, 0.3))
        cell = ("hamburg", 1)
        found = [
            bootstrap.NamePattern(hits, {cell: (1, 1)}),
            bootstrap.NamePattern(150 - hits, {cell: (0, 1)}),
        ]
        bounds = bootstrap.intervals(found, resamples=400).share_max
        assert bounds is not None
        covering += bounds[0] <= 0.3 <= bounds[1]
    assert 0.88 <= covering / 200 <= 1


def test_resampling_patterns_is_resampling_names() -> None:
    """The bounds equal the bounds of resampling single names, within the sampling noise."""
    cells = [("hamburg", 1), ("hong_kong", 1)]
    kinds = [((1, 1), (1, 1)), ((1, 1), (0, 1)), ((0, 1), (0, 1)), ((0, 0), (0, 1))]
    counts = [20, 10, 50, 5]
    patterns = [
        bootstrap.NamePattern(n, dict(zip(cells, kind, strict=True)))
        for n, kind in zip(counts, kinds, strict=True)
    ]
    fast = bootstrap.intervals(patterns, resamples=4000)
    names = np.array([kind for n, kind in zip(counts, kinds, strict=True) for _ in range(n)])
    rng = np.random.default_rng(3)
    drawn = names[rng.integers(0, len(names), (4000, len(names)))].sum(axis=1)
    shares = drawn[:, :, 0] / drawn[:, :, 1]
    assert fast.share_max is not None
    assert fast.variation is not None
    assert fast.share_max == pytest.approx(np.quantile(shares.max(axis=1), [0.025, 0.975]), abs=0.02)
    spread = shares.max(axis=1) - shares.min(axis=1)
    assert fast.variation == pytest.approx(np.quantile(spread, [0.025, 0.975]), abs=0.02)
