"""Parts of the probe stage without network access: choice of addresses, merging of segments, sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight import settings
from firstflight.as_map import CDN_MAP_FILE, RIB_FILE, Mapper
from firstflight.capture_files import CaptureRecord
from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.layout import StageKey
from firstflight.run import accounting
from firstflight.run.run import Run
from scanner.driver import choose
from scanner.driver.rows import Rows
from scanner.driver.segments import NewSegments, closed_segments, count_below
from scanner.first_answer import stage as first_answer
from scanner.handshake.stage import HandshakeStage
from scanner.records import merge
from scanner.records.last_probe import last_probes
from scanner.tcp_options.stage import TcpOptionsStage
from schemas import records
from tests import minimal

SECOND = 1_000_000_000


def answer(
    domain: str, qtype: str, address: str | None, rank: int | None, status: str = "NOERROR"
) -> dict[str, Any]:
    return {
        "domain": domain,
        "qtype": qtype,
        "status": status,
        "address": address,
        "answer_rank": rank,
        "list_id": "L",
        "rank": 5,
        "resolver": "192.0.2.53",
    }


ANSWERS = [
    answer("a.test", "A", "192.0.2.1", 0),
    answer("a.test", "A", "192.0.2.2", 1),
    answer("a.test", "AAAA", "2001:db8::1", 0),
    answer("a.test", "HTTPS", None, 0),
    answer("b.test", "A", None, None, "NXDOMAIN"),
    answer("c.test", "AAAA", "2001:db8::3", 0),
    answer("c.test", "A", None, None, "TIMEOUT"),
]


def chosen(tmp_path: Path, families: tuple[int, ...] = (4, 6), all_addresses: bool = False) -> pa.Table:
    path = tmp_path / "dns_answer.parquet"
    pq.write_table(pa.Table.from_pylist(ANSWERS), path)
    return choose.choose(path, families, all_addresses)


def pairs(plan: pa.Table) -> list[tuple[str, str]]:
    return list(zip(plan["domain"].to_pylist(), plan["ip"].to_pylist(), strict=True))


def test_the_first_address_of_each_family_is_chosen(tmp_path: Path) -> None:
    plan = chosen(tmp_path)
    assert pairs(plan) == [("a.test", "192.0.2.1"), ("a.test", "2001:db8::1"), ("c.test", "2001:db8::3")]
    assert plan["target"].to_pylist() == [2, 3, 4]
    assert plan["address_rank"].to_pylist() == [0, 0, 0]


def test_families_and_all_addresses(tmp_path: Path) -> None:
    assert pairs(chosen(tmp_path, (4,))) == [("a.test", "192.0.2.1")]
    everything = chosen(tmp_path, all_addresses=True)
    assert pairs(everything)[1] == ("a.test", "192.0.2.2")
    assert everything["address_rank"].to_pylist() == [0, 1, 0, 0]


def test_only_names_whose_https_record_promises_h3(tmp_path: Path) -> None:
    def record(domain: str, priority: int | None, alpn: list[str], status: str = "NOERROR") -> dict[str, Any]:
        row = answer(domain, "HTTPS", None, None if status != "NOERROR" else 0, status)
        return row | {"https_priority": priority, "https_alpn": alpn}

    addresses = [
        answer(f"{name}.test", qtype, address, 0)
        for name in ("h3", "h2", "alias", "failed", "none", "second")
        for qtype, address in (("A", "192.0.2.1"), ("AAAA", f"2001:db8::{ord(name[0]):x}"))
        if (name, qtype) != ("none", "AAAA")
    ]
    rows = [
        *addresses[:6],
        record("h3.test", 1, ["h2", "h3"]),
        record("h2.test", 1, ["h2", "h3-29"]),
        *addresses[6:],
        # Without parameters, whatever the row has.
        record("alias.test", 0, ["h3"]),
        record("failed.test", None, [], "SERVFAIL"),
        record("none.test", None, [], "NODATA"),
        record("second.test", 1, ["h2"]),
        record("second.test", 2, ["h3"]),
        # A name without an address is not counted.
        record("lost.test", 1, ["h2"]),
    ]
    path = tmp_path / "dns_answer.parquet"
    columns = sorted({name for row in rows for name in row})
    pq.write_table(pa.Table.from_pylist([dict.fromkeys(columns) | row for row in rows]), path)
    promised = choose.promised_h3(path)
    plan = choose.choose(path, (4,), False, promised=promised)
    assert plan["domain"].to_pylist() == ["h3.test", "second.test"]
    plan = choose.choose(path, (4, 6), False, promised=promised)
    assert plan["domain"].to_pylist() == ["h3.test", "h3.test", "second.test", "second.test"]
    assert plan["target"].to_pylist() == [2, 3, 4, 5]
    assert choose.names_left_out(path, (4, 6), promised) == 4
    assert choose.names_left_out(path, (6,), promised) == 3


@pytest.fixture
def run_without_h3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a run that needs h3 in HTTPS records (`probe.https_record`), for names without it."""
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    on = ["probe.https_record=h3", "handshake.enabled=true", "tcp_options.enabled=true"]
    run = Run.create(*settings.load(minimal.write(tmp_path), on))
    key = run.key("here", 1)
    stages = ("resolve", "handshake", "tcp_options")
    for folder in (run.layout.as_data, *(run.layout.stage(name, key) for name in stages)):
        folder.mkdir(parents=True)
    as_data(run.layout.as_data)
    rows = [row | {"https_priority": 1, "https_alpn": ["h2"]} for row in ANSWERS]
    pq.write_table(pa.Table.from_pylist(rows), run.layout.dns_answer(key))
    return run


