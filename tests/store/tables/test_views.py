"""Table 1, as in the paper and by outcome, with handmade rows for every rule in definitions.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports import query
from reports.tables import table1
from store import Store, open_store
from store.load import loader
from store.load.record_file import RecordFile
from tests.store.rows import DAY_NS, RUN, probe, write

pytestmark = pytest.mark.usefixtures("emptied_tables")


def ask(tmp_path: Path, rows: list[dict[str, Any]], query: str) -> list[dict[str, Any]]:
    """Load `rows` and query them."""
    loader.load_files([write(tmp_path / "quic_probe.parquet", rows)])
    with open_store() as store:
        return store.rows(query)


def cell(repetition: int, vantage: str, iack: int, coalesced: int, **changes: Any) -> list[dict[str, Any]]:
    """Return rows for a vantage point and repetition, with the given numbers of names per outcome."""
    outcomes = ["iack"] * iack + ["coalesced"] * coalesced
    return [
        probe(outcome, domain=f"{n}.example", vantage=vantage, repetition=repetition, **changes)
        for n, outcome in enumerate(outcomes)
    ]


def test_table1_takes_the_highest_share_and_the_widest_difference(tmp_path: Path) -> None:
    rows = (
        cell(1, "hamburg", 4, 6)
        + cell(2, "hamburg", 5, 5)
        + cell(1, "hong_kong", 2, 6)
        + cell(2, "hong_kong", 3, 9)
    )
    assert ask(tmp_path, rows, "SELECT * FROM table1") == [
        {"run": RUN, "cdn": "Cloudflare", "domains": 12, "iack_share_max": 0.5, "variation": 0.25}
    ]


def test_iack_by_cdn_has_one_row_per_repetition_vantage_point_and_cdn(tmp_path: Path) -> None:
    rows = [
        *cell(1, "hamburg", 1, 3),
        *cell(2, "hamburg", 1, 0, sent_at=DAY_NS + 86_400 * 10**9),
        probe("coalesced", cdn="Others", asn=64500),
    ]
    found = ask(tmp_path, rows, "SELECT * EXCEPT run FROM iack_by_cdn")
    assert found == [
        {"repetition": 1, "day": "2026-11-20", "vantage": "hamburg", "cdn": "Cloudflare"}
        | {"domains": 4, "iack_domains": 1, "iack_share": 0.25, "counted": 4, "instant": 1},
        {"repetition": 1, "day": "2026-11-20", "vantage": "hamburg", "cdn": "Others"}
        | {"domains": 1, "iack_domains": 0, "iack_share": 0, "counted": 1, "instant": 0},
        {"repetition": 2, "day": "2026-11-21", "vantage": "hamburg", "cdn": "Cloudflare"}
        | {"domains": 1, "iack_domains": 1, "iack_share": 1, "counted": 1, "instant": 1},
    ]


def test_day_of_a_repetition_that_passes_midnight_is_its_first(tmp_path: Path) -> None:
    rows = [probe(domain="a.example"), probe(domain="b.example", sent_at=DAY_NS + 20 * 3600 * 10**9)]
    found = ask(tmp_path, rows, "SELECT toString(day) AS day, domains FROM iack_by_cdn")
    assert found == [{"day": "2026-11-20", "domains": 2}]


@pytest.mark.parametrize(
    ("row", "counted", "iack"),
    [
        (probe("iack"), 1, 1),
        (probe("coalesced"), 1, 0),
        # Two datagrams in either order, or in the same microsecond.
        (probe("sh_first"), 1, 1),
        (probe("iack", ack_us=20_000, sh_us=20_000), 1, 1),
        # An answer to the second Initial counts for shares; only delay distributions exclude it.
        (probe("iack", attempts=2), 1, 1),
        (probe("sh_first", ack_us=None, ack_delay_raw=None, first_ack_range=None), 0, 0),
        (probe("iack", first_ack_range=1), 0, 0),
        (probe("coalesced", first_ack_range=None), 0, 0),
        (probe("ack_only", ack_us=20_000, first_ack_range=0), 0, 0),
        (probe("closed", ack_us=20_000, first_ack_range=0), 0, 0),
        (probe("timeout"), 0, 0),
        (probe("blocked"), 0, 0),
    ],
    ids=lambda value: f"{value['outcome']}" if isinstance(value, dict) else None,
)
def test_probes_are_counted_as_in_the_paper(
    tmp_path: Path, row: dict[str, Any], counted: int, iack: int
) -> None:
    found = ask(tmp_path, [row], "SELECT domains, iack_domains, iack_share FROM iack_by_cdn")
    share = iack / counted if counted else None
    assert found == [{"domains": counted, "iack_domains": iack, "iack_share": share}]


@pytest.mark.parametrize(
    "changes",
    [
        {"address_rank": 1},
        {"address_rank": None},
        {"ip": "2001:db8:48::1"},
        {"cdn": None, "asn": None},
    ],
)
def test_other_addresses_are_left_out(tmp_path: Path, changes: dict[str, Any]) -> None:
    rows = [probe("coalesced"), probe("iack", domain="b.example", **changes)]
    assert ask(tmp_path, rows, "SELECT domains, iack_share_max AS s FROM table1") == [{"domains": 1, "s": 0}]
    with open_store() as store:
        assert store.rows("SELECT probes FROM table1_strict") == [{"probes": 1}]


def test_a_name_probed_again_is_one_name_and_all_its_probes(tmp_path: Path) -> None:
    rows = [probe("iack"), probe("iack", ip="198.18.48.2"), probe("coalesced", domain="b.example")]
    rows += [probe("coalesced", port=8443)]
    assert ask(tmp_path, rows, "SELECT * EXCEPT (run, repetition, day, vantage, cdn) FROM iack_by_cdn") == [
        {"domains": 2, "iack_domains": 1, "iack_share": 0.5, "counted": 4, "instant": 2}
    ]
    with open_store() as store:
        table = table1.collect(store, RUN)
        (share,) = query.rows(store, "iack_share")
        (view,) = store.rows("SELECT domains, iack_share_max FROM table1")
    (row,) = table.rows
    assert (row.domains, row.instant, row.counted, row.iack_share_max) == (2, 2, 4, 0.5)
    assert (share["names"], share["instant"], share["counted"], share["iack_share"]) == (2, 2, 4, 0.5)
    assert view == {"domains": 2, "iack_share_max": 0.5}
    # A resample has one name twice or both names once, with shares of 0, 2/4 and 2/3.
    assert row.iack_share_max_interval is not None
    assert row.iack_share_max_interval == pytest.approx((0.0, 2 / 3))


def test_a_delay_is_defined_for_the_first_instant_acks_that_count(tmp_path: Path) -> None:
    rows = [
        probe("iack", domain="first.example"),
        probe("iack", domain="again.example", attempts=2),
        probe("coalesced", domain="together.example"),
        probe("sh_first", domain="late.example"),
        probe("iack", domain="range.example", first_ack_range=3),
        probe("iack", domain="second.example", address_rank=1),
        probe("iack", domain="none.example", cdn=None, asn=None),
        probe("timeout", domain="silent.example"),
    ]
    found = ask(tmp_path, rows, "SELECT domain, instant, delay_us FROM table1_probe ORDER BY domain")
    assert [tuple(row.values()) for row in found] == [
        ("again.example", True, None),
        ("first.example", True, 3_200),
        ("late.example", True, None),
        ("together.example", False, None),
    ]
    with open_store() as store:
        (counted,) = store.rows("SELECT sum(counted) AS n, sum(instant) AS instant FROM iack_by_cdn")
    assert (counted["n"], counted["instant"]) == (4, 3)


def test_others_comes_last_and_a_silent_cdn_has_no_share(tmp_path: Path) -> None:
    rows = [
        probe("iack", cdn="Others"),
        probe("timeout", cdn="Meta", domain="b.example"),
        probe("coalesced", cdn="Akamai", domain="c.example"),
    ]
    assert ask(tmp_path, rows, "SELECT * FROM table1") == [
        {"run": RUN, "cdn": "Akamai", "domains": 1, "iack_share_max": 0, "variation": 0},
        {"run": RUN, "cdn": "Meta", "domains": 0, "iack_share_max": None, "variation": None},
        {"run": RUN, "cdn": "Others", "domains": 1, "iack_share_max": 1, "variation": 0},
    ]


def test_strict_counts_by_outcome_and_shows_what_it_leaves_out(tmp_path: Path) -> None:
    outcomes = ["iack", "iack", "coalesced", "sh_first", "closed", "ack_only", "retry", "version_negotiation"]
    outcomes += ["refused", "malformed", "timeout", "timeout", "send_failed", "blocked"]
    rows = [probe(outcome, domain=f"{n}.example") for n, outcome in enumerate(outcomes)]
    rows.append(probe("iack", domain="range.example", first_ack_range=3))  # not counted as in the paper
    assert ask(tmp_path, rows, "SELECT * FROM table1_strict") == [
        {"run": RUN, "cdn": "Cloudflare", "domains": 5, "iack_share_max": 0.6, "variation": 0, "probes": 15}
        | {"iack": 3, "coalesced": 1, "sh_first": 1, "closed": 1, "ack_only": 1, "retry": 1}
        | {
            "version_negotiation": 1,
            "refused": 1,
            "malformed": 1,
            "timeout": 2,
            "send_failed": 1,
            "blocked": 1,
        }
    ]
    with open_store() as store:
        assert store.rows("SELECT domains, iack_share_max AS s FROM table1") == [{"domains": 4, "s": 0.75}]


def test_table1_shows_the_run_that_began_last(tmp_path: Path) -> None:
    old = [
        probe("coalesced", run="old", sent_at=DAY_NS - 1),
        probe("coalesced", run="old", domain="b.example"),
    ]
    new = [probe("iack", run="new", sent_at=DAY_NS)]
    loader.load_files([write(tmp_path / "new" / "quic_probe.parquet", new)])
    assert ask(tmp_path, old, "SELECT domains, iack_share_max AS s FROM table1") == [{"domains": 1, "s": 1}]
    with open_store() as store:
        assert store.rows("SELECT run, domains FROM table1_by_run") == [
            {"run": "new", "domains": 1},
            {"run": "old", "domains": 2},
        ]


def _everything(store: Store) -> dict[str, list[dict[str, Any]]]:
    views = ("newest_run", "newest_runs", "iack_by_cdn", "table1", "table1_strict", "probes_by_day")
    answers = {view: store.rows(f"SELECT * FROM {view}") for view in views}
    for name in ("iack_share", "first_iack"):
        asked = query.load(name)
        answers[name] = store.rows(asked.rendered({}, store.dialect))
    return answers


def test_rows_that_another_program_inserted_count_like_loaded_ones(tmp_path: Path) -> None:
    rows = [*cell(1, "hamburg", 4, 6), *cell(2, "hamburg", 1, 2), probe("timeout", cdn="Others", asn=64500)]
    path = write(tmp_path / "quic_probe.parquet", rows)
    opened = RecordFile(path, {"source_file": "by hand"})
    with open_store(write=True) as store:
        for batch in opened.batches():
            store.insert("quic_probe", opened.stored(batch))
        inserted = _everything(store)
    loader.load_files([path])
    with open_store() as store:
        assert store.rows("SELECT * FROM unit_not_rolled_up") == []
        assert store.rows("SELECT sum(probes) AS n FROM probe_day")[0]["n"] == len(rows)
        assert inserted == _everything(store)
    assert inserted["table1"][0] == {
        "run": RUN,
        "cdn": "Cloudflare",
        "domains": 10,
        "iack_share_max": 0.4,
        "variation": pytest.approx(0.4 - 1 / 3),
    }


def test_a_row_added_to_a_loaded_unit_counts_and_the_next_load_of_the_unit_drops_it(tmp_path: Path) -> None:
    path = write(tmp_path / "quic_probe.parquet", cell(1, "hamburg", 1, 1) + cell(2, "hamburg", 1, 1))
    loader.load_files([path])
    added = RecordFile(
        write(tmp_path / "more" / "quic_probe.parquet", [probe("iack", domain="more.example")]),
        {"source_file": "by hand"},
    )
    with open_store(write=True) as store:
        store.insert("quic_probe", added.stored(next(added.batches())))
        assert [row["domains"] for row in store.rows("SELECT * FROM iack_by_cdn")] == [3, 2]
        assert store.rows("SELECT probes FROM table1_strict") == [{"probes": 5}]
    loader.load_files([path])
    with open_store() as store:
        assert [row["domains"] for row in store.rows("SELECT * FROM iack_by_cdn")] == [2, 2]
