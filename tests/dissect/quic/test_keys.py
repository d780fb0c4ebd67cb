"""Key logs: their sources, every cipher suite, early data, updates; columns that are null without them."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest
from aioquic import tls
from aioquic.quic.connection import QuicConnection
from aioquic.tls import CipherSuite, SessionTicket

from tests.differential import scenarios
from tests.differential.exchange import ONE_WAY_S, Exchange, write
from tests.dissect.build import V1, V2
from tests.dissect.conftest import FIXTURES, Row, dissect, rows

QUICHE = FIXTURES / "quiche.pcap"
CONNECTION = ("--kind", "quic_connection")


def alone(stack: str, folder: Path) -> Path:
    """Copy a fixture to a folder without its key log."""
    path = folder / f"{stack}.pcap"
    path.write_bytes((FIXTURES / path.name).read_bytes())
    return path


def nameless(row: Row) -> Row:
    return row | {"source_file": ""}


def opened(path: Path) -> Row:
    """Return the row for a capture with one connection, and check that every packet was decrypted."""
    (row,) = rows(path, *CONNECTION)
    assert row["undecrypted_packets"] == 0
    return row


def test_key_logs_may_be_files_or_part_of_the_capture(tmp_path: Path) -> None:
    expected = opened(QUICHE)
    without = alone("quiche", tmp_path)
    (closed,) = rows(without, *CONNECTION)
    assert closed["undecrypted_packets"] > 0
    assert closed["handshake_done_us"] is None
    # Given, as the second of two logs.
    logs = ("--keys", FIXTURES / "quinn.keys", "--keys", FIXTURES / "quiche.keys")
    (given,) = rows(without, *CONNECTION, *logs)
    assert nameless(given) == nameless(expected)
    # Inside a pcapng file.
    inside = tmp_path / "inside.pcapng"
    secrets = f"tls,{FIXTURES / 'quiche.keys'}"
    subprocess.run(
        ["editcap", "-F", "pcapng", "--inject-secrets", secrets, str(without), str(inside)], check=True
    )
    assert nameless(opened(inside)) == nameless(expected)
    # On standard input, where no key log can be found by the capture's name.
    (piped,) = rows("-", *CONNECTION, *logs, stdin=without.read_bytes())
    assert nameless(piped) == nameless(expected)


def test_a_log_of_others_opens_nothing_and_a_partial_one_what_it_can(tmp_path: Path) -> None:
    path = alone("quiche", tmp_path)
    (closed,) = rows(path, *CONNECTION)
    (others,) = rows(path, *CONNECTION, "--keys", FIXTURES / "quinn.keys")
    assert others == closed
    lines = (FIXTURES / "quiche.keys").read_text().splitlines(keepends=True)
    partial = tmp_path / "quiche.keys"
    partial.write_text("".join(line for line in lines if "HANDSHAKE" in line))
    packets = rows(path, "--kind", "quic_packet")
    assert {p["type"] for p in packets if p["opened"]} == {"initial", "handshake"}
    assert {p["type"] for p in packets if not p["opened"]} == {"1rtt"}
    # Wrong secrets decrypt nothing, and are no error.
    partial.write_text("".join(line[:-10] + "0123456789" for line in "".join(lines).split("\n") if line))
    (wrong,) = rows(path, *CONNECTION)
    assert wrong["undecrypted_packets"] == closed["undecrypted_packets"]


def test_a_log_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    done = dissect(QUICHE, "--keys", tmp_path / "none.keys")
    assert (done.returncode, done.stdout) == (3, b"")
    assert f"the key log {tmp_path / 'none.keys'} cannot be read" in done.stderr.decode()


def test_an_unreadable_log_next_to_a_capture_leaves_the_given_logs(tmp_path: Path) -> None:
    path = alone("quiche", tmp_path)
    given = ("--keys", FIXTURES / "quiche.keys")
    expected = rows(path, *CONNECTION, *given)
    # A regular file with an unreadable first byte, even for root.
    path.with_suffix(".keys").symlink_to("/proc/self/mem")
    done = dissect(path, *CONNECTION, *given, "--trim", tmp_path / "trimmed")
    assert done.returncode == 3
    assert f"{path}: the key log beside it cannot be read: " in done.stderr.decode()
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected
    # A trimmed copy would lack the packets that only that log decrypts.
    assert not (tmp_path / "trimmed").exists()


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize(
    "suite",
    [
        CipherSuite.AES_128_GCM_SHA256,
        CipherSuite.AES_256_GCM_SHA384,
        CipherSuite.CHACHA20_POLY1305_SHA256,
    ],
)
def test_every_cipher_suite_with_key_updates(suite: CipherSuite, version: int, tmp_path: Path) -> None:
    settings: dict[str, object] = {"cipher_suites": [suite], "supported_versions": [version]}
    actions: list[scenarios.Action] = [
        (0.1, scenarios.say(0, b"a", fin=False)),
        (0.2, lambda x: x.near.request_key_update()),
        (0.21, scenarios.say(0, b"b", fin=False)),
        (0.4, lambda x: x.far.request_key_update()),  # type: ignore[union-attr]
        (0.41, scenarios.answer(0, 3000)),
        (0.6, lambda x: x.near.close(error_code=0x100, reason_phrase="done")),
    ]
    with (tmp_path / "x.keys").open("w") as keys:
        exchange = Exchange(keys, actions=actions, client_settings=settings, server_settings=settings)
        row = opened(write([exchange.run()], tmp_path / "x.pcap"))
    assert row["cipher_suite"] == f"TLS_{suite.name}"
    assert (row["version"], row["version_used"]) == (f"{version:#010x}", f"{version:#010x}")
    assert (row["key_updates_client"], row["key_updates_server"]) == (2, 2)
    assert row["alpn_selected"] == "h3"
    assert (row["closed_by"], row["closed_by_application"]) == ("client", True)
    assert (row["closed_code"], row["closed_reason"]) == (0x100, "done")


def test_a_compatible_version_is_followed(tmp_path: Path) -> None:
    """The client starts with version 1 and both continue with version 2 (RFC 9368)."""
    client: dict[str, object] = {"supported_versions": [V2, V1], "original_version": V1}
    server: dict[str, object] = {"supported_versions": [V2, V1]}
    with (tmp_path / "x.keys").open("w") as keys:
        exchange = Exchange(
            keys, actions=scenarios.request(2000), client_settings=client, server_settings=server
        )
        path = write([exchange.run()], tmp_path / "x.pcap")
    (row,) = rows(path, *CONNECTION)
    assert (row["version"], row["version_used"]) == ("0x00000001", "0x6b3343cf")
    assert row["first_answer"] == "coalesced"
    # aioquic's client seals its first Initial of version 2 with keys of version 1: it cannot be decrypted.
    closed = [p for p in rows(path, "--kind", "quic_packet") if not p["opened"]]
    assert [(p["type"], p["version"], p["from_client"]) for p in closed] == [("initial", "0x6b3343cf", True)]


def test_early_data_opens(tmp_path: Path) -> None:
    """0-RTT: the second connection resumes the first one's session."""
    tickets: list[SessionTicket] = []
    known: dict[bytes, SessionTicket] = {}

    class Remembering(Exchange):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.near._session_ticket_handler = tickets.append

        def _accept(self, datagram: bytes, client: tuple[str, int]) -> QuicConnection | None:
            far = super()._accept(datagram, client)
            assert far is not None
            far._session_ticket_fetcher = known.get
            far._session_ticket_handler = lambda ticket: known.update({ticket.ticket: ticket})
            return far

    with (tmp_path / "x.keys").open("w") as keys:
        Remembering(keys, actions=scenarios.request(100)).run()
        assert tickets
        second = Remembering(
            keys,
            client_settings={"session_ticket": tickets[-1]},
            actions=[(0.001, scenarios.say(0, b"GET /early")), (0.5, lambda x: x.near.close())],
            client=("192.0.2.10", 40001),
        )
        path = write([second.run()], tmp_path / "x.pcap")
    packets = rows(path, "--kind", "quic_packet")
    early = [p for p in packets if p["type"] == "0rtt"]
    assert early
    assert all(p["opened"] for p in packets)
    assert "stream 0 0+10 fin" in early[0]["frames"]
    row = opened(path)
    # A resumed session sends no certificate.
    assert (row["certificate_bytes"], row["certificate_message_bytes"]) == (None, None)
    assert tls.CipherSuite[row["cipher_suite"].removeprefix("TLS_")]