@pytest.mark.parametrize("stopped", [False, True])
def test_the_report_counts_names_without_h3(run_without_h3: Run, stopped: bool) -> None:
    """A stopped stage does not read the DNS answers for this number."""
    run, key = run_without_h3, run_without_h3.key("here", 1)
    first_answer.stage(run, key)
    report = run.report("probe", key)
    assert report is not None and report.facts["names_without_h3"] == 2
    assert "h3 (probe.https_record)" in report.warnings[0]
    report.facts.clear()
    first_answer.ProbeStage(run, key).write(choose.PLAN.empty_table(), "", report, stopped)
    assert ("names_without_h3" in report.facts) is not stopped


def test_https_records_apply_to_stages_over_quic(run_without_h3: Run) -> None:
    key = run_without_h3.key("here", 1)
    assert HandshakeStage(run_without_h3, key).choose().num_rows == 0
    assert TcpOptionsStage(run_without_h3, key).choose().num_rows == 3


def test_duplicate_targets_are_probed_once_at_their_first_position(tmp_path: Path) -> None:
    again = {"list_id": "M", "rank": 9}
    rows = [
        answer("z.test", "A", "192.0.2.9", 0),
        answer("a.test", "A", "192.0.2.1", 0),
        answer("a.test", "A", "192.0.2.1", 1),
        answer("z.test", "A", "192.0.2.9", 0) | again,
        answer("b.test", "A", "192.0.2.1", 0) | again,
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "twice.parquet")
    plan = choose.choose(tmp_path / "twice.parquet", (4,), True)
    assert pairs(plan) == [("z.test", "192.0.2.9"), ("a.test", "192.0.2.1"), ("b.test", "192.0.2.1")]
    assert plan["target"].to_pylist() == [2, 3, 4]
    assert plan["rank"].to_pylist() == [5, 5, 9]
    assert plan["list_id"].to_pylist() == ["L", "L", "M"]
    assert plan["address_rank"].to_pylist() == [0, 0, 0]
    assert plan.schema.equals(choose.PLAN)


def test_a_broken_dns_answer_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match="run the resolve stage again"):
        choose.choose(tmp_path / "x.parquet", (4,), False)
    with pytest.raises(InputError, match="run the resolve stage again"):
        choose.promised_h3(tmp_path / "x.parquet")


