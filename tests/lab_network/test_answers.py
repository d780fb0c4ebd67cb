"""HTTP/3 responses of names, and the truth about their handshakes, according to the behaviour file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from firstflight.errors import UsageError
from lab import stacks
from lab.declared import answers, internet
from lab.declared.behaviour import AnswerEntry, FieldsEntry
from lab.declared.model import Endpoint
from lab.expected.handshake_truth import HandshakeTruth
from lab.hosts.servers import CHAIN_BYTES, chain_file, services

NET = internet.load()
DECLARED = (AnswerEntry(status=301, share=0.25), AnswerEntry(status=503, share=0.05))


def test_names_draw_by_the_shares() -> None:
    drawn = Counter(answers.choose(DECLARED, 7, f"n{i}.test").status for i in range(4000))
    assert drawn.keys() == {200, 301, 503}
    assert 900 < drawn[301] < 1100 and 150 < drawn[503] < 250
    assert answers.choose((), 7, "n.test").status == 200


def test_fields_are_filled() -> None:
    fields = FieldsEntry(headers=(("cf-ray", "{hex}-{place}"), ("age", "{age}")), places=("HAM", "LAX"))
    entry = AnswerEntry(status=301, headers=(("location", "https://{domain}/"),), delay_ms=1.5)
    made = answers.answer(entry, fields, 7, "a.test", "198.18.0.1")
    assert (made.status, made.delay_us, made.place) == (301, 1500, made.headers[0][1][-3:])
    assert len(made.headers[0][1]) == 16 + 4 and made.headers[1][1].isdecimal()
    assert made.headers[2] == ("location", "https://a.test/")
    other = answers.answer(entry, fields, 7, "b.test", "198.18.0.1")
    assert other.place == made.place and other.headers[0] != made.headers[0]
    plain = FieldsEntry(headers=(("x-ref", "{place}"),), places=("HAM",))
    assert answers.answer(entry, plain, 7, "a.test", "198.18.0.1").place is None


def test_all_kinds_of_answers_and_certificates_occur() -> None:
    real = [e for e in NET.endpoints if e.stack in ("quiche", "quic-go", "aioquic")]
    assert {e.http and e.http.status for e in real} == {200, 301, 403, 404, 503, None}
    assert {e.certificate for e in real} == {"small", "large", "self_signed", "other_name", "expired"}
    assert {e.alpn for e in real} == {"h3", "h2", ""}
    for stack in ("quiche", "quic-go", "aioquic"):
        late = [e for e in real if e.stack == stack and e.http and e.http.delay_us]
        assert late and any(e.http and dict(e.http.headers).get("location") for e in real), stack
    for cdn in ("Amazon", "Cloudflare", "Fastly"):
        assert len({e.http and e.http.place for e in real if e.cdn == cdn}) >= 4


def test_every_endpoint_has_a_truth(tmp_path: Path) -> None:
    services(NET, tmp_path)
    truth = HandshakeTruth(NET, tmp_path)
    assert len({frozenset(truth.columns(endpoint)) for endpoint in NET.endpoints}) == 1, "the same columns"
    for endpoint in NET.endpoints:
        found = truth.columns(endpoint)
        assert (found["outcome"] == "blocked") == (endpoint.outcome == "blocked")
        assert (found["chain_sha256"] is not None) == (found["outcome"] == "done")
        assert (truth.response(endpoint) is not None) == (found["http"] == "response")
        assert (truth.at_least(endpoint, "hamburg") != {}) == (found["outcome"] == "done")
    assert len(list(truth.certificates())) == len({row["sha256"] for row in truth.certificates()}) > 10


def test_certificate_flaws_match_their_names(tmp_path: Path) -> None:
    services(NET, tmp_path)
    root = x509.load_pem_x509_certificate((tmp_path / "certificates" / "ca.pem").read_bytes())

    def read(endpoint: Endpoint) -> x509.Certificate:
        file = chain_file(tmp_path, endpoint.stack, endpoint.certificate)
        return x509.load_pem_x509_certificates(file.read_bytes())[0]

    flawed = {e.certificate: read(e) for e in NET.endpoints if e.certificate not in CHAIN_BYTES}
    flawed["self_signed"].verify_directly_issued_by(flawed["self_signed"])
    for name in ("other_name", "expired"):
        flawed[name].verify_directly_issued_by(root)
    assert flawed["expired"].not_valid_before_utc < flawed["expired"].not_valid_after_utc
    assert flawed["expired"].not_valid_after_utc < flawed["other_name"].not_valid_after_utc


def test_a_mode_without_a_truth_is_one_sentence() -> None:
    rogue = next(e for e in NET.endpoints if e.stack == "rogue" and e.outcome != "blocked")
    with pytest.raises(UsageError, match=r"rogue/manifest\.toml has neither"):
        HandshakeTruth(NET).columns(replace(rogue, mode="sh_then_certificate"))
    assert "sh_then_certificate" in stacks.find("rogue").modes
