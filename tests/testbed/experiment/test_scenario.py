"""A scenario's path and certificate: late datagrams, two delays, loss by netem, kinds of keys."""

from __future__ import annotations

import re
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.verification import PolicyBuilder, Store

from firstflight.system import binaries
from lab.hosts.certificates import KeyKind, issue, make_authority
from testbed import experiment_files, stacks
from testbed.experiment import conditions
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.measures.gains import gain
from testbed.trials import block, trial_row
from testbed.trials.network import losses, path, reordering

GIVEN = {"client": "quinn", "server": "quinn", "answering": "iack", "rtt_ms": 20}
LATE = {"reorder_to_client": (10, 3), "reorder_ms": 5}


def cell(**more: Any) -> Cell:
    return Cell.model_validate({**GIVEN, **more})


def lines(**more: Any) -> list[str]:
    return [" ".join(command) for command in path.commands(cell(**more))]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"reorder_ms": 5}, "`reorder_ms` and reordered datagrams"),
        ({"reorder_percent": 1}, "`reorder_ms` and reordered datagrams"),
        ({"reorder_to_server": (1,)}, "need each other: give both"),
        ({"reorder_to_client": (0,), "reorder_ms": 5}, "greater than or equal to 1"),
        ({"reorder_percent": 100, "reorder_ms": 5}, "less than 100"),
        ({"reorder_percent": 1, "reorder_ms": 0}, "greater than 0"),
        ({**LATE, "qdisc": "fq"}, "with the qdisc fq, whose queue is in netem: use `reorder"),
        ({"reorder_percent": 1, "reorder_ms": 5, "qdisc": "none"}, "do not work with the qdisc none"),
        ({"delay_to_server_ms": 20}, "is not less than the RTT of 20 ms"),
        ({"delay_to_server_ms": 0}, "greater than 0"),
        (
            {"netem_loss_to_client_percent": 1, "qdisc": "fq"},
            "with the qdisc fq, whose queue is in netem: use `loss",
        ),
        ({"netem_loss_to_server_percent": 1, "drop_second_flight": True}, "needs a repetition 0 without"),
        ({"netem_loss_to_client_percent": 1, "drop_second_flight": True}, "needs a repetition 0 without"),
        ({"certificate_key": "rsa_2048", "certificate_bytes": 1499}, "has 1500 bytes at least: give more"),
        ({"certificate_key": "rsa_4096"}, "'ecdsa_p256' or 'rsa_2048'"),
    ],
)
def test_impossible_scenarios_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cell(**more)


@pytest.mark.parametrize(
    ("more", "name"),
    [
        ({}, "20ms"),
        ({"delay_to_server_ms": 5}, "20ms-5ms-up"),
        ({"reorder_percent": 2.5, "reorder_ms": 0.5}, "20ms-2.5reordered-0.5ms-behind"),
        (
            {**LATE, "reorder_to_server": (2,), "named": ("reorder_to_client", "reorder_to_server")},
            "20ms-5ms-behind-down-10-3-reordered-up-2-reordered",
        ),
        ({"netem_loss_to_client_percent": 1}, "20ms-1netem-down"),
        ({"netem_loss_to_server_percent": 0.1, "qdisc": "fq"}, "20ms-at-fq-0.1netem-up"),
        ({"certificate_key": "rsa_2048", "certificate_bytes": 1500}, "20ms-rsa-2048-key"),
        ({"alpn": "h3"}, "20ms-h3"),
    ],
)
def test_a_condition_is_in_the_name_the_row_and_the_seed(more: dict[str, Any], name: str) -> None:
    """Each condition changes the cell's seed. Cells without the condition keep their seeds."""
    made = cell(**more)
    assert made.name == f"quinn-quinn-iack-{name}"
    row = trial_row.without_trial("x", made, 1, "guest_failed", None)
    filled_in = {"delay_to_server_ms", "rate_to_server_mbit", "alpn"}
    for field in Cell.model_fields.keys() & row.keys() - filled_in:
        value = getattr(made, field)
        if field != "queue_to_server_packets":
            assert row[field] == (list(value) if isinstance(value, tuple) else value)
    assert row["delay_to_server_ms"] == more.get("delay_to_server_ms", 10)
    assert row["alpn"] == "h3" and row["reordered"] is None
    (with_condition,), (plain,) = block.blocks("x", made, 1), block.blocks("x", cell(), 1)
    assert (with_condition.seed == plain.seed) == (not more)
    assert plain.seed == 7817616880166489285