def test_targets_csv_and_its_line_numbers_do_not_change_under_segments(tmp_path: Path) -> None:
    path = tmp_path / "targets.csv"
    plan = chosen(tmp_path)

    def asn_of(ip: str) -> int | None:
        return 64500 if ip == "192.0.2.1" else None

    choose.write_targets(plan, 8443, path, asn_of, probed_already=False)
    assert path.read_text().splitlines() == [
        "ip,domain,port,group,asn",
        "192.0.2.1,a.test,8443,64500,64500",
        "2001:db8::1,a.test,8443,,",
        "2001:db8::3,c.test,8443,,",
    ]
    choose.write_targets(plan, 8443, path, asn_of, probed_already=True)
    with pytest.raises(UsageError, match="--again"):
        choose.write_targets(plan.slice(1), 8443, path, asn_of, probed_already=True)
    assert len(path.read_text().splitlines()) == 4


def prober_rows(*rows: dict[str, Any]) -> pa.Table:
    """Return rows as the prober writes them, with every column that it fills."""
    kind = records.load("quic_probe")
    zero: dict[str, Any] = {"string": "", "bool": False}
    fields, base = [pa.field("target", pa.uint32(), nullable=False)], {}
    for column in kind.columns:
        if column.source == "prober":
            fields.append(pa.field(column.name, column.segment_type(), nullable=column.nullable))
            empty = [] if column.is_list else zero.get(column.type, 0)
            base[column.name] = None if column.nullable else empty
    return pa.Table.from_pylist([base | row for row in rows], schema=pa.schema(fields))


