"""The arithmetic of `python -m bench scale`."""

from __future__ import annotations

import pytest

from bench.campaigns.scale import DAYS, RESULTS, Costs, Scale, lines, table


def test_the_page_has_the_table_of_the_kept_results() -> None:
    page = (RESULTS.parent / "scale.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in page, "run: python -m bench scale, and copy the table to docs/scale.md"


COSTS = Costs(
    resolve_cpu_s=40,
    probe_cpu_s=62,
    prober_us={50: 100, 500: 40, 1000: 20, 20_000: 10},
    dissect_cpu_s=20,
    load_cpu_s=60,
    centre_cpu_s=36,
    targets=900_000,
    rows=5_000_000,
    row_bytes=100,
    file_bytes=400e6,
    capture_bytes=2e9,
    network_bytes=6e9,
    merged=45.1 / 49.4,
)


def test_costs_grow_with_names_points_and_days() -> None:
    found = dict(lines(COSTS, Scale(millions=10, vantages=4, rate=1000)))
    assert found == {
        "targets per vantage point and day": "9.00 million",
        "sending at 1,000 probes per second": "2.5 h",
        "rate for sending within 12 h": "208 per second",
        "CPU at a vantage point per day, at 1,000 probes per second": "33.3 min",
        "cores needed there to finish within a day": "0.02",
        "CPU at the centre per day": "6.0 min",
        "network for a vantage point per day": "60.0 GB",
        "record files from a vantage point per day": "4.0 GB",
        "captures from a vantage point per day": "20.0 GB",
        "rows per day, all vantage points": "200.00 million",
        "store per day": "20.0 GB",
        # 4.30 times: log10 of 161 GB / 8 MB.
        "written by merges per day, 10 parts each": "78.6 GB",
        "rows in five years": "365.20 billion",
        "store in five years": "36.5 TB",
        "the same after merges": "33.3 TB",
        "shards of 6 TB needed": "7",
    }
    assert DAYS == 1826


@pytest.mark.parametrize(
    ("rate", "prober_s"), [(10, 90), (50, 90), (499, 90), (500, 36), (1000, 18), (1999, 18), (30_000, 9)]
)
def test_the_prober_costs_what_was_measured_at_the_next_lower_rate(rate: float, prober_s: float) -> None:
    assert COSTS.vantage_cpu_s(rate) == pytest.approx(40 + 62 + 20 + 60 + prober_s)
