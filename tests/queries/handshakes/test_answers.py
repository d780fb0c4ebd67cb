"""Named queries over servers' properties and answers in handshakes, on hand-made rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from store.load import loader
from tests.queries.handshakes.test_counts import certificate
from tests.queries.handshakes.test_handshakes import ask, handshake, load
from tests.store.rows import write

pytestmark = pytest.mark.usefixtures("emptied_tables")

EC = ("ec_p256", 256, "ecdsa_sha256", 900)


def sent(domain: str, *parameters: tuple[str, str | None, Any], **values: Any) -> dict[str, Any]:
    text = json.dumps(
        [dict(zip(("id", "name", "value"), parameter, strict=True)) for parameter in parameters]
    )
    return handshake(domain, transport_parameters=text, **values)


def test_parameters_and_their_values_are_counted_per_cdn(tmp_path: Path) -> None:
    idle, flag = ("0x01", "max_idle_timeout"), ("0x0c", "disable_active_migration", True)
    cut = sent("c.example", (*idle, 5000))
    cut["transport_parameters"] = cut["transport_parameters"][:-1] + ',{"more":3}]'
    load(
        tmp_path,
        [
            sent("a.example", (*idle, 30000), ("0x3127", None, "09")),
            sent("b.example", (*idle, 30000), flag, vantage="hong_kong"),
            # Twice the same, as some server sends.
            sent("b.example", (*idle, 30000), flag, flag),
            cut,
            # A value that each connection draws is counted, and not shown.
            sent("d.example", flag, ("0x02", "stateless_reset_token", "aa" * 16), cdn=None, asn=None),
            sent("e.example", cdn="Others"),
            handshake("f.example"),
        ],
    )
    columns = "cdn id name handshakes share_of_cdn distinct_values common_value common_share"
    first = ["Cloudflare", *idle, 4, 1, 2, "30000", 0.75]
    others = [
        ["Others", "0x02", "stateless_reset_token", 1, 0.5, 1, None, None],
        ["Others", *flag[:2], 1, 0.5, 1, "true", 1],
    ]
    assert ask("handshake_parameters", columns) == [
        first,
        ["Cloudflare", *flag[:2], 2, 0.5, 1, "true", 1],
        ["Cloudflare", "0x3127", None, 1, 0.25, 1, '"09"', 1],
        *others,
    ]
    assert ask("handshake_parameters", columns, cdn="Others") == others
    assert ask("handshake_parameters", columns, limit="1") == [first]
    assert ask("handshake_parameters", "handshakes", vantage="hong_kong") == [[1], [1]]
    for day in ({"until": "2026-11-19"}, {"since": "2026-11-21"}):
        assert ask("handshake_parameters", "id", **day) == []


def test_reserved_parameters_are_one_row(tmp_path: Path) -> None:
    """Each server draws another one (RFC 9000 18.1)."""
    load(
        tmp_path,
        [sent(f"{n}.example", (f"0x{31 * n + 27:x}", "grease", f'"{n:02}"')) for n in range(5)]
        + [sent("z.example", ("0x01", "max_idle_timeout", 30000))],
    )
    columns = "cdn id name handshakes share_of_cdn distinct_values common_value"
    assert ask("handshake_parameters", columns) == [
        ["Cloudflare", "reserved", "grease", 5, 5 / 6, 1, None],
        ["Cloudflare", "0x01", "max_idle_timeout", 1, 1 / 6, 1, "30000"],
    ]


def showed(domain: str, leaf: str, size: int, **values: Any) -> dict[str, Any]:
    given = {"certificate_uncompressed_bytes": size, "chain_length": 2, "ocsp_stapled": False}
    return handshake(domain, **given | {"leaf_sha256": leaf * 64, "certificate_bytes": size} | values)


def test_certificates_are_described_per_cdn(tmp_path: Path) -> None:
    load(
        tmp_path,
        [
            showed("a.example", "a", 3000, verified=True, name_matches=True),
            showed("b.example", "a", 3000, verified=False, name_matches=True, ocsp_stapled=True),
            showed(
                "c.example", "b", 900, certificate_uncompressed_bytes=2000, certificate_compression="brotli"
            ),
            showed("d.example", "c", 4000, cdn=None, chain_length=3, vantage="hong_kong", ocsp_stapled=None),
            # Not completed, without a certificate.
            showed("e.example", "d", 9000, outcome="timeout"),
            handshake("f.example"),
        ],
    )
    columns = (
        "cdn handshakes leaves chain_length_p50 bytes_p10 bytes_p50 bytes_p90 uncompressed_p50 "
        "compressed_share ocsp_share verified_share name_matches_share"
    )
    third = pytest.approx(1 / 3)
    others = ["Others", 1, 1, 3, 4000, 4000, 4000, 4000, 0, None, None, None]
    assert ask("handshake_certificates", columns) == [
        ["Cloudflare", 3, 2, 2, 900, 3000, 3000, 3000, third, third, 0.5, 1],
        others,
    ]
    assert ask("handshake_certificates", columns, cdn="Others") == [others]
    assert ask("handshake_certificates", columns, vantage="hong_kong") == [others]
    for day in ({"until": "2026-11-19"}, {"since": "2026-11-21"}):
        assert ask("handshake_certificates", "leaves", **day) == []


def test_embedded_timestamps_of_leaves_that_are_in_the_store(tmp_path: Path) -> None:
    rows = [
        certificate("a", *EC, scts=2),
        certificate("a", *EC, scts=2, repetition=2),
        certificate("b", *EC, scts=0),
        certificate("c", *EC, scts=None),
    ]
    (result,) = loader.load_files([write(tmp_path / "certificate.parquet", rows, "certificate")])
    assert isinstance(result, loader.Loaded)
    names = zip("abcdef", "aabcda", strict=True)
    load(tmp_path, [showed(f"{name}.example", leaf, 900) for name, leaf in names])
    assert ask("handshake_certificates", "handshakes leaves scts_share") == [[6, 4, 0.75]]


def test_edge_locations_are_counted_per_vantage_point_and_cdn(tmp_path: Path) -> None:
    def at(domain: str, place: str | None, rtt_us: int | None, **values: Any) -> dict[str, Any]:
        return handshake(domain, edge_location=place, rtt_min_us=rtt_us, **values)

    load(
        tmp_path,
        [
            at("a.example", "HAM", 1_000),
            at("b.example", "HAM", 3_000),
            at("b.example", "HAM", 2_000, ip="198.18.48.2"),
            at("c.example", "FRA", None),
            at("d.example", "FRA", 9_000, cdn=None, asn=None),
            at("a.example", "HKG", 500, vantage="hong_kong"),
            at("e.example", None, 100),
        ],
    )
    columns = "vantage cdn location handshakes names addresses share rtt_min_p50_us"
    hamburg = [
        ["hamburg", "Cloudflare", "HAM", 3, 2, 2, 0.75, 2_000],
        ["hamburg", "Cloudflare", "FRA", 1, 1, 1, 0.25, None],
        ["hamburg", "Others", "FRA", 1, 1, 1, 1, 9_000],
    ]
    hong_kong = ["hong_kong", "Cloudflare", "HKG", 1, 1, 1, 1, 500]
    assert ask("edge_locations", columns) == [*hamburg, hong_kong]
    assert ask("edge_locations", columns, vantage="hamburg") == hamburg
    assert ask("edge_locations", columns, cdn="Others") == hamburg[2:]
    assert ask("edge_locations", columns, limit="1") == hamburg[:1]
    for day in ({"until": "2026-11-19"}, {"since": "2026-11-21"}):
        assert ask("edge_locations", "location", **day) == []


def test_servers_that_take_ack_frequency_are_counted_with_code_point_and_value(tmp_path: Path) -> None:
    """Servers without the parameter have a row, too. Shares count all servers with known parameters."""

    def takes(domain: str, code_point: str | None, value_us: int | None, **values: Any) -> dict[str, Any]:
        return sent(domain, min_ack_delay_id=code_point, min_ack_delay_us=value_us, **values)

    load(
        tmp_path,
        [
            takes("a.example", "0xff04de1b", 1_000, stack="quinn"),
            takes("b.example", "0xff04de1b", 1_000, stack="quinn", vantage="hong_kong"),
            takes("b.example", "0xff02de1a", 10_000, ip="198.18.48.2"),
            takes("c.example", None, None),
            takes("d.example", None, None),
            takes("e.example", None, None),
            takes("f.example", "0x00", 0, cdn=None, asn=None),
            # Without transport parameters the support is unknown.
            handshake("g.example"),
        ],
    )
    columns = "cdn stack code_point min_ack_delay_us handshakes names addresses share_of_cdn"
    others = [["Others", None, "0x00", 0, 1, 1, 1, 1]]
    first = ["Cloudflare", "quinn", "0xff04de1b", 1_000, 2, 2, 1, pytest.approx(1 / 3)]
    assert ask("handshake_ack_frequency", columns) == [
        first,
        ["Cloudflare", None, "0xff02de1a", 10_000, 1, 1, 1, pytest.approx(1 / 6)],
        ["Cloudflare", None, None, None, 3, 3, 1, 0.5],
        *others,
    ]
    assert ask("handshake_ack_frequency", columns, cdn="Others") == others
    assert ask("handshake_ack_frequency", columns, limit="1") == [first]
    assert ask("handshake_ack_frequency", "stack", vantage="hong_kong") == [["quinn"]]
    for day in ({"until": "2026-11-19"}, {"since": "2026-11-21"}):
        assert ask("handshake_ack_frequency", "stack", **day) == []
