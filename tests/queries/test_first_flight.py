"""The queries of probes with an ECN mark and with a reserved version, on hand-made rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import Store, open_store
from store.load import loader
from tests.queries.conftest import DAY_1, RUN_1, iack, write_run
from tests.queries.interfaces.test_named import near, table
from tests.store.rows import probe


def marked(domain: str, verdict: str | None, marks: tuple[int, int, int] = (0, 0, 0)) -> dict[str, Any]:
    """Return a probe with ECT(0); `marks`: datagrams received with ECT(0), ECT(1) and CE."""
    fields = dict(zip(("received_ect0", "received_ect1", "received_ce"), marks, strict=True))
    given: dict[str, Any] = {"run": RUN_1, "repetition": 1, "sent_at": DAY_1, "domain": domain, "ecn": "ect0"}
    return iack(20_000, 1_000, **given, **fields, ecn_verdict=verdict)


def reserved(domain: str, outcome: str, **changes: Any) -> dict[str, Any]:
    """Return a probe with a reserved version."""
    given: dict[str, Any] = {"run": RUN_1, "repetition": 1, "sent_at": DAY_1, "domain": domain}
    return probe(outcome, **given, version="0x1a2a3a4a", **changes)


def sized(domain: str, size: int, outcome: str = "coalesced", **changes: Any) -> dict[str, Any]:
    """Return a probe in a sweep; `domain` also determines its address."""
    ip = f"198.18.48.{ord(domain[0])}"
    repetition = {1200: 1, 1300: 2, 1400: 3}[size]
    given: dict[str, Any] = {"run": SWEEP, "repetition": repetition, "sent_at": DAY_1, "domain": domain}
    sent = {"ip": ip, "initial_size": size, "bytes_sent": size}
    return probe(outcome, **(given | sent | changes))


def heard(domain: str, *at_us: int, **changes: Any) -> dict[str, Any]:
    """Return a probe that listened for retransmissions: ServerHello at 20 ms, retransmissions at `at_us`."""
    given: dict[str, Any] = {"run": LISTENED, "repetition": 1, "sent_at": DAY_1, "domain": domain}
    heard = {"listened_s": 5.0, "retransmissions": len(at_us), "retransmission_us": list(at_us)}
    return probe("coalesced", **given, ack_us=20_000, sh_us=20_000, **(heard | changes))


def acknowledged(domain: str, size: int | None, outcome: str = "iack", **changes: Any) -> dict[str, Any]:
    """Return a probe whose ACK arrived in a datagram of `size` bytes."""
    given: dict[str, Any] = {"run": PADDED, "repetition": 1, "sent_at": DAY_1, "domain": domain}
    return probe(outcome, **given, ack_datagram_bytes=size, **({"bytes_sent": 1200} | changes))


SWEEP, LISTENED = "20261120T070000Z-cccccc", "20261120T080000Z-dddddd"
PADDED = "20261120T090000Z-eeeeee"


@pytest.fixture(scope="module")
def flights(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store with probes of both kinds and an ordinary one, open for reading."""
    folder = tmp_path_factory.mktemp("flights")
    shutil.copytree(template, folder / "store", symlinks=True)
    rows = [
        marked("a.example", "valid", (2, 0, 0)),
        marked("b.example", "wrong", (0, 0, 1)),
        marked("c.example", "not_mirrored", (0, 1, 0)),
        marked("d.example", "not_mirrored"),
        marked("e.example", None),
        reserved("f.example", "version_negotiation", vn_us=9_000, version_grease=1),
        reserved("g.example", "version_negotiation", vn_us=11_000, version_grease=0),
        reserved("h.example", "version_negotiation", vn_us=90_000, version_grease=2, attempts=2),
        reserved("i.example", "timeout"),
        iack(20_000, 1_000, run=RUN_1, repetition=1, sent_at=DAY_1, domain="j.example"),
    ]
    sweep = [
        *(sized("a.example", size) for size in (1200, 1300, 1400)),
        sized("b.example", 1200, bytes_received=3_700),
        sized("b.example", 1300, "timeout"),
        sized("b.example", 1400, "timeout", icmp_type=3, icmp_code=4),
        sized("c.example", 1200, "timeout"),
        sized("c.example", 1300),
        sized("c.example", 1400, "send_failed", sent_at=None),
        sized("d.example", 1200, "blocked"),
        sized("e.example", 1200, "refused"),
        sized("e.example", 1300, "refused"),
        # A Retry has proved the address.
        sized("f.example", 1200, retried=True, bytes_received=9_000),
    ]
    listened = [
        # Two datagrams at each expiry.
        heard("a.example", 220_000, 221_000, 620_000, 621_000, bytes_received=2_504),
        heard("b.example", 1_019_000, 3_017_000),
        heard("c.example", bytes_received=4_000),
        heard("e.example", retried=True, bytes_received=9_000),
        heard("d.example", listened_s=None, retransmissions=None, retransmission_us=[]),
    ]
    padded = [
        acknowledged("a.example", 1_200),
        acknowledged("b.example", 1_199),
        acknowledged("c.example", 1_201, vantage="tokyo"),
        acknowledged("d.example", None),
        acknowledged("e.example", 1_200, "coalesced"),
        acknowledged("f.example", 1_200, retried=True),  # no limit after a Retry
        acknowledged("g.example", 60, cdn="Others", asn=3320, bytes_sent=1000),
        acknowledged("h.example", 1_200, ip="2001:db8:48::8"),
    ]
    url = f"chdb:{folder / 'store'}"
    files = [
        *write_run(folder, RUN_1, rows),
        *write_run(folder, SWEEP, sweep),
        *write_run(folder, LISTENED, listened),
        *write_run(folder, PADDED, padded),
    ]
    results = loader.load_files(files, url)
    assert all(isinstance(result, loader.Loaded) for result in results), results
    with open_store(url) as store:
        yield store


