"""Named queries over handshakes, on hand-made rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports import query
from schemas import records
from store import open_store
from store.load import loader
from tests.store.rows import DAY_NS, RUN, write

pytestmark = pytest.mark.usefixtures("emptied_tables")

STAMP = {
    "run": RUN,
    "vantage": "hamburg",
    "repetition": 1,
    "tool_version": "0.1.0+test",
    "ruleset": "0123456789ab",
}
DONE = {
    "ip": "198.18.48.1",
    "port": 443,
    "outcome": "done",
    "sent_at": DAY_NS,
    "cdn": "Cloudflare",
    "asn": 13335,
}


def handshake(domain: str, **values: Any) -> dict[str, Any]:
    empty = {column.name: None for column in records.load("quic_handshake").file_columns}
    return empty | STAMP | DONE | {"domain": domain} | values


def answered(domain: str, datagrams: int, first: str, whole: str, **values: Any) -> dict[str, Any]:
    """Return a handshake: `first` by the first ACK, `whole` by the ACK of the whole ClientHello."""
    covers = first == whole
    times = {
        "ack_us": 30_000,
        "sh_us": 30_000,
        "ack_to_sh_us": 0,
        "partial_ack_us": None if covers else 20_000,
    }
    answers = {"first_answer": whole, "first_answer_any_ack": first, "ack_covers_hello": covers}
    return handshake(domain, hello_datagrams=datagrams, **times, **answers, **values)


def ask(name: str, columns: str, **given: str) -> list[list[Any]]:
    with open_store() as store:
        return [[row[column] for column in columns.split()] for row in query.rows(store, name, given)]


def load(folder: Path, rows: list[dict[str, Any]]) -> None:
    (result,) = loader.load_files([write(folder / "quic_handshake.parquet", rows, "quic_handshake")])
    assert isinstance(result, loader.Loaded)


def test_false_instant_acks_are_counted(tmp_path: Path) -> None:
    load(
        tmp_path,
        [
            answered("a.example", 1, "iack", "iack"),
            answered("b.example", 1, "coalesced", "coalesced"),
            answered("a.example", 2, "iack", "iack", ip="198.18.48.2"),
            answered("c.example", 2, "iack", "coalesced"),
            answered("d.example", 2, "iack", "coalesced"),
            answered("e.example", 2, "iack", "coalesced", cdn="Others"),
            # No ServerHello, and a row of another scanner.
            answered("f.example", 2, "ack_only", "ack_only") | {"sh_us": None, "ack_to_sh_us": None},
            handshake("g.example", sh_us=3),
        ],
    )
    columns = "cdn hello_datagrams handshakes partial iack_any_ack iack false_iack iack_share"
    assert ask("false_iack", columns) == [
        ["Cloudflare", 1, 2, 0, 1, 1, 0, 0.5],
        ["Cloudflare", 2, 3, 2, 3, 1, 2, pytest.approx(1 / 3)],
        ["Others", 2, 1, 1, 1, 0, 1, 0],
    ]
    given = {"cdn": "Others", "by_vantage": "true", "by_day": "true"}
    found = ask("false_iack", "day vantage iack_any_ack_share", **given)
    assert found == [["2026-11-20", "hamburg", 1]]


def stacked(domain: str, stack: str | None, fingerprint: str | None, **values: Any) -> dict[str, Any]:
    return handshake(domain, stack=stack, stack_fingerprint=fingerprint, **values)


def test_unknown_stacks_are_grouped_by_their_parameters(tmp_path: Path) -> None:
    load(
        tmp_path,
        [
            stacked("a.example", "quiche", "00,01,03=1350"),
            stacked("a.example", "quiche", "00,01,03=65527", ip="198.18.48.2"),
            stacked("b.example", "quiche", "00,01,03=1350", vantage="hong_kong"),
            # One server that permutes, and one with another value.
            stacked("c.example", None, "g,01,0e=2,04"),
            stacked("d.example", None, "04,0e=2,g,01"),
            stacked("e.example", None, "04,0e=2,01,g"),
            stacked("f.example", None, "01,04,0e=3,g"),
            stacked("g.example", None, "01,04,0e=3,g", cdn="Others"),
            stacked("h.example", "quinn", "04,01", cdn=None, asn=None),
            stacked("h.example", "quinn", "01,04", cdn=None, asn=None),
            # Not completed, or of another scanner.
            stacked("i.example", None, None),
        ],
    )
    columns = "cdn stack parameters handshakes names addresses fingerprints share_of_cdn example"
    known = ["Cloudflare", "quiche", None, 3, 2, 2, 2, pytest.approx(3 / 7), "00,01,03=1350"]
    permuted = ["Cloudflare", None, "01,04,0e=2,g", 3, 3, 1, 3, pytest.approx(3 / 7), "04,0e=2,01,g"]
    other = ["Cloudflare", None, "01,04,0e=3,g", 1, 1, 1, 1, pytest.approx(1 / 7), "01,04,0e=3,g"]
    of_others = [
        ["Others", "quinn", None, 2, 1, 1, 2, pytest.approx(2 / 3), "01,04"],
        ["Others", None, "01,04,0e=3,g", 1, 1, 1, 1, pytest.approx(1 / 3), "01,04,0e=3,g"],
    ]
    assert ask("handshake_stacks", columns) == [known, permuted, other, *of_others]
    assert ask("handshake_stacks", columns, cdn="Others") == of_others
    assert ask("handshake_stacks", "handshakes", vantage="hong_kong") == [[1]]
    assert ask("handshake_stacks", "handshakes", limit="1") == [[3]]
    for day in ({"until": "2026-11-19"}, {"since": "2026-11-21"}, {"run": "newest", "cdn": "Akamai"}):
        assert ask("handshake_stacks", "handshakes", **day) == []


def test_unknown_fingerprints_have_shares_of_all_handshakes(tmp_path: Path) -> None:
    load(
        tmp_path,
        [
            stacked("a.example", "quiche", "00,01,03=1350"),
            stacked("a.example", "quiche", "00,01,03=1350", ip="198.18.48.2"),
            # A server that permutes, behind two CDNs, and a fixed one.
            stacked("c.example", None, "g,01,0e=2,04"),
            stacked("d.example", None, "04,0e=2,g,01", cdn=None, asn=None),
            stacked("d.example", None, "04,0e=2,g,01", vantage="hong_kong"),
            stacked("f.example", None, "01,04,0e=3,g", cdn="Others"),
            # Not completed, or of another scanner.
            stacked("i.example", None, None),
        ],
    )
    columns = "parameters handshakes names addresses cdns fingerprints share_of_unknown share example"
    permuted = ["01,04,0e=2,g", 3, 2, 1, 2, 2, 3 / 4, 1 / 2, "04,0e=2,g,01"]
    fixed = ["01,04,0e=3,g", 1, 1, 1, 1, 1, 1 / 4, pytest.approx(1 / 6), "01,04,0e=3,g"]
    name = "handshake_unknown_stacks"
    assert ask(name, columns) == [permuted, fixed]
    assert ask(name, "handshakes share_of_unknown", limit="1") == [[3, 3 / 4]]
    assert ask(name, "handshakes share", cdn="Cloudflare") == [[2, 1 / 2]]
    assert ask(name, "handshakes share", vantage="hong_kong") == [[1, 1]]
    for day in ({"until": "2026-11-19"}, {"since": "2026-11-21"}, {"run": "newest", "cdn": "Akamai"}):
        assert ask(name, "handshakes", **day) == []
