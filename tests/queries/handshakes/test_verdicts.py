"""Verdicts and promises on hand-made rows, with results computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports import query
from schemas import records
from store import Store, open_store
from store.load import loader
from tests.store.rows import DAY_NS, RUN, answer, handshake, probe, write

pytestmark = pytest.mark.usefixtures("emptied_tables")


def answered(name: str, first_answer: str, rtt_us: int, delay_us: int, **changes: Any) -> dict[str, Any]:
    """Return a completed handshake; its ServerHello arrived `delay_us` later than the path explains."""
    waited = 0 if first_answer == "coalesced" else delay_us
    values = {
        "domain": f"{name}.example",
        "first_answer": first_answer,
        "ack_us": rtt_us + delay_us - waited,
        "sh_us": rtt_us + delay_us,
        "ack_to_sh_us": waited,
        "rtt_min_us": rtt_us,
        "rtt_samples": 2,
        "bytes_sent_unvalidated": 1_200,
        "bytes_received_handshake": 3_600,
        "certificate_bytes": 2_500,
        "cdn": "Cloudflare",
    }
    return handshake(**values | changes)


def verdicts(tmp_path: Path, rows: list[dict[str, Any]], columns: str, **given: str) -> list[list[Any]]:
    loader.load_files([write(tmp_path / "quic_handshake.parquet", rows, "quic_handshake")])
    with open_store() as store:
        return chosen(store, "iack_verdict", columns, **given)


def chosen(store: Store, name: str, columns: str, **given: str) -> list[list[Any]]:
    return [[row[column] for column in columns.split()] for row in query.rows(store, name, given)]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        # RTT 20 ms: the probe time-out is 60 ms. Just before its end, and at its end.
        (answered("a", "iack", 20_000, 59_999), ["iack", "earlier_pto", "wait", "iack", True, 0]),
        (answered("a", "iack", 20_000, 60_000), ["wait", "spurious_probes", "wait", "iack", False, 1]),
        # After 60 and 180 ms: two; after 420: three.
        (answered("a", "iack", 20_000, 179_999), ["wait", "spurious_probes", "wait", "iack", False, 1]),
        (answered("a", "iack", 20_000, 180_000), ["wait", "spurious_probes", "wait", "iack", False, 2]),
        (answered("a", "coalesced", 20_000, 59_999), ["iack", "earlier_pto", "wait", "wait", False, 0]),
        (answered("a", "coalesced", 20_000, 60_000), ["wait", "spurious_probes", "wait", "wait", True, 1]),
        (answered("a", "sh_first", 20_000, 60_000), ["wait", "spurious_probes", "wait", "wait", True, 1]),
        # RTT 0.1 ms: the time-out is 1.1 ms, by the granularity of timers.
        (answered("a", "iack", 100, 1_099), ["iack", "earlier_pto", "wait", "iack", True, 0]),
        (answered("a", "iack", 100, 1_100), ["wait", "spurious_probes", "wait", "iack", False, 1]),
        # One byte above the limit, whatever the delay.
        (
            answered("a", "coalesced", 20_000, 90_000, bytes_received_handshake=3_601),
            ["iack", "over_limit", "iack", "wait", False, 1],
        ),
        # A single sample does not separate path and server; without sizes there is no verdict.
        (answered("a", "coalesced", 20_000, 0, rtt_samples=1), [None, None, "wait", "wait", None, None]),
        (
            answered("a", "iack", 20_000, 60_000, bytes_received_handshake=None),
            [None, None, None, "iack", None, 1],
        ),
        (
            answered("a", "iack", 20_000, 0, bytes_received_handshake=None),
            ["iack", "earlier_pto", None, "iack", True, 0],
        ),
    ],
)
def test_verdict_by_size_and_delay(tmp_path: Path, row: dict[str, Any], expected: list[Any]) -> None:
    columns = "verdict reason verdict_first_flight_lost sends follows spurious_probes"
    assert verdicts(tmp_path, [row], columns) == [expected]


def test_gain_and_cost(tmp_path: Path) -> None:
    rows = [answered("a", "iack", 20_000, 8_000), answered("b", "coalesced", 400_000, 8_000)]
    # 3 x 28 ms - 3 x 20 ms; 999 ms - 60 ms, and no less than nothing.
    assert verdicts(tmp_path, rows, "pto_us gain_us cost_if_lost_us") == [
        [60_000, 24_000, 939_000],
        [1_200_000, 24_000, 0],
    ]


def test_repetitions_are_one_server(tmp_path: Path) -> None:
    rows = [
        answered("a", "iack", 20_000, 1_000, bytes_received_handshake=5_000),
        answered("a", "coalesced", 21_000, 3_000, repetition=2, bytes_sent_unvalidated=2_400),
        answered("a", "iack", 22_000, 9_000, repetition=3, certificate_bytes=2_000),
        # Not counted: after a Retry there is no limit, and incomplete handshakes show no flight.
        answered("a", "iack", 1_000, 0, repetition=4, retry=True),
        answered("a", "iack", 1_000, 0, repetition=5, hello_retry=True),
        answered("a", "iack", 1_000, 0, repetition=6, outcome="timeout"),
    ]
    columns = "handshakes iack_share flight_bytes limit_bytes certificate_bytes rtt_us delay_us sends follows"
    expected = [3, pytest.approx(2 / 3), 3_600, 3_600, 2_000, 20_000, 3_000, "both", None]
    loaded = [
        write(tmp_path / str(row["repetition"]) / "quic_handshake.parquet", [row], "quic_handshake")
        for row in rows
    ]
    loader.load_files(loaded)
    with open_store() as store:
        assert chosen(store, "iack_verdict", columns) == [expected]


def test_share_of_each_cdn(tmp_path: Path) -> None:
    rows = [
        answered("a", "iack", 20_000, 1_000),
        answered("b", "iack", 20_000, 70_000),
        answered("c", "coalesced", 20_000, 1_000),
        answered("d", "coalesced", 20_000, 70_000),
        answered("e", "coalesced", 20_000, 0, rtt_samples=1, bytes_received_handshake=None),
        answered("f", "sh_first", 20_000, 3_000, bytes_received_handshake=9_000, cdn="Google"),
        answered("g", "iack", 20_000, 1_000, cdn=None),
    ]
    assert verdicts(tmp_path, rows, "domain", against="true") == [
        ["b.example"],
        ["c.example"],
        ["f.example"],
    ]
    columns = (
        "cdn servers known iack_verdict_share over_limit_share iack_rightly iack_wrongly wait_rightly "
        "wait_wrongly both missed_gain_us_p50"
    )
    with open_store() as store:
        assert chosen(store, "iack_verdict_share", columns, run=RUN) == [
            ["Cloudflare", 5, 4, 0.5, 0, 1, 1, 1, 1, 0, 3_000],
            ["Google", 1, 1, 1, 1, 0, 0, 0, 1, 0, 9_000],
        ]
        assert chosen(store, "iack_verdict", "ip", domain="f.example") == [["198.18.48.1"]]


def https(name: str, *alpn: str, hints: tuple[str, ...] = (), **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "https_priority": 1,
        "https_alpn": list(alpn),
        "https_ipv4hint": list(hints),
        "https_ech": False,
    }
    return answer(f"{name}.example", "HTTPS", **values | changes)


def address(name: str, ip: str) -> dict[str, Any]:
    return answer(f"{name}.example", "A", address=ip, answer_rank=0)


def none(name: str, status: str = "NODATA") -> dict[str, Any]:
    return answer(f"{name}.example", "HTTPS", status=status)


def test_promises_against_answers(tmp_path: Path) -> None:
    first, second, unlisted = "198.18.48.1", "198.18.48.2", "198.18.48.9"
    answers = [
        *(https("kept", "h3", "h2", hints=(first,), https_ech=True), address("kept", first)),
        # Half of the hints are addresses; silent.
        *(
            https("broken", "h3", hints=(first, unlisted)),
            address("broken", first),
            address("broken", second),
        ),
        *(none("quiet"), address("quiet", first)),
        *(https("tcp", "h2", hints=(unlisted,)), address("tcp", first)),
        # Two records: the hints of both are all addresses, in another order; a close is an answer.
        *(https("two", "h3", hints=(second,)), https("two", "h2", hints=(first,), https_priority=2)),
        *(address("two", first), address("two", second)),
        # An alias makes no promise; a failed lookup has no information; a blocked probe sent no datagram.
        *(https("alias", "h3", https_priority=0), address("alias", first)),
        *(none("failed", "SERVFAIL"), address("failed", first)),
        *(https("blocked", "h3", hints=(second,)), address("blocked", first)),
        # Not asked for HTTPS: no row. Not probed, but connected with.
        address("a-only", first),
        https("connected", "h3"),
    ]
    probes = [
        probe("iack", domain="kept.example"),
        probe("timeout", domain="broken.example"),
        probe("refused", domain="broken.example", ip=second),
        probe("ack_only", domain="quiet.example"),
        probe("timeout", domain="tcp.example"),
        probe("closed", domain="two.example", cdn="Google"),
        probe("coalesced", domain="alias.example", cdn=None),
        probe("iack", domain="failed.example"),
        probe("blocked", domain="blocked.example"),
        probe("iack", domain="a-only.example"),
    ]
    handshakes = [
        handshake(domain="connected.example", cdn="Fastly"),
        # The probes say which CDN it is, where there are both.
        handshake(domain="two.example", outcome="timeout", cdn="Fastly"),
    ]
    files = [
        write(tmp_path / "dns_answer.parquet", answers, "dns_answer"),
        write(tmp_path / "quic_probe.parquet", probes, "quic_probe"),
        write(tmp_path / "quic_handshake.parquet", handshakes, "quic_handshake"),
    ]
    loader.load_files(files)
    with open_store() as store:
        view = (
            "SELECT domain, promise, ipv4_hints_are, promises_h3, speaks_quic FROM https_promise ORDER BY 1"
        )
        assert [list(row.values()) for row in store.rows(view)] == [
            ["alias.example", "not_promised", None, False, True],
            ["blocked.example", None, "other", True, None],
            ["broken.example", "broken", "overlap", True, False],
            ["connected.example", "kept", None, True, True],
            ["failed.example", None, None, None, True],
            ["kept.example", "kept", "equal", True, True],
            ["quiet.example", "not_promised", None, False, True],
            ["tcp.example", "neither", "other", False, False],
            ["two.example", "kept", "equal", True, True],
        ]
        columns = "cdn observations with_record kept broken not_promised neither broken_share with_ipv4_hints"
        columns += " ipv4_hints_equal ipv4_hints_differ with_ech"
        assert chosen(store, "https_promise", columns) == [
            ["Cloudflare", 6, 4, 1, 1, 1, 1, 0.5, 4, 1, 3, 1],
            ["Fastly", 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            ["Google", 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0],
            [None, 1, 1, 0, 0, 1, 0, None, 0, 0, 0, 0],
        ]
        names = chosen(store, "https_promise_names", "domain")
        assert [name for (name,) in names] == [
            f"{name}.example" for name in ("alias", "blocked", "broken", "quiet", "tcp")
        ]
        assert chosen(store, "https_promise_names", "domain", promise="kept", cdn="Google") == [
            ["two.example"]
        ]


def promised(store: Store, columns: str) -> dict[str, tuple[Any, ...]]:
    rows = store.rows(f"SELECT domain, {columns} FROM https_promise")
    return {str(name).removesuffix(".example"): tuple(rest) for name, *rest in map(dict.values, rows)}


ECH = ("grease", None, "done")
TAKEN, REFUSED = ("config", True, "done"), ("config", False, "handshake_failed")


@pytest.mark.parametrize(
    ("ids", "offer", "sent", "expected"),
    [
        # Config ids of the record (null without ECH); offer, acceptance, outcome; ids sent.
        ([7], TAKEN, [], ("kept", None, True)),
        ([7], ECH, [7], ("kept", "equal", True)),
        ([7, 8], ECH, [8], ("kept", "part", True)),
        ([7], ECH, [9, 7], ("kept", "overlap", True)),
        ([7], ECH, [9], ("broken", "other", True)),
        ([7], ECH, [], ("broken", None, False)),
        # The server's key differs.
        ([7], REFUSED, [7], ("broken", "equal", True)),
        ([7], REFUSED, [], ("broken", None, False)),
        # Rows of older versions have no ids.
        ([], ECH, [9], ("kept", None, True)),
        (None, ECH, [9], ("not_promised", None, True)),
        (None, ECH, [], ("neither", None, False)),
        ([7], ("grease", None, "timeout"), [], (None, None, None)),
        ([7], (None, None, "done"), [], (None, None, None)),
    ],
)
def test_encrypted_client_hello_against_answers(
    tmp_path: Path,
    ids: list[int] | None,
    offer: tuple[str | None, bool | None, str],
    sent: list[int],
    expected: tuple[str | None, str | None, bool | None],
) -> None:
    offered, accepted, outcome = offer
    record = https("a", "h2", https_ech=ids is not None, https_ech_config_ids=ids or [])
    shown = handshake(
        ech_offered=offered, ech_accepted=accepted, outcome=outcome, ech_retry_config_ids=sent, cdn="Google"
    )
    loader.load_files(
        [
            write(tmp_path / "dns_answer.parquet", [record, none("without")], "dns_answer"),
            write(
                tmp_path / "quic_handshake.parquet",
                [shown, shown | {"domain": "without.example"}],
                "quic_handshake",
            ),
        ]
    )
    with open_store() as store:
        found = promised(store, "ech_promise, ech_configs_are, speaks_ech, ech_sent_config_ids")
        assert found["a"] == (*expected, sorted(sent))
        # A name without a record promises nothing.
        assert found["without"][0] == {True: "not_promised", False: "neither", None: None}[expected[2]]
        words = ("kept", "broken", "not_promised", "neither")
        columns = "with_ech_offer " + " ".join(f"ech_{word}" for word in words)
        (counted,) = chosen(store, "https_promise", columns)
        both = [found["a"][0], found["without"][0]]
        assert counted == [2 * (offered is not None), *map(both.count, words)]


def crawled(name: str, alt_svc: str | None, status: int | None = 200) -> dict[str, Any]:
    row: dict[str, Any] = {column.name: None for column in records.load("download_file").file_columns}
    return row | {
        "run": RUN,
        "domain": f"{name}.example",
        "outcome": "found" if status else "failed",
        "status": status,
        "size_is_lower_bound": False,
        "alt_svc": alt_svc,
        "crawled_at": DAY_NS,
        "tool_version": "0.1.0+test",
        "ruleset": "0123456789ab",
    }


def test_alt_svc_over_tcp_against_answers(tmp_path: Path) -> None:
    h3, h2 = 'h2=":443", h3=":443"; ma=86400', 'h2=":443"; ma=86400'
    cases = [
        # Domain, the probe's outcome, the answer over TCP, the verdict.
        ("kept", "iack", crawled("kept", h3), ("kept", True)),
        ("broken", "timeout", crawled("broken", h3), ("broken", True)),
        ("quiet", "closed", crawled("quiet", h2), ("not_promised", False)),
        ("tcp", "refused", crawled("tcp", None), ("neither", False)),
        ("failed", "iack", crawled("failed", None, None), (None, None)),
        ("uncrawled", "iack", None, (None, None)),
        ("blocked", "blocked", crawled("blocked", h3), (None, True)),
    ]
    files = [
        write(tmp_path / "dns_answer.parquet", [none(name) for name, *_ in cases], "dns_answer"),
        write(
            tmp_path / "quic_probe.parquet",
            [probe(outcome, domain=f"{name}.example") for name, outcome, *_ in cases],
        ),
        write(
            tmp_path / "download_file.parquet",
            [row for _, _, row, _ in cases if row is not None],
            "download_file",
        ),
    ]
    loader.load_files(files)
    with open_store() as store:
        found = promised(store, "alt_svc_promise, alt_svc_tcp_h3")
        assert found == {name: expected for name, _, _, expected in cases}
        columns = "alt_svc_kept alt_svc_broken alt_svc_not_promised alt_svc_neither"
        assert chosen(store, "https_promise", columns) == [[1, 1, 1, 1]]