def test_moved_clients_are_followed(tmp_path: Path) -> None:
    """A new port, with a new connection ID (migration) and with the same one (rebinding)."""
    for name in ("migration", "rebinding"):
        row = opened(scenarios.make(name, tmp_path))
        assert (row["paths"], row["migrations"]) == (2, 1)
        assert row["client_port"] == 40000
    # Without keys a known connection ID is recognised, but a new one and the migration are not.
    path = tmp_path / "rebinding.pcap"
    (tmp_path / "rebinding.keys").unlink()
    (row,) = rows(path, *CONNECTION)
    assert (row["paths"], row["migrations"]) == (2, None)


def test_transport_parameters_are_in_the_order_sent() -> None:
    row = opened(QUICHE)
    client, server = (json.loads(row[f"transport_parameters_{side}"]) for side in ("client", "server"))
    # Values from tshark.
    argv = ["tshark", "-r", str(QUICHE), "-o", f"tls.keylog_file:{QUICHE.with_suffix('.keys')}"]
    argv += ["-Y", "tls.quic.parameter.type", "-T", "fields", "-e", "tls.quic.parameter.type"]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [[int(p["id"], 0) for p in side] for side in (client, server)] == [
        [int(kind, 0) for kind in line.split(",")] for line in shown
    ]
    by_name = {p["name"]: p["value"] for p in server}
    assert by_name["original_destination_connection_id"] == row["odcid"]
    assert by_name["initial_source_connection_id"] == row["server_scid"]
    assert isinstance(by_name["initial_max_data"], int)