def test_a_condition_has_words() -> None:
    every = {condition.name for condition in conditions.conditions([cell()])}
    assert not every & Cell.model_fields.keys()
    assert "Delay to the server, of the RTT [ms]" in every


def test_the_delays_of_both_directions_are_the_rtt() -> None:
    shown = lines(delay_to_server_ms=5)
    assert "tc -n link qdisc add dev to_server root netem delay 5000us limit 1000000" in shown
    assert "tc -n link qdisc add dev to_client root netem delay 15000us limit 1000000" in shown
    queued_s = 25 * 1514 * 8 / 10e6
    assert path.longest_wait_s(cell(delay_to_server_ms=5)) == pytest.approx(queued_s + 0.015)
    assert path.longest_wait_s(cell(delay_to_server_ms=19)) == pytest.approx(queued_s + 0.019)
    assert path.longest_wait_s(cell(**LATE)) == pytest.approx(queued_s + 0.015)


def test_netem_loses_in_one_direction_or_both() -> None:
    assert not [line for line in lines() if "loss" in line]
    to_client = "tc -n link qdisc add dev to_client root netem delay 10000us loss random 1.5% limit 1000000"
    assert [line for line in lines(netem_loss_to_client_percent=1.5) if "loss" in line] == [to_client]
    (to_server,) = (line for line in lines(netem_loss_to_server_percent=1e-5) if "loss" in line)
    assert to_server == to_client.replace("to_client", "to_server").replace("1.5%", "1e-05%")
    assert path.scripts(cell(netem_loss_to_client_percent=1), 1) == []


@pytest.mark.parametrize(
    ("more", "ends"),
    [
        (LATE, ["client"]),
        ({"reorder_to_server": (1,), "reorder_ms": 5}, ["server"]),
        ({"reorder_percent": 1, "reorder_ms": 5}, ["client", "server"]),
        ({"reorder_to_server": (1,), "reorder_ms": 5, "qdisc": "fq"}, ["server"]),
    ],
)
def test_late_datagrams_have_a_separate_delay(more: dict[str, Any], ends: list[str]) -> None:
    shown = lines(**more)
    for end in ends:
        add_qdisc = f"tc -n link qdisc add dev to_{end}"
        begin = shown.index(f"{add_qdisc} root handle 3: prio bands 2 priomap {' '.join('0' * 16)}")
        assert shown[begin + 1 : begin + 3] == [
            f"{add_qdisc} parent 3:1 netem delay 10000us limit 1000000",
            f"{add_qdisc} parent 3:2 netem delay 15000us limit 1000000",
        ]
    assert sum("prio" in line for line in shown) == len(ends)


def test_datagrams_are_held_back_by_number_lost_ones_included() -> None:
    both = cell(**LATE, drop_to_client=(10,))
    (drops, dropped), (reorders, marked) = path.scripts(both, 1)
    assert (drops, reorders) == (path.DROPS, path.REORDERED)
    assert "priority 0 ;" in dropped and "{ 9 } counter drop" in dropped
    assert "priority -1 ;" in marked
    assert "oifname to_client numgen inc mod 1000000000 { 2, 9 } counter meta priority set 3:2\n" in marked
    assert "to_server" not in marked
    assert path.scripts(cell(), 1) == []


