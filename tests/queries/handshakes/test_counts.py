"""Named queries that count outcomes, negotiated values and certificates of handshakes, on hand-made rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from schemas import records
from store.load import loader
from tests.queries.handshakes.test_handshakes import STAMP, ask, handshake, load
from tests.store.rows import write

pytestmark = pytest.mark.usefixtures("emptied_tables")

NONE = {"cdn": None, "asn": None}
NOT_OF_THE_DAY: tuple[dict[str, str], ...] = ({"until": "2026-11-19"}, {"since": "2026-11-21"}, {"run": "x"})


def test_ends_are_counted_by_outcome_and_stage(tmp_path: Path) -> None:
    load(
        tmp_path,
        [
            handshake("a.example", stage="response"),
            handshake("a.example", stage="response", ip="198.18.48.2"),
            handshake("b.example", stage="confirmed", vantage="hong_kong", retry=True),
            handshake("c.example", outcome="timeout", stage="ack"),
            handshake("d.example", outcome="blocked", sent_at=None, **NONE),
        ],
    )
    columns = "cdn outcome stage handshakes names addresses share_of_cdn"
    others = ["Others", "blocked", None, 1, 1, 1, 1]
    assert ask("handshake_stages", columns) == [
        ["Cloudflare", "done", "response", 2, 1, 2, 0.5],
        ["Cloudflare", "done", "confirmed", 1, 1, 1, 0.25],
        ["Cloudflare", "timeout", "ack", 1, 1, 1, 0.25],
        others,
    ]
    assert ask("handshake_stages", columns, cdn="Others") == [others]
    assert ask("handshake_stages", "stage retry_share", vantage="hong_kong") == [["confirmed", 1]]
    for given in NOT_OF_THE_DAY:
        assert ask("handshake_stages", "outcome", **given) == []


def test_groups_and_ciphers_of_completed_handshakes(tmp_path: Path) -> None:
    def agreed(domain: str, group: str | None, cipher: str | None, **values: Any) -> dict[str, Any]:
        return handshake(domain, group=group, cipher=cipher, **{"hello_retry": False} | values)

    aes, chacha = "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"
    load(
        tmp_path,
        [
            agreed("a.example", "X25519MLKEM768", aes),
            agreed("b.example", "X25519MLKEM768", aes, hello_retry=True),
            agreed("b.example", "X25519", aes, vantage="hong_kong"),
            agreed("c.example", "X25519", chacha, ip="198.18.48.3"),
            agreed("d.example", None, None, hello_retry=None, **NONE),
            agreed("e.example", "X25519", aes, outcome="handshake_failed"),
        ],
    )
    columns = "cdn key_exchange suite handshakes names addresses hello_retry_share share_of_cdn"
    others = ["Others", None, None, 1, 1, 1, None, 1]
    assert ask("handshake_ciphers", columns) == [
        ["Cloudflare", "X25519MLKEM768", aes, 2, 2, 1, 0.5, 0.5],
        ["Cloudflare", "X25519", aes, 1, 1, 1, 0, 0.25],
        ["Cloudflare", "X25519", chacha, 1, 1, 1, 0, 0.25],
        others,
    ]
    assert ask("handshake_ciphers", columns, cdn="Others") == [others]
    assert ask("handshake_ciphers", "key_exchange", vantage="hong_kong") == [["X25519"]]
    for given in NOT_OF_THE_DAY:
        assert ask("handshake_ciphers", "suite", **given) == []


def certificate(
    leaf: str, key: str, bits: int | None, signed: str, size: int, **values: Any
) -> dict[str, Any]:
    empty = {column.name: None for column in records.load("certificate").file_columns}
    stamp = {name: value for name, value in STAMP.items() if name in empty}
    text = dict.fromkeys(("subject", "issuer", "serial"), "") | {"sans": "[]", "is_ca": False, "position": 0}
    shown = {"key_algorithm": key, "key_bits": bits, "signature_algorithm": signed, "der_bytes": size}
    return empty | stamp | text | shown | {"sha256": leaf * 64} | values


def test_keys_of_leaf_certificates_each_certificate_once(tmp_path: Path) -> None:
    ec, rsa = ("ec_p256", 256, "ecdsa_sha256"), ("rsa", 2048, "rsa_sha256")
    certificates = [
        certificate("a", *ec, 900),
        # Of another repetition and vantage point.
        certificate("a", *ec, 900, repetition=2),
        certificate("a", *ec, 900, vantage="hong_kong"),
        certificate("b", *ec, 1100),
        certificate("c", *rsa, 1500),
        # An issuer's own: no server's.
        certificate("f", "rsa", 4096, "rsa_sha384", 1900, position=1),
    ]
    loaded = loader.load_files([write(tmp_path / "certificate.parquet", certificates, "certificate")])
    assert isinstance(loaded[0], loader.Loaded)
    load(
        tmp_path,
        [
            handshake("a.example", leaf_sha256="a" * 64),
            handshake("b.example", leaf_sha256="a" * 64),
            handshake("c.example", leaf_sha256="b" * 64, vantage="hong_kong"),
            handshake("d.example", leaf_sha256="c" * 64),
            handshake("e.example", leaf_sha256="d" * 64, **NONE),
            handshake("f.example", leaf_sha256="c" * 64, outcome="closed"),
            handshake("g.example"),
        ],
    )
    columns = (
        "cdn key_algorithm key_bits signature_algorithm leaves handshakes share_of_leaves "
        "share_of_handshakes der_bytes_p50"
    )
    first = ["Cloudflare", *ec, 2, 3, pytest.approx(2 / 3), 0.75, 1100]
    others = ["Others", None, None, None, 1, 1, 1, 1, None]
    assert ask("handshake_keys", columns) == [
        first,
        ["Cloudflare", *rsa, 1, 1, pytest.approx(1 / 3), 0.25, 1500],
        others,
    ]
    assert ask("handshake_keys", columns, cdn="Others") == [others]
    assert ask("handshake_keys", columns, limit="1") == [first]
    assert ask("handshake_keys", "leaves handshakes", vantage="hong_kong") == [[1, 1]]
    for given in NOT_OF_THE_DAY:
        assert ask("handshake_keys", "leaves", **given) == []


def test_chains_against_the_amplification_limit(tmp_path: Path) -> None:
    def chained(
        domain: str, chain: str, size: int, *, sent: int | None = 1200, **values: Any
    ) -> dict[str, Any]:
        given: dict[str, Any] = {
            "chain_sha256": chain * 64,
            "certificate_bytes": size,
            "certificate_uncompressed_bytes": size,
            "bytes_sent_unvalidated": sent,
            "bytes_received_unvalidated": 3600,
            "bytes_received_handshake": size + 700,
            "retry": False,
        }
        return handshake(domain, **given | values)

    load(
        tmp_path,
        [
            chained("a.example", "a", 3600),  # the limit itself
            chained("b.example", "b", 3601, bytes_received_unvalidated=3601),
            chained("c.example", "b", 3601, sent=2400),
            chained("d.example", "c", 2000, certificate_uncompressed_bytes=4000, vantage="hong_kong"),
            chained(
                "e.example", "d", 900, bytes_received_handshake=None, bytes_received_unvalidated=None, **NONE
            ),
            # A validated address, two imported rows, a row without a chain, and a failed handshake.
            chained("f.example", "e", 9000, retry=True),
            chained("g.example", "e", 9000, retry=None),
            chained("h.example", "e", 9000, sent=None),
            chained("i.example", "e", 9000, chain_sha256=None),
            chained("j.example", "e", 9000, outcome="timeout"),
        ],
    )
    columns = (
        "cdn handshakes chains chains_over_limit over_limit_share uncompressed_over_limit_share "
        "flight_over_limit_share exceeded_share bytes_p50 bytes_max limit_p50"
    )
    others = ["Others", 1, 1, 0, 0, 0, None, None, 900, 900, 3600]
    assert ask("handshake_chain_sizes", columns) == [
        ["Cloudflare", 4, 3, 1, 0.25, 0.5, 0.5, 0.25, 3601, 3601, 3600],
        others,
    ]
    assert ask("handshake_chain_sizes", columns, cdn="Others") == [others]
    assert ask("handshake_chain_sizes", "chains bytes_max", vantage="hong_kong") == [[1, 2000]]
    for given in NOT_OF_THE_DAY:
        assert ask("handshake_chain_sizes", "chains", **given) == []


def test_amplification_by_three_definitions(tmp_path: Path) -> None:
    def amplified(domain: str, *, retry: bool | None = False, **values: Any) -> dict[str, Any]:
        given: dict[str, Any] = {
            "hello_datagrams": 1,
            "bytes_received": 9_000,
            "bytes_first_flight": 3_756,
            "bytes_sent_unvalidated": 1_252,
            "bytes_received_unvalidated": 3_756,
            "bytes_received_handshake": 3_756,
        }
        return handshake(domain, retry=retry, **given | values)

    load(
        tmp_path,
        [
            amplified("a.example"),  # three times
            amplified("b.example", bytes_first_flight=3_757, vantage="hong_kong"),
            # Two datagrams of ClientHello; a chain that needs a second round trip.
            amplified(
                "c.example", hello_datagrams=2, bytes_sent_unvalidated=5_008, bytes_received_handshake=25_040
            ),
            amplified(
                "d.example", ip="2001:db8::1", bytes_first_flight=1_232, bytes_received_unvalidated=12_520
            ),
            # Incomplete; without an answer; validated by a Retry; imported, so it is unknown.
            amplified("e.example", outcome="timeout", bytes_received_handshake=None, **NONE),
            amplified("f.example", bytes_received=0, bytes_first_flight=0, bytes_received_unvalidated=0),
            amplified("g.example", retry=True, bytes_first_flight=90_000),
            amplified("h.example", retry=None, bytes_first_flight=None),
        ],
    )
    columns = "cdn handshakes first_flight_p50 first_flight_max first_flight_above_share "
    columns += "unvalidated_p50 unvalidated_max unvalidated_above_share "
    columns += "handshake_p50 handshake_max handshake_above_share"
    cloudflare, others = ask("handshake_amplification", columns)
    # 3, 3.0008, 1.5, 1; 3, 3, 0.75, 10; 3, 3, 5, 3.
    assert cloudflare[:2] == ["Cloudflare", 4] and cloudflare[3] == pytest.approx(3_757 / 1_252)
    assert [*cloudflare[2:3], *cloudflare[4:]] == [3, 0.25, 3, 10, 0.25, 3, 5, 0.25]
    assert others == ["Others", 1, 3, 3, 0, 3, 3, 0, None, None, None]
    assert ask("handshake_amplification", columns, cdn="Others") == [others]
    assert ask("handshake_amplification", "handshakes", vantage="hong_kong") == [[1]]
    for given in NOT_OF_THE_DAY:
        assert ask("handshake_amplification", "handshakes", **given) == []


def test_servers_by_their_field(tmp_path: Path) -> None:
    def named(domain: str, server: str | None, status: int | None = 200, **values: Any) -> dict[str, Any]:
        return handshake(domain, **{"http": "response", "server_header": server, "status": status} | values)

    load(
        tmp_path,
        [
            named("a.example", "cloudflare", 199),
            named("a.example", "cloudflare", 299, ip="198.18.48.2"),
            named("b.example", "cloudflare", 300, vantage="hong_kong"),
            named("c.example", None),
            named("d.example", "nginx", **NONE),
            named("e.example", "cloudflare", http="incomplete"),
            handshake("f.example"),
        ],
    )
    columns = "cdn server responses successful names addresses share_of_cdn"
    first, others = ["Cloudflare", "cloudflare", 3, 1, 2, 2, 0.75], ["Others", "nginx", 1, 1, 1, 1, 1]
    assert ask("handshake_servers", columns) == [first, ["Cloudflare", None, 1, 1, 1, 1, 0.25], others]
    assert ask("handshake_servers", columns, cdn="Others") == [others]
    assert ask("handshake_servers", columns, limit="1") == [first]
    assert ask("handshake_servers", "responses", vantage="hong_kong") == [[1]]
    for given in NOT_OF_THE_DAY:
        assert ask("handshake_servers", "server", **given) == []