def test_ecn_mirroring(flights: Store) -> None:
    columns = "cdn vantage acknowledged mirrored mirrored_share valid valid_share marking"
    assert table(flights, "ecn_mirroring", columns) == [["Cloudflare", None, 4, 2, 0.5, 1, 0.25, 3]]
    assert table(flights, "ecn_mirroring", "vantage acknowledged", by_vantage="true") == [["hamburg", 4]]


def test_padded_instant_acks_and_their_part_of_the_budget(flights: Store) -> None:
    columns = "cdn vantage iack padded padded_share ack_bytes budget_share"
    assert table(flights, "padded_acks", columns, run=PADDED) == [
        ["Cloudflare", None, 3, 2, near(2 / 3), 1_200, near(1 / 3)],
        ["Others", None, 1, 0, 0, 60, near(0.02)],
    ]
    assert table(flights, "padded_acks", "cdn vantage iack padded", by_vantage="true", run=PADDED) == [
        ["Cloudflare", "hamburg", 2, 1],
        ["Cloudflare", "tokyo", 1, 1],
        ["Others", "hamburg", 1, 0],
    ]
    everything = table(flights, "padded_acks", "cdn iack padded", run=PADDED, all_addresses="true")
    assert everything == [["Cloudflare", 4, 3], ["Others", 1, 0]]
    assert table(flights, "padded_acks", columns, run=RUN_1) == []


def test_version_negotiation(flights: Store) -> None:
    columns = "cdn vantage probes negotiated negotiated_share greased"
    assert table(flights, "version_negotiation", columns) == [["Cloudflare", None, 4, 3, 0.75, 2]]
    # The second attempt of h is in no delay.
    found = table(flights, "version_negotiation", "vn_p90_us", vantage="hamburg")
    assert found == [[near(11_000)]]


def test_initial_sizes(flights: Store) -> None:
    columns = "cdn family size probes answered answered_share amplified_share too_big send_failed"
    assert table(flights, "initial_sizes", columns, run=SWEEP) == [
        ["Cloudflare", 4, 1200, 5, 3, 0.6, 0.5, 0, 0],
        ["Cloudflare", 4, 1300, 4, 2, 0.5, 0.0, 0, 0],
        ["Cloudflare", 4, 1400, 2, 1, 0.5, 0.0, 1, 1],
    ]


def test_size_limits(flights: Store) -> None:
    columns = "domain ip largest_answered smallest_unanswered sizes answers too_big"
    assert table(flights, "size_limits", columns, run=SWEEP, by_vantage="true") == [
        ["b.example", "198.18.48.98", 1200, 1300, [1200, 1300, 1400], 1, 1],
        ["c.example", "198.18.48.99", 1300, 1400, [1200, 1300, 1400], 1, 0],
    ]


def test_retransmission_schedule(flights: Store) -> None:
    columns = "cdn stack listened retransmitting expiries_p50 expiries_most growth_p50"
    found = table(flights, "retransmission_schedule", columns, run=LISTENED)
    assert found == [["Cloudflare", None, 4, 2, 2, 2, 2.0]]
    columns = "first_p10_us first_p90_us amplified_share"
    ((first, last, amplified),) = table(flights, "retransmission_schedule", columns, by_stack="true")
    assert (first, last, amplified) == (200_000, 999_000, near(1 / 3))


def test_reserved_versions_are_in_no_share_of_instant_acks(flights: Store) -> None:
    found = table(flights, "iack_share", "answered counted iack_share strict_share", run=RUN_1)
    assert found == [[6, 6, 1.0, 1.0]]