def test_min_ack_delay_is_given_with_its_code_point() -> None:
    found = {
        stack: (row["min_ack_delay_id_server"], row["min_ack_delay_us_server"])
        for stack in ("lsquic", "msquic", "neqo", "quinn", "quiche")
        for row in [opened(FIXTURES / f"{stack}.pcap")]
    }
    assert found == {
        "lsquic": ("0xff02de1a", 10000),
        "msquic": ("0xff03de1a", 1000),
        "neqo": ("0xff02de1a", 1000),
        "quinn": ("0xff04de1a", 1000),
        "quiche": (None, None),
    }


def test_samples_and_timeouts_of_a_client(tmp_path: Path) -> None:
    """A path of 20 ms: the first timeout is three times the first sample."""
    row = opened(scenarios.make("plain", tmp_path))
    assert (row["capture_side"], row["rtt_min_us"]) == ("client", 20000)
    series = json.loads(row["rtt_series_us"])
    assert len(series) == row["rtt_samples"] == len(json.loads(row["rtt_series_at_us"]))
    assert series[0] == 20000
    # The first is 3 x RTT (RFC 9002 5.3, 6.2.1).
    assert json.loads(row["pto_series_us"])[0] == 60000


def test_spurious_retransmissions_are_distinguished_from_needed_ones(tmp_path: Path) -> None:
    """A late datagram makes the server retransmit bytes that arrive anyway; a lost one, bytes that do not."""
    late_or_lost: dict[str, float | None] = {"late": 0.2, "lost": None}
    spurious = {}
    for name, delay in late_or_lost.items():
        with (tmp_path / f"{name}.keys").open("w") as keys:

            def path(from_client: bool, n: int, delay: float | None = delay) -> float | None:
                return delay if (from_client, n) == (False, 8) else ONE_WAY_S

            exchange = Exchange(keys, path=path, actions=scenarios.request())
            capture = write([exchange.run()], tmp_path / f"{name}.pcap")
        row = opened(capture)
        spurious[name] = row["spurious_retransmissions_server"]
        assert row["spurious_retransmissions_client"] == 0
    # The server may retransmit the bytes of one datagram in two.
    assert spurious["late"] in (1, 2)
    assert spurious["lost"] == 0
    # The client's direction does not show which datagrams arrived.
    (row,) = rows(scenarios.make("client_only", tmp_path), *CONNECTION)
    assert row["spurious_retransmissions_client"] is None


def test_certificates_are_weighed() -> None:
    """Return the total size of the certificates by tshark."""
    for stack in ("quiche", "quic-go", "msquic"):
        path = FIXTURES / f"{stack}.pcap"
        argv = ["tshark", "-r", str(path), "-o", f"tls.keylog_file:{path.with_suffix('.keys')}"]
        argv += ["-Y", "tls.handshake.certificate", "-T", "fields", "-e", "tls.handshake.certificate_length"]
        shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
        lengths = [int(n) for n in shown[0].split(",")]
        row = opened(path)
        assert row["certificate_bytes"] == sum(lengths)
        assert row["certificate_message_bytes"] > row["certificate_bytes"]


def test_many_connections_find_their_lines(tmp_path: Path) -> None:
    """Lines of several connections mixed in one log, with unusable lines between them."""
    log = io.StringIO()
    captures = [
        Exchange(
            log, actions=scenarios.request(500), client=("192.0.2.10", 41000 + n), start_s=n * 0.01
        ).run()
        for n in range(20)
    ]
    lines = log.getvalue().splitlines(keepends=True)
    mixed = ["# a comment\n", *sorted(lines, key=lambda line: line.split()[2]), "CLIENT_RANDOM 00 00\n"]
    (tmp_path / "x.keys").write_text("".join(mixed))
    found = rows(write(captures, tmp_path / "x.pcap"), *CONNECTION)
    assert len(found) == 20
    assert all(row["undecrypted_packets"] == 0 for row in found)


def test_a_file_that_is_no_key_log_is_reported(tmp_path: Path) -> None:
    """As a key log it decrypts nothing; an empty file may still become one."""
    capture = FIXTURES / "quiche.pcap"
    for content, expected in ((capture.read_bytes(), 1), (b"CLIENT_RANDOM 00 11\n", 1), (b"", 0)):
        other = tmp_path / "other"
        other.write_bytes(content)
        done = dissect(capture, "--keys", other)
        assert done.returncode == 0
        warning = f"the key log {other} holds no secret of a QUIC connection".encode()
        assert done.stderr.count(warning) == expected