def test_late_datagrams_are_the_same_in_all_cells_of_a_repetition() -> None:
    plain = cell(reorder_percent=1, reorder_ms=5, body_bytes=1_000_000)
    other = plain.model_copy(update={"client": "quic-go", "rtt_ms": 100.0, "reorder_ms": 50.0})
    assert path.reordered(plain, 3) == path.reordered(other, 3) != path.reordered(plain, 4)
    down, up = (reordering.numbers(plain, direction, 3) for direction in ("to_client", "to_server"))
    assert down != up
    counts = [len(reordering.numbers(plain, "to_client", number)) for number in range(1, 101)]
    assert sum(counts) / 100 == pytest.approx(5000 * 0.01, rel=0.05)
    named = plain.model_copy(update={"reorder_to_client": (4999, 1)})
    assert reordering.numbers(named, "to_client", 3) == tuple(sorted({1, 4999, *down}))
    # Lost datagrams have other numbers than late ones: otherwise no late datagram would arrive.
    lossy = plain.model_copy(update={"loss_percent": 1.0})
    assert set(losses.lost_datagrams(lossy, "to_client", 3)) != set(down)
    # A trial without a late datagram must not keep the rules of the one before it.
    rare = path.reordered(cell(reorder_percent=1e-6, reorder_ms=5), 1) or ""
    assert "delete table" in rare and "numgen" not in rare


@pytest.mark.parametrize(
    "column",
    [
        *("delay_to_server_ms", "certificate_key", "netem_loss_to_client_percent"),
        *("netem_loss_to_server_percent", "reorder_percent", "reorder_ms"),
    ],
)
def test_cells_that_differ_in_it_are_no_pair(column: str) -> None:
    assert column in gain._CONDITIONS


@pytest.mark.parametrize(
    ("kind", "key"), [("rsa_2048", rsa.RSAPublicKey), ("ecdsa_p256", ec.EllipticCurvePublicKey)]
)
@pytest.mark.parametrize("length", [1500, 2999, 3000, 5000])
def test_a_chain_has_its_keys_and_its_length(tmp_path: Path, kind: KeyKind, key: type, length: int) -> None:
    authority = make_authority(tmp_path)
    files = issue(authority, "own", ["www.testbed.test"], chain_bytes=length, key_kind=kind)
    leaf, *above = x509.load_pem_x509_certificates(files.chain.read_bytes())
    assert all(isinstance(certificate.public_key(), key) for certificate in (leaf, *above))
    total = sum(len(certificate.public_bytes(Encoding.DER)) for certificate in (leaf, *above))
    assert length - 5 <= total <= length + 45
    store = Store([x509.load_pem_x509_certificate(authority.path.read_bytes())])
    verifier = PolicyBuilder().store(store).time(datetime.now(UTC))
    verifier.build_server_verifier(x509.DNSName("www.testbed.test")).verify(leaf, above)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (("ecdsa_p256", "rsa_2048"), None),
        (("ecdsa_p256",), "the server quiche does not sign with keys of the type rsa_2048"),
    ],
)
def test_a_server_signs_with_what_it_can(
    keys: tuple[str, ...], reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = cell(server="quiche", certificate_key="rsa_2048", certificate_bytes=5000)
    found = stacks.find("quiche").model_copy(update={"certificate_keys": keys})
    monkeypatch.setitem(stacks.load(), "quiche", found)
    assert block.blocks("", made, 1)[0].unavailable() == reason


def test_all_our_servers_sign_with_either_key() -> None:
    servers = {
        name: stack.certificate_keys for name, stack in stacks.load().items() if stack.server is not None
    }
    assert servers == dict.fromkeys(servers, ("ecdsa_p256", "rsa_2048"))


def test_the_scenarios_of_the_page_are_ones(tmp_path: Path) -> None:
    page = (binaries.repository() / "docs/testbed/scenarios.md").read_text(encoding="utf-8")
    found = re.findall(r"`(\w+\.toml)`:\n\n((?:    .*\n)+)", page)
    assert [(name, len(_scenario(tmp_path / name, text).cells())) for name, text in found] == [
        ("late.toml", 12),
        ("keys.toml", 16),
    ]


def _scenario(file: Path, indented: str) -> Experiment:
    file.write_text(textwrap.dedent(indented), encoding="utf-8")
    return experiment_files.read(file)