def write_segment(path: Path, table: pa.Table) -> Path:
    path.parent.mkdir(exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def probe(
    target: int, domain: str, ip: str, outcome: str = "iack", sent_at: int | None = SECOND
) -> dict[str, Any]:
    attempts = 0 if sent_at is None else 1
    return {
        "target": target,
        "domain": domain,
        "ip": ip,
        "port": 443,
        "outcome": outcome,
        "sent_at": sent_at,
        "attempts": attempts,
    }


def as_data(folder: Path) -> Mapper:
    (folder / RIB_FILE).write_text("192.0.2.0/30\t64500\n192.0.2.4/30\t54113\n")
    (folder / CDN_MAP_FILE).write_text("[cdn]\nFastly = [54113]\n")
    return Mapper(folder)


def merged(tmp_path: Path, earlier: list[Path], shift: int = 0) -> pa.Table:
    plan = chosen(tmp_path)
    first = write_segment(
        tmp_path / "segments" / "seg-000001.arrow",
        prober_rows(probe(4, "c.test", "2001:db8::3", "blocked", None)),
    )
    second = write_segment(
        tmp_path / "segments" / "seg-000002.arrow",
        prober_rows(
            probe(3, "a.test", "2001:db8::1", sent_at=30 * SECOND + shift),
            probe(2, "a.test", "192.0.2.1", "timeout", 10 * SECOND + shift),
        ),
    )
    assert [[count_below(path, target) for target in (3, 4, 5)] for path in (first, second)] == [
        [0, 0, 1],
        [1, 2, 2],
    ]
    rows = Rows(closed_segments(tmp_path / "segments"))
    return merge.merge(
        rows.slice(0, 3),
        plan.append_column(merge.LAST_PROBE, last_probes(plan, earlier)),
        merge.StageProvenance(StageKey("R", "here", 2), "0.1", "abc", "R/quic_probe.parquet", host="vm"),
        mapper=as_data(tmp_path),
        captures=[
            CaptureRecord("probe.pcap", "lo", "udp", 65535, started_ns=SECOND),
            CaptureRecord("probe-2.pcap", "lo", "udp", 65535, started_ns=20 * SECOND, cut=7),
        ],
        capture_name=lambda name: f"R/{name}",
    )


def test_merging_keeps_every_row_and_adds_its_source(tmp_path: Path) -> None:
    table = merged(tmp_path, [])
    assert table.schema == records.load("quic_probe").arrow_schema()
    first, second, third = table.to_pylist()
    assert (first["domain"], first["ip"], first["outcome"]) == ("a.test", "192.0.2.1", "timeout")
    assert (first["run"], first["vantage"], first["repetition"]) == ("R", "here", 2)
    assert (first["rank"], first["list_id"], first["resolver"]) == (5, "L", "192.0.2.53")
    assert (first["asn"], first["cdn"]) == (64500, "Others")
    assert (second["asn"], second["cdn"]) == (None, None)
    assert [row["capture_file"] for row in (first, second, third)] == ["R/probe.pcap", "R/probe-2.pcap", None]
    assert [row["capture_cut"] for row in (first, second, third)] == [None, 7, None]
    assert all(row["since_last_probe_s"] is None for row in (first, second, third))


@pytest.mark.parametrize(
    ("asns", "want"),
    [
        (None, [(64500, "Others"), (54113, "Fastly"), (None, None), (54113, "Fastly")]),
        # The engine's AS takes precedence over the table's AS for the address.
        ([54113, 7, None, None], [(54113, "Fastly"), (7, "Others"), (None, None), (None, None)]),
    ],
)
def test_origins_of_rows_with_and_without_an_engines_as(
    tmp_path: Path, asns: list[int | None] | None, want: list[tuple[int | None, str | None]]
) -> None:
    columns = {"ip": pa.array(["192.0.2.1", "192.0.2.5", "198.51.100.1", "192.0.2.5"])}
    if asns is not None:
        columns["asn"] = pa.array(asns, pa.uint32())
    asn, cdn = merge.origins(pa.table(columns), as_data(tmp_path))
    assert list(zip(asn.to_pylist(), cdn.to_pylist(), strict=True)) == want
    assert (asn.type, cdn.type) == (pa.uint32(), pa.string())


def test_seconds_since_the_last_probe_count_from_earlier_repetitions(tmp_path: Path) -> None:
    earlier = tmp_path / "earlier.parquet"
    assert merge.write([merged(tmp_path, [])], earlier) == 3
    (tmp_path / "later").mkdir()
    rows = merged(tmp_path / "later", [earlier], shift=5 * SECOND // 2).to_pylist()
    assert [row["since_last_probe_s"] for row in rows] == [2.5, 2.5, None]


def test_a_target_with_two_rows_and_a_foreign_segment_are_refused(tmp_path: Path) -> None:
    row = prober_rows(probe(2, "a.test", "192.0.2.1"))
    paths = [write_segment(tmp_path / "segments" / f"seg-00000{n}.arrow", row) for n in (1, 2)]
    with pytest.raises(InputError, match="two rows"):
        Rows(paths)
    paths[0].write_bytes(b"broken")
    with pytest.raises(InputError, match="cannot read the segment"):
        Rows(paths[:1])


@pytest.mark.parametrize(
    ("targets", "sent", "outcomes"),
    [
        (3, 2, {"iack": 2}),  # a target without a row
        (3, 3, {"iack": 2, "blocked": 1}),  # more probes sent than outcomes
        (3, 2, {"iack": 3}),
        (1, 1, {"lost": 1}),
    ],
)
def test_sums_that_do_not_hold_are_noticed(targets: int, sent: int, outcomes: dict[str, int]) -> None:
    with pytest.raises(FirstflightError, match=r"^hamburg, repetition 1: "):
        accounting.balance(targets, sent, outcomes, "hamburg, repetition 1")


def test_sums_that_hold() -> None:
    accounting.balance(5, 3, {"iack": 1, "timeout": 2, "blocked": 1, "send_failed": 1}, "here")


def test_each_closed_segment_is_handed_out_once(tmp_path: Path) -> None:
    new = NewSegments(tmp_path)
    assert new.take() == []
    steps: list[tuple[list[int], list[int]]] = [([1], [1]), ([], []), ([2, 3], [2, 3]), ([4], [4])]
    for closed, taken in steps:
        for number in closed:
            (tmp_path / f"seg-{number:06}.arrow").touch()
        (tmp_path / f"seg-{sum(closed) + 9:06}.arrow.part").touch()
        assert new.take() == [tmp_path / f"seg-{number:06}.arrow" for number in taken]
    # A later reader, such as after a resume, starts with all segments.
    again = NewSegments(tmp_path)
    assert len(again.take()) == 4
    (tmp_path / "seg-000005.arrow").touch()
    assert again.take() == new.take() == [tmp_path / "seg-000005.arrow"]
